"""Finds the letters that a person names: the newest of a job, or one by its key."""

import re
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from headrace.cli.ids import whole_id
from headrace.cli.looking import look_at_each, queues_of
from headrace.cli.shapes import key_text
from headrace.cli.stepping import batches
from headrace.model.errors import Refused
from headrace.model.finished import Letter, LetterKey
from headrace.model.job import check_id
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr
from headrace.stores.contract.store import Store
from headrace.stores.shared.cursors import write_cursor

_KEY = re.compile(r"([0-9]{1,3}):([0-9]{1,18})")


class Named(Struct, frozen=True):
    """A letter as it was named, and where it is; None if it is nowhere."""

    name: str
    queue: Queue | None = None
    letter: Letter | None = None
    letters: int = 0
    """How many letters the job has."""

    @property
    def key(self) -> str | None:
        """The letter's key as people write it."""
        return None if self.letter is None else key_text(self.letter.key)


async def letters_named(store: Store, tenant: str, queue_name: str | None, names: Sequence[str]) -> list[Named]:
    """The letters of these names, in their order, each once.

    A name is a job's id, or else a letter's key. Raises `Refused` for one that several queues know.
    """
    queues = await queues_of(store, tenant, queue_name)
    names = list(dict.fromkeys([await whole_id(store, queues, name) for name in names]))
    found: dict[str, list[Named]] = {name: [] for name in names}
    for part in batches(names):
        async for queue, answers in look_at_each(queues, partial(store.reads.find, ids=part)):
            for id, known in zip(part, answers, strict=True):
                if known is not None and known.letters:
                    newest = max(known.letters, key=lambda letter: letter.key)
                    found[id].append(Named(id, queue, newest, len(known.letters)))
    for name in names:
        key = key_of(name)
        if not found[name] and key is not None:
            async for queue, letter in look_at_each(queues, partial(letter_at, store, key)):
                if letter is not None:
                    found[name].append(Named(name, queue, letter, 1))
    return [_one(name, found[name]) for name in names]


def key_of(text: str) -> LetterKey | None:
    """The key that a text is, if it is one."""
    written = _KEY.fullmatch(text)
    return None if written is None else LetterKey(int(written[1]), int(written[2]))


async def letter_at(store: Store, key: LetterKey, queue: Queue) -> Letter | None:
    """The letter of a key."""
    if key.shard >= queue.shards or key.number < 1:
        return None
    page = await store.dead.list(queue, cursor=write_cursor(key.shard, str(key.number - 1)), limit=1)
    return next((letter for letter in page.rows if letter.key == key), None)


def check_names(names: Sequence[str]) -> None:
    """Refuse what can be no id, before anything is looked at."""
    for name in names:
        check_id(name, Queue("any").companion)


def _one(name: str, found: Sequence[Named]) -> Named:
    if len(found) > 1:
        queues = " and ".join(each.queue.full_name for each in found if each.queue is not None)
        raise Refused(
            "several_queues", f"{bounded_repr(name)} names letters of the queues {queues}; say which with --queue"
        )
    return found[0] if found else Named(name)
