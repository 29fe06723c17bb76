"""Merges the shards of a queue into one page of a view, and keeps its place in a cursor."""

import base64
from collections.abc import Sequence
from heapq import merge
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import CURSOR_CHARS_MAX
from headrace.model.names import Queue
from headrace.model.results import VIEWS, Found, Page, View
from headrace.model.validate import bounded_repr
from headrace.stores.shared.cursors import bad_cursor

LANE_ROWS_MIN = 10
"""A lane gives at least so many rows: a page of a queue with many shards would end after a few."""
NUMBER_END = 2**63 - 1
"""Above all numbers of finished jobs and dead letters."""
Order = tuple[int, int | str]


class ViewRow(NamedTuple):
    """A row of a lane: its place among the rows of all lanes, and in its own."""

    order: Order
    position: int
    found: Found | None
    """None for a row past its retention, which is passed over."""


class Lane(NamedTuple):
    """The next rows of a shard or of a part of it, in order, and whether no others follow."""

    rows: Sequence[ViewRow]
    is_rest: bool


class ViewCursor(Struct, frozen=True):
    """The place behind a page: after a row in the order of all lanes, or below a number in each lane."""

    view: View
    after: Order | None = None
    below: tuple[int, ...] = ()
    """For `finished` and `dead`, whose lanes have numbers of their own; 0 for a lane that has ended."""

    def after_order_key(self, shard: int) -> int:
        """The order key after which a shard continues the view `next`."""
        if self.after is None:
            return -1
        order_key, last_shard = self.after
        return order_key if shard <= int(last_shard) else order_key - 1

    def after_time(self) -> tuple[int, str]:
        """The time and id after which every shard continues the views `later` and `active`."""
        return (-1, "") if self.after is None else (self.after[0], str(self.after[1]))


class _Packed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    view: View
    after: Order | None = None
    steps: list[int | None] = []
    """From the number of a lane to that of the next, which is close; None for a lane that has ended."""


_DECODER = msgspec.msgpack.Decoder(_Packed)


def lane_count(queue: Queue, view: View) -> int:
    """One lane a shard; finished jobs have two, the second for those that are pinned."""
    return queue.shards * (2 if view == "finished" else 1)


def lane_limit(queue: Queue, view: View, limit: int) -> int:
    """How many rows to read from each lane for a page."""
    return min(limit, max(LANE_ROWS_MIN, 2 * limit // lane_count(queue, view)))


def merge_lanes(cursor: ViewCursor, lanes: Sequence[Lane], limit: int) -> Page[Found]:
    """The page of the first rows of all lanes; it ends where the next row of a lane was not read."""
    taken = [0] * len(lanes)
    found: list[Found] = []
    after = cursor.after
    tagged = [[(row.order, index, row) for row in lane.rows] for index, lane in enumerate(lanes)]
    for order, index, row in merge(*tagged, key=lambda each: each[:2]):
        taken[index] += 1
        after = order
        if row.found is not None:
            found.append(row.found)
        if len(found) == limit or (taken[index] == len(lanes[index].rows) and not lanes[index].is_rest):
            break
    has_ended = [lane.is_rest and count == len(lane.rows) for lane, count in zip(lanes, taken, strict=True)]
    if all(has_ended):
        return Page(found, None)
    if cursor.view not in ("finished", "dead"):
        return Page(found, write_view_cursor(ViewCursor(cursor.view, after)))
    below = tuple(
        0 if ended else lane.rows[count - 1].position if count else start
        for lane, ended, count, start in zip(lanes, has_ended, taken, cursor.below, strict=True)
    )
    return Page(found, write_view_cursor(ViewCursor(cursor.view, below=below)))


def write_view_cursor(cursor: ViewCursor) -> str:
    """The cursor as text."""
    steps: list[int | None] = []
    before = 0
    for number in cursor.below:
        steps.append(number - before if number else None)
        before = number or before
    packed = msgspec.msgpack.encode(_Packed(cursor.view, cursor.after, steps))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_view_cursor(cursor: str | None, queue: Queue, view: View) -> ViewCursor:
    """The place to continue a view of a queue at; its beginning for None."""
    if view not in VIEWS:
        raise Refused("bad_view", f"{bounded_repr(view)} is not a view; use one of {', '.join(VIEWS)}")
    lanes = lane_count(queue, view) if view in ("finished", "dead") else 0
    if cursor is None:
        return ViewCursor(view, below=(NUMBER_END,) * lanes)
    refusal = bad_cursor(f"view {view!r} of this queue")
    if len(cursor) > 4 * CURSOR_CHARS_MAX:
        raise refusal
    try:
        packed = _DECODER.decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, msgspec.DecodeError) as error:
        raise refusal from error
    if packed.view != view or len(packed.steps) != lanes or (packed.after is None) is not bool(lanes):
        raise refusal
    if packed.after is not None and isinstance(packed.after[1], int) is not (view == "next"):
        raise refusal
    below: list[int] = []
    before = 0
    for step in packed.steps:
        below.append(0 if step is None else before + step)
        before = below[-1] or before
    if not all(0 <= number <= NUMBER_END for number in (*below, *(packed.after or ())[:1])):
        raise refusal
    return ViewCursor(view, packed.after, tuple(below))
