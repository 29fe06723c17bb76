"""Publishes the items of a file: one JSON object a line, checked in parts before anything of the part is published."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from headrace.cli.feeds.options import instance
from headrace.cli.feeds.position import chosen_place, refusal
from headrace.cli.feeds.publish import identified
from headrace.cli.jsonl import lines_of
from headrace.client.codec import JSON
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import LAST, FeedName, Publication
from headrace.model.limits import (
    BATCH_MAX,
    CHANGES_PAGE_BYTES,
    LINES_CHECKED_BYTES_MAX,
    LINES_CHECKED_MAX,
    LINES_REFUSED_SHOWN_MAX,
)
from headrace.model.results import Published
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.contract.store import Store


class FeedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """An item in a file."""

    item: Any | UnsetType = UNSET
    id: str | None = None
    before: str | None = None
    after: str | None = None
    first: bool = False
    edit: bool = False


class RefusedFeedLine(Struct, frozen=True):
    """An item that the feed would not have."""

    line: int
    id: str | None
    status: str
    error: str


class Numbered(NamedTuple):
    """A publication and the line that it stands in."""

    line: int
    publication: Publication


class FeedLineTally(Struct):
    """What became of the lines so far."""

    lines: int = 0
    """All lines up to this one were published."""
    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedFeedLine] = field(default_factory=list)
    """The first of them."""
    refusals: int = 0

    def count(self, feed: FeedName, call: list[Numbered], answers: list[Published]) -> None:
        """Take in the answers to one call."""
        self.sent += len(call)
        self.lines = call[-1].line
        self.statuses.update(answer.status for answer in answers)
        for (line, publication), answer in zip(call, answers, strict=True):
            if answer.ok:
                continue
            self.refusals += 1
            if len(self.refused) < LINES_REFUSED_SHOWN_MAX:
                told = str(refusal(feed, answer.status, publication.id, publication.position))
                self.refused.append(RefusedFeedLine(line, answer.id, answer.status, told))

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses.items())) or "nothing"


async def publish_lines(
    store: Store, feed: FeedName, type: str, file: BinaryIO, tally: FeedLineTally, advance: Callable[[int], None]
) -> None:
    """Publish all items of a file and count them; stops at the first line that is wrong, or when the store is away.

    Raises an error that says which lines were published: all up to a line, and none behind it.
    """
    parts = _parts(file)
    try:
        while (part := next(parts, None)) is not None:
            for call in _calls(part):
                await _publish(store, feed, type, call, tally)
                advance(len(call))
    except Refused as refused:
        told = f"{refused}; {_so_far(tally)}"
        # Once something was published, asking again is not harmless any more.
        raise OutcomeUnknown(told) if tally.lines else Refused(refused.reason, told) from refused


async def _publish(store: Store, feed: FeedName, type: str, call: list[Numbered], tally: FeedLineTally) -> None:
    first, last = call[0].line, call[-1].line
    publications = [identified(each.publication, type) for each in call]
    try:
        answers = await store.items.publish(feed, publications, instance=instance())
    except Refused as refused:  # nothing of this call was published
        raise Refused(refused.reason, f"lines {first:,} to {last:,} were refused: {refused}") from refused
    except (StoreUnavailable, OutcomeUnknown) as error:
        raise _stopped(error, tally, first, last, feed) from error
    tally.count(feed, call, list(answers))


def _parts(file: BinaryIO) -> Iterator[list[Numbered]]:
    part: list[Numbered] = []
    size = 0
    for number, line in enumerate(lines_of(file), 1):
        if not line.strip():
            continue
        try:
            part.append(Numbered(number, publication_of(line)))
        except Refused as refused:
            raise Refused(refused.reason, f"line {number:,} is wrong: {refused}") from refused
        size += len(line)
        if len(part) == LINES_CHECKED_MAX or size > LINES_CHECKED_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part


def _calls(part: list[Numbered]) -> Iterator[list[Numbered]]:
    """The items in parts that one call takes."""
    call: list[Numbered] = []
    size = 0
    for each in part:
        if call and (len(call) == BATCH_MAX or size + len(each.publication.item) > CHANGES_PAGE_BYTES):
            yield call
            call, size = [], 0
        call.append(each)
        size += len(each.publication.item)
    yield call


def publication_of(line: bytes) -> Publication:
    """The item of a line; raises `Refused` for a line that holds none."""
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        for name in names:
            if name not in FeedLine.__struct_fields__:
                near = nearest(name, FeedLine.__struct_fields__)
                hint = f"did you mean {near!r}?" if near else f"known are {', '.join(FeedLine.__struct_fields__)}"
                raise Refused(
                    "bad_line", f'a line has no {bounded_repr(name)}; {hint}; the item itself stands in "item"'
                )
        found = msgspec.json.decode(line, type=FeedLine)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Refused(
            "bad_line", f'a JSON object was wanted, such as {{"item": {{"user_id": 42}}, "id": "a"}} ({error})'
        ) from error
    if found.item is UNSET:
        raise Refused("bad_item", 'it has no item; add one ("item": {"user_id": 42})')
    place = chosen_place(found.before, found.after, found.first)
    return Publication(JSON.encode(found.item), found.id, place or LAST, found.edit)


def _so_far(tally: FeedLineTally) -> str:
    if not tally.lines:
        return "nothing was published"
    return (
        f"lines 1 to {tally.lines:,} were published ({tally}) and none behind them; go on from line {tally.lines + 1:,}"
    )


def _stopped(error: HeadraceError, tally: FeedLineTally, first: int, last: int, feed: FeedName) -> HeadraceError:
    """The error with what was published."""
    if isinstance(error, StoreUnavailable):
        return OutcomeUnknown(f"{error}; {_so_far(tally)}") if tally.lines else error
    before = f"lines 1 to {tally.lines:,} were published ({tally}), and " if tally.lines else ""
    return OutcomeUnknown(
        f"{error}; {before}of lines {first:,} to {last:,} some may have been: look with headrace feeds items"
        f" {feed.name} before you publish them again"
    )
