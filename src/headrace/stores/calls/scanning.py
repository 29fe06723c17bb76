"""Parts of a scan: what a shard holds of a group behind a place, cut by count and by bytes."""

from collections.abc import Callable

from headrace.model.errors import Refused
from headrace.model.limits import COMPANION_ID_CHARS_MAX, SCAN_PART_BYTES
from headrace.model.names import Shard
from headrace.model.results import GROUPS, Found, Group
from headrace.model.validate import bounded_repr, check_text
from headrace.stores.calls.cursor import bad_cursor, read_cursor, write_cursor
from headrace.stores.calls.finding import found_of
from headrace.stores.transitions.rows import Rows

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
        check_text("cursor", place, COMPANION_ID_CHARS_MAX)
    except Refused as error:
        raise bad_cursor(giver) from error
    if (index, known) != (shard.index, group) or not is_place(group, place):
        raise bad_cursor(giver)
    return place


def is_number(text: str, most: int) -> bool:
    """Whether a text is a whole number that the store can hold."""
    return text.isascii() and text.isdecimal() and int(text) <= most


def is_key(group: Group, place: str) -> bool:
    """Whether a place is the key of a row: a number for letters, else an id."""
    return group != "dead" or is_number(place, _NUMBER_MAX)


def write_place(shard: Shard, group: Group, place: str | None) -> str | None:
    """The cursor that goes on behind a place; None at the end."""
    return None if place is None else write_cursor(shard.index, f"{group}/{place}")


def scan_part(rows: Rows, group: Group, place: str, limit: int, now_ms: int) -> tuple[list[Found], str | None]:
    """What is shown of a group behind a place, and behind what to go on; None at the end."""
    paused = rows.config.paused
    last: str | None = None
    found: list[Found | None]
    match group:
        case "alive":
            jobs, more = rows.scan_jobs(place, limit, SCAN_PART_BYTES)
            found = []
            for row in jobs:
                twin = None if row.delivery is None else rows.twin(row.record.id)
                blocked = None if twin is None else twin.record
                found.append(found_of(row.record.id, row, blocked, None, [], paused, now_ms))
            last = jobs[-1].record.id if more else None
        case "ended":
            endings, more = rows.scan_endings(place, limit, SCAN_PART_BYTES)
            found = [found_of(each.id, None, None, each, [], paused, now_ms) for each in endings]
            last = endings[-1].id if more else None
        case "dead":
            letters, more = rows.scan_letters(int(place or 0), limit, SCAN_PART_BYTES)
            found = [found_of(each.record.id, None, None, None, [each], paused, now_ms) for each in letters]
            last = str(letters[-1].key.number) if more else None
    return [each for each in found if each is not None], last
