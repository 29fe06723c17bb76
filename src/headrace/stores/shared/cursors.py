"""Reads and writes the cursors of lists and scans: the shard and the last row shown, as opaque text."""

import base64
from collections.abc import Callable

from headrace.model.errors import Refused
from headrace.model.limits import (
    CURSOR_CHARS_MAX,
    FAIL_QUEUE_ID_CHARS_MAX,
)
from headrace.model.names import Queue, Shard
from headrace.model.results import GROUPS, Group
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
