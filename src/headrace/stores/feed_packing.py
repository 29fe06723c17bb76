"""Heads, configurations and changes of feeds as columns, for stores of rows: what no statement looks at is packed,
since columns cost time."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal

import msgspec

from headrace.model.feed import FIRST, LAST, Changed, ChangeEvent, FeedConfig, Place
from headrace.stores.transitions.feed_rows import FeedHead

EVENTS: tuple[ChangeEvent, ...] = ("created", "configured", "deleted", "published", "edited", "retracted", "moved")
"""Events by the number under which they are stored: add behind the last, and never put them into another order."""
PIECE_MAX, PIECE_BYTES = 100, 64 * 1024
"""Changes of one call lie together in pieces of this size: a reader unpacks a piece whole, retention drops it whole."""
_NUMBERS = {event: number for number, event in enumerate(EVENTS)}


class _About(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a change; written short when the fields at its end are not set."""

    event: int
    epoch: int
    instance: str
    reason: Literal["count", "age"] | None = None
    where: Literal["first", "last", "before", "after"] | None = None
    neighbour: str | None = None


class _Line(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A change among others of the same call; written short when the fields at its end are not set."""

    event: int
    id: str
    item: bytes
    reason: Literal["count", "age"] | None = None
    where: Literal["first", "last", "before", "after"] | None = None
    neighbour: str | None = None


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_About).decode
_unpack_lines = msgspec.msgpack.Decoder(list[_Line]).decode


_counters = attrgetter(
    "epoch",
    "seq",
    "seq_epoch",
    "at_ms",
    "first_seq",
    "oldest_at_ms",
    "changes_bytes",
    "items",
    "total",
    "number",
)


def counters_of(head: FeedHead) -> tuple[int, ...]:
    """What changes of a head, in the order of its columns; its birth and when it was created come before."""
    counters: tuple[int, ...] = _counters(head)
    return counters


def head_columns(head: FeedHead) -> tuple[Any, ...]:
    """A whole head, as `FeedHead` takes it back."""
    return head.birth, head.created_at_ms, *counters_of(head)


def write_config(config: FeedConfig) -> str:
    """The text that a configuration is stored as."""
    return msgspec.json.encode(config).decode()


@lru_cache(maxsize=1_024)  # as many feeds as a busy store has, at one version each
def read_config(text: str) -> FeedConfig:
    """The configuration that is stored as this text."""
    return msgspec.json.decode(text, type=FeedConfig)


def change_columns(change: Changed) -> tuple[int, int, bytes, bytes, bytes]:
    """The columns of a change: its number, its instant, the id in UTF-8, the rest packed, and the item."""
    event, place = _NUMBERS[change.event], change.place
    if place is not None:
        about = _pack((event, change.epoch, change.instance, change.reason, place.where, place.id))
    elif change.reason is not None:
        about = _pack((event, change.epoch, change.instance, change.reason))
    else:
        about = _pack((event, change.epoch, change.instance))
    return change.seq, change.at_ms, change.id.encode(), about, change.item


def change_of(columns: Sequence[Any]) -> Changed:
    """A change from its columns."""
    seq, at_ms, id, packed, item = columns
    about = _unpack(packed)
    return Changed(
        seq=seq,
        epoch=about.epoch,
        at_ms=at_ms,
        event=EVENTS[about.event],
        instance=about.instance,
        id=id.decode(),
        item=item,
        place=_place(about.where, about.neighbour),
        reason=about.reason,
    )


def pieces_of(changes: Sequence[Changed]) -> Iterator[tuple[int, int, int, str, bytes]]:
    """The changes of one call in pieces: the last number, the instant, the epoch, the instance, and the rest packed."""
    lines: list[tuple[object, ...]] = []
    size = 0
    for change in changes:
        lines.append(_line_of(change))
        size += len(change.item)
        if len(lines) == PIECE_MAX or size >= PIECE_BYTES or change is changes[-1]:
            yield change.seq, change.at_ms, change.epoch, change.instance, _pack(lines)
            lines, size = [], 0


def changes_of(columns: Sequence[Any], after: int) -> Iterator[Changed]:
    """The changes of a piece with `seq > after`."""
    last_seq, at_ms, epoch, instance, packed = columns
    for seq, line in _lines_behind(after, last_seq, packed):
        yield Changed(
            seq=seq,
            epoch=epoch,
            at_ms=at_ms,
            event=EVENTS[line.event],
            instance=instance,
            id=line.id,
            item=line.item,
            place=_place(line.where, line.neighbour),
            reason=line.reason,
        )


def sizes_of(columns: Sequence[Any], after: int) -> Iterator[tuple[int, int, int]]:
    """What retention has to know of the changes of a piece with `seq > after`: the number, instant and size of each."""
    last_seq, at_ms, _, _, packed = columns
    for seq, line in _lines_behind(after, last_seq, packed):
        yield seq, at_ms, len(line.id.encode()) + len(line.item)


def _lines_behind(after: int, last_seq: int, packed: bytes) -> Iterator[tuple[int, _Line]]:
    lines = _unpack_lines(packed)
    first_seq = last_seq - len(lines) + 1
    skipped = max(after + 1 - first_seq, 0)
    return enumerate(lines[skipped:], first_seq + skipped)


def _line_of(change: Changed) -> tuple[object, ...]:
    event, place = _NUMBERS[change.event], change.place
    if place is not None:
        return event, change.id, change.item, change.reason, place.where, place.id
    if change.reason is not None:
        return event, change.id, change.item, change.reason
    return event, change.id, change.item


def _place(where: Literal["first", "last", "before", "after"] | None, neighbour: str | None) -> Place | None:
    match where:
        case None:
            return None
        case "first":
            return FIRST
        case "last":
            return LAST
        case _:
            return Place(where, neighbour)
