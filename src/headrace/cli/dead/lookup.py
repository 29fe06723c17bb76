"""Finds the dead letters that a person names: the newest of a job, or one by its key."""

import re
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from headrace.cli.bulk import batches
from headrace.cli.job_ids import whole_id
from headrace.cli.queue_lookup import look_at_each, queues_of
from headrace.cli.render import key_text
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import check_id
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr
from headrace.stores.contract.store import Store
from headrace.stores.shared.cursors import write_cursor

_KEY = re.compile(r"([0-9]{1,3}):([0-9]{1,18})")


class Named(Struct, frozen=True):
    """A dead letter as it was named, and where it is; None if it is nowhere."""

    name: str
    queue: Queue | None = None
    dead_letter: DeadLetter | None = None
    dead_letters: int = 0
    """How many dead letters the job has."""

    @property
    def key(self) -> str | None:
        """The dead letter's key as people write it."""
        return None if self.dead_letter is None else key_text(self.dead_letter.key)


async def dead_letters_named(store: Store, tenant: str, queue_name: str | None, names: Sequence[str]) -> list[Named]:
    """The dead letters of these names, in their order, each once.

    A name is a job's id, or else a dead letter's key. Raises `Refused` for one that several queues know.
    """
    queues = await queues_of(store, tenant, queue_name)
    names = list(dict.fromkeys([await whole_id(store, queues, name) for name in names]))
    found: dict[str, list[Named]] = {name: [] for name in names}
    for part in batches(names):
        async for queue, answers in look_at_each(queues, partial(store.reads.find, ids=part)):
            for id, known in zip(part, answers, strict=True):
                if known is not None and known.dead_letters:
                    newest = max(known.dead_letters, key=lambda dead_letter: dead_letter.key)
                    found[id].append(Named(id, queue, newest, len(known.dead_letters)))
    for name in names:
        key = key_of(name)
        if not found[name] and key is not None:
            async for queue, dead_letter in look_at_each(queues, partial(dead_letter_at, store, key)):
                if dead_letter is not None:
                    found[name].append(Named(name, queue, dead_letter, 1))
    return [_one(name, found[name]) for name in names]


def key_of(text: str) -> DeadLetterKey | None:
    """The key that a text is, if it is one."""
    written = _KEY.fullmatch(text)
    return None if written is None else DeadLetterKey(int(written[1]), int(written[2]))


async def dead_letter_at(store: Store, key: DeadLetterKey, queue: Queue) -> DeadLetter | None:
    """The dead letter of a key."""
    if key.shard >= queue.shards or key.number < 1:
        return None
    page = await store.dead.list(queue, cursor=write_cursor(key.shard, str(key.number - 1)), limit=1)
    return next((dead_letter for dead_letter in page.rows if dead_letter.key == key), None)


def check_names(names: Sequence[str]) -> None:
    """Refuse what can be no id, before anything is looked at."""
    for name in names:
        check_id(name, Queue("any").fail_queue)


def _one(name: str, found: Sequence[Named]) -> Named:
    if len(found) > 1:
        queues = " and ".join(each.queue.full_name for each in found if each.queue is not None)
        raise Refused(
            "several_queues", f"{bounded_repr(name)} names dead letters of the queues {queues}; say which with --queue"
        )
    return found[0] if found else Named(name)
