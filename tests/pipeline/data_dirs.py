"""Tables of a folder, written by hand: rows name what a test is about, and everything else is nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.stats.counted import Range
from headrace.pipeline.stats.table import APP, StatsState
from headrace.pipeline.storage.layout import Batch, Layout
from headrace.pipeline.storage.table import open_table
from headrace.pipeline.storage.write import write_sorted
from headrace.pipeline.tables.layouts import LAYOUTS, STATS, STATS_COLUMNS

Row = dict[str, Any]

T0 = 1_790_000_040_000
"""A whole minute: 2026-09-21 14:14:00 UTC."""


def us(ms: int) -> int:
    """An instant as Arrow keeps it."""
    return ms * 1_000


def window(
    start_ms: int,
    tenant: str,
    queue: str,
    kind: str | None,
    *,
    length_ms: int = 60_000,
    waits: Sequence[int] = (),
    runs: Sequence[int] = (),
    **counts: int | None,
) -> Row:
    """A row of statistics with the times of its deliveries; counts that are not named are 0."""
    known = dict.fromkeys(STATS_COLUMNS.names, 0) | {"backlog": None}
    times = {"window_start": us(start_ms), "window_end": us(start_ms + length_ms)}
    taken = {
        f"{what}_times": [{"ms": ms, "deliveries": found.count(ms)} for ms in sorted(set(found))]
        for what, found in (("wait", waits), ("run", runs))
    }
    most = {"wait_max": max(waits, default=None), "run_max": max(runs, default=None)}
    return known | times | taken | most | {"tenant": tenant, "queue": queue, "kind": kind} | counts


def write_stats(data_dir: DataDir, rows: Sequence[Row]) -> None:
    """The table of statistics: so many jobs are closed that backlogs come out as the rows say."""
    totals: dict[Any, int] = {}
    found, unknown = [], set()
    for row in sorted(rows, key=lambda row: row["window_start"]):
        key, backlog, closed = (row["tenant"], row["queue"], row["kind"]), row["backlog"], row["closed"]
        if backlog is None:
            unknown.add(f"{row['tenant']}/{row['queue']}/0")
        else:
            closed = row["opened"] - backlog + totals.get(key, 0)
            totals[key] = backlog
        day = datetime.fromtimestamp(row["window_start"] / 1_000_000, UTC).date()
        found.append({**row, "closed": closed, "day": day})
    state = StatsState(
        window_ms=(rows[0]["window_end"] - rows[0]["window_start"]) // 1_000,
        counted={name: [Range(1, 2, 2)] for name in unknown},
        totals=[(*key, total) for key, total in totals.items()],
    )
    _commit(data_dir, "stats", STATS, found, (APP, 0), msgspec.to_builtins(state))


def failed_jobs(row: Row, jobs: int, message: str) -> list[Row]:
    """The rows of so many jobs that failed alike, of which the first has what is left for it."""
    last = {"epoch": 1, "happened_at": row["last_seen"], "message": message}
    return [
        {
            **row,
            "day": datetime.fromtimestamp(row["last_seen"] / 1_000_000, UTC).date(),
            "id": row["id"] if number == 0 else f"{row['id']}-{number}",
            "shard": 0,
            "failures": row["failures"] - jobs + 1 if number == 0 else 1,
            "deaths": row["deaths"] if number == 0 else 0,
            "last": {**last, "happened_at": last["happened_at"] - number, "seq": jobs - number},
        }
        for number in range(jobs)
    ]


def write_table(data_dir: DataDir, name: str, rows: Sequence[Row]) -> None:
    """Another table; columns that a row does not name are null."""
    _commit(data_dir, name, LAYOUTS[name], rows, None, None)


def _commit(data_dir: DataDir, name: str, layout: Layout, rows: Sequence[Row], batch: Batch | None, state: Any) -> None:
    table = open_table(data_dir.location(name), layout, form="parquet")
    table.prepare()
    names = layout.schema.names
    found = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], schema=layout.schema)
    files = write_sorted(iter([found.sort_by("day")]), layout, table.write_location, name)
    table.commit(list(files), batch=batch, state=state)
