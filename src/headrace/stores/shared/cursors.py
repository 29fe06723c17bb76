"""Cursors of lists: the shard and the last thing shown, as text that callers need not understand."""

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
    """The shard to go on with and the number of the last dead letter shown there."""
    start, last = read_cursor(cursor, queue)
    if last and not (last.isdecimal() and int(last) < 2**63):
        raise bad_cursor("a list of dead letters")
    return start, int(last or 0)


def write_text(text: str) -> str:
    """A text as signs that need no care anywhere."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_text(signs: str) -> str:
    """The text of such signs; raises `ValueError` for any others."""
    return base64.b64decode(signs.encode(), b"-_", validate=True).decode()


def write_cursor(shard: int, last: str) -> str:
    """The cursor that continues behind `last` in the shard."""
    return write_text(f"{shard}/{last}")


def bad_cursor(giver: str) -> Refused:
    """The refusal of a cursor that the `giver` never gave."""
    return Refused("bad_cursor", f"the cursor is not one that {giver} gave; start without one")


def read_cursor(cursor: str | None, queue: Queue, giver: str = "a list of this queue") -> tuple[int, str]:
    """The shard to go on with and the last thing shown there; the beginning for None."""
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


def read_place(shard: Shard, group: Group, cursor: str | None, is_place: Callable[[Group, str], bool]) -> str:
    """Behind what a scan goes on, as the store has noted it in the cursor; "" at its beginning."""
    if group not in GROUPS:
        raise Refused("bad_group", f"{bounded_repr(group)} is no group of a scan; use one of {', '.join(GROUPS)}")
    if cursor is None:
        return ""
    giver = f"a scan of group {bounded_repr(group)} of this shard"
    index, text = read_cursor(cursor, shard.queue, giver)
    known, _, place = text.partition("/")
    try:
        check_text("cursor", place, FAIL_QUEUE_ID_CHARS_MAX)
    except Refused as error:
        raise bad_cursor(giver) from error
    if (index, known) != (shard.index, group) or not is_place(group, place):
        raise bad_cursor(giver)
    return place


def is_number(text: str, most: int) -> bool:
    """Whether a text is a whole number that the store can hold."""
    return text.isascii() and text.isdecimal() and int(text) <= most


def is_key(group: Group, place: str) -> bool:
    """Whether a place is the key of a row: a number for dead letters, else an id."""
    return group != "dead" or is_number(place, _NUMBER_MAX)


def write_place(shard: Shard, group: Group, place: str | None) -> str | None:
    """The cursor that goes on behind a place; None at the end."""
    return None if place is None else write_cursor(shard.index, f"{group}/{place}")
