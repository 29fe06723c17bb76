"""Reads and writes the cursors of lists, scans and views, and merges the shards of a queue into a page of a view."""

import base64
from collections.abc import Callable, Sequence
from heapq import merge
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import (
    CURSOR_CHARS_MAX,
    FAIL_QUEUE_ID_CHARS_MAX,
)
from headrace.model.names import Queue, Shard
from headrace.model.results import GROUPS, VIEWS, Found, Group, Page, View
from headrace.model.validate import bounded_repr, check_text


def read_dead_letter_cursor(cursor: str | None, queue: Queue) -> tuple[int, int]:
    """The shard to continue with, and the number of its last dead letter shown."""
    start, last = read_cursor(cursor, queue)
    if last and not (last.isdecimal() and int(last) < 2**63):
        raise bad_cursor("a list of dead letters")
    return start, int(last or 0)


def write_text(text: str) -> str:
    """A text in URL-safe base64."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_text(encoded: str) -> str:
    """The text of URL-safe base64; raises `ValueError` for anything else."""
    return base64.b64decode(encoded.encode(), b"-_", validate=True).decode()


def write_cursor(shard: int, last: str) -> str:
    """The cursor that continues after `last` in the shard."""
    return write_text(f"{shard}/{last}")


def bad_cursor(giver: str) -> Refused:
    """The refusal of a cursor that is not from `giver`."""
    return Refused("bad_cursor", f"the cursor is not from {giver}; start without one")


def read_cursor(cursor: str | None, queue: Queue, giver: str = "a list of this queue") -> tuple[int, str]:
    """The shard to continue with, and its last row shown; the beginning for None."""
    if cursor is None:
        return 0, ""
    refusal = bad_cursor(giver)
    if len(cursor) > 2 * CURSOR_CHARS_MAX:
        raise refusal
    try:
        shard, _, last = read_text(cursor).partition("/")
        index = int(shard)
    except ValueError as error:
        raise refusal from error
    if not 0 <= index < queue.shards:
        raise refusal
    return index, last


_NUMBER_MAX = 2**63 - 1


def read_scan_cursor(shard: Shard, group: Group, cursor: str | None, is_position: Callable[[Group, str], bool]) -> str:
    """The position after which a scan continues, in the form of the store; "" at its beginning."""
    if group not in GROUPS:
        raise Refused("bad_group", f"{bounded_repr(group)} is not a group of a scan; use one of {', '.join(GROUPS)}")
    if cursor is None:
        return ""
    giver = f"a scan of group {bounded_repr(group)} of this shard"
    index, text = read_cursor(cursor, shard.queue, giver)
    cursor_group, _, position = text.partition("/")
    try:
        check_text("cursor", position, FAIL_QUEUE_ID_CHARS_MAX)
    except Refused as error:
        raise bad_cursor(giver) from error
    if (index, cursor_group) != (shard.index, group) or not is_position(group, position):
        raise bad_cursor(giver)
    return position


def is_number(text: str, most: int) -> bool:
    """Whether a text is a whole number up to `most`."""
    return text.isascii() and text.isdecimal() and int(text) <= most


def is_row_key(group: Group, position: str) -> bool:
    """Whether a position is the key of a row: a number for dead letters, else an id."""
    return group != "dead" or is_number(position, _NUMBER_MAX)


def write_scan_cursor(shard: Shard, group: Group, position: str | None) -> str | None:
    """The cursor that continues after a position; None at the end."""
    return None if position is None else write_cursor(shard.index, f"{group}/{position}")


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
