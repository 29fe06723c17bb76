"""Cursors of lists: the shard and the last thing shown, as text that callers need not understand."""

import base64

from headrace.model.errors import Refused
from headrace.model.limits import CURSOR_CHARS_MAX
from headrace.model.names import Queue


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
