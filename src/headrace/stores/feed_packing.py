"""Changes of feeds as columns, for stores of rows: what no statement looks at is packed, since columns cost time."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from headrace.model.feed import FIRST, LAST, Changed, ChangeEvent, Place

EVENTS: tuple[ChangeEvent, ...] = ("created", "configured", "deleted", "published", "edited", "retracted", "moved")
"""Events by the number under which they are stored: add behind the last, and never put them into another order."""
_NUMBERS = {event: number for number, event in enumerate(EVENTS)}


class _About(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a change; written short when the fields at its end are not set."""

    event: int
    epoch: int
    instance: str
    reason: Literal["count", "age"] | None = None
    where: Literal["first", "last", "before", "after"] | None = None
    neighbour: str | None = None


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_About).decode


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
        place=_place(about),
        reason=about.reason,
    )


def _place(about: _About) -> Place | None:
    match about.where:
        case None:
            return None
        case "first":
            return FIRST
        case "last":
            return LAST
        case where:
            return Place(where, about.neighbour)
