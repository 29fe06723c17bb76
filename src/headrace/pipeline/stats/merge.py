"""Puts fresh rows into the files of their windows, and keeps every backlog true."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from headrace.pipeline.stats.columns import Key, Row, key_of, order_of
from headrace.pipeline.stats.files import Files
from headrace.pipeline.stats.state import StatsState, move_sums, note_unpublished

Fresh = Iterable[tuple[int, list[Row]]]
"""Rows by the start of their window, oldest first."""


class Visited(Struct, frozen=True):
    """A window as it is now, and whether its file was written."""

    start_ms: int
    rows: list[Row]
    is_changed: bool
    added: frozenset[Key] = frozenset()
    """Of which rows there was none before."""


def merge(
    folder: Path, state: StatsState, files: Files, first_ms: int, fresh: Fresh, *, to_end: bool = False
) -> Iterator[Visited]:
    """Put rows in place of those of the same window and queue, and go on as far as backlogs change, or `to_end`.

    A window and queue with fewer events than are there already is left alone: journals only grow, so whoever read
    fewer did not see all of them. No row is older than `first_ms`. The state is left with the totals of the last
    window, and is for the caller to save; killed in the midst of it, the files can be merged into again.
    """
    move_sums(folder, state, files, first_ms)
    sums = state.sums()
    drift: dict[Key, int] = {}
    start_ms, new = first_ms, list[Row]()
    for start_ms, rows, is_last in _by_window(files.starts(first_ms), fresh):
        old = files.read(start_ms)
        new = _merged(old, rows)
        _add(drift, old, -1)
        _add(drift, new, 1)
        for row in new:
            _add(sums, [row], 1)
            row["backlog"] = sums[key_of(row)] if state.knows(f"{row['tenant']}/{row['queue']}", start_ms) else None
        is_changed = new != old
        added = frozenset(map(key_of, new)) - frozenset(map(key_of, old))
        if added:
            note_unpublished(folder, state, start_ms)
        if is_changed:
            files.write(start_ms, new)
        yield Visited(start_ms, new, is_changed, added)
        if is_last and not to_end and not any(drift.values()):
            break
    _add(sums, new, -1)
    state.put_sums(start_ms, sums)


def _add(sums: dict[Key, int], rows: list[Row], sign: int) -> None:
    for row in rows:
        key = key_of(row)
        sums[key] = sums.get(key, 0) + sign * (row["opened"] - row["closed"])


def _by_window(there: list[int], fresh: Fresh) -> Iterator[tuple[int, list[Row], bool]]:
    """All windows, oldest first, each with its fresh rows and whether no fresh ones follow."""
    waiting = iter(there)
    next_there = next(waiting, None)
    rest = iter(fresh)
    next_fresh = next(rest, None)
    while next_there is not None or next_fresh is not None:
        starts = [start for start in (next_there, next_fresh and next_fresh[0]) if start is not None]
        start_ms = min(starts)
        rows: list[Row] = []
        if next_fresh is not None and next_fresh[0] == start_ms:
            rows = next_fresh[1]
            next_fresh = next(rest, None)
        if next_there == start_ms:
            next_there = next(waiting, None)
        yield start_ms, rows, next_fresh is None


def _merged(old: list[Row], fresh: list[Row]) -> list[Row]:
    queues = {queue: list(rows) for queue, rows in groupby(sorted(fresh, key=order_of), key=_queue)}
    kept = {queue: list(rows) for queue, rows in groupby(sorted(old, key=order_of), key=_queue)}
    for queue, rows in queues.items():
        if _events(rows) >= _events(kept.get(queue, [])):
            kept[queue] = rows
    return sorted((dict(row) for rows in kept.values() for row in rows), key=order_of)


def _queue(row: Row) -> tuple[str, str]:
    return row["tenant"], row["queue"]


def _events(rows: list[Row]) -> int:
    return sum(row["events"] for row in rows)
