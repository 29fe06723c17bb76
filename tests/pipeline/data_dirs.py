"""Tables of a folder, written by hand: rows name what a test is about, and everything else is nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.stats.columns import STATS

Row = dict[str, Any]

T0 = 1_790_000_040_000
"""A whole minute: 2026-09-21 14:14:00 UTC."""
_TIME = pa.timestamp("us", tz="UTC")
_TEXT, _LONG = pa.string(), pa.int64()
_SAMPLE = pa.struct([("queue", _TEXT), ("id", _TEXT), ("happened_at", _TIME), ("message", _TEXT)])
ATTEMPTS = pa.schema(
    [
        *((name, _TEXT) for name in ("tenant", "queue", "id", "kind", "outcome")),
        ("ended_at", _TIME),
        ("wait_ms", _LONG),
        ("run_ms", _LONG),
    ]
)
ERRORS = pa.schema(
    [
        *((name, _TEXT) for name in ("fingerprint", "tenant", "error_class", "template")),
        *((name, pa.list_(_TEXT)) for name in ("kinds", "queues")),
        *((name, _LONG) for name in ("failures", "deaths", "jobs")),
        *((name, _TIME) for name in ("first_seen", "last_seen")),
        ("sample_jobs", pa.list_(_SAMPLE)),
    ]
)
USAGE = pa.schema(
    [
        ("day", pa.date32()),
        ("tenant", _TEXT),
        *((name, _LONG) for name in ("enqueued", "done", "dead", "deliveries", "run_ms", "payload_bytes")),
    ]
)


def us(ms: int) -> int:
    """An instant as Arrow keeps it."""
    return ms * 1_000


def window(start_ms: int, tenant: str, queue: str, kind: str, *, length_ms: int = 60_000, **counts: int | None) -> Row:
    """A row of statistics; counts that are not named are 0."""
    known = dict.fromkeys(STATS.names, 0) | {"backlog": None}
    times = {"window_start": us(start_ms), "window_end": us(start_ms + length_ms)}
    return known | times | {"tenant": tenant, "queue": queue, "kind": kind} | counts


def write_stats(data_dir: DataDir, rows: Sequence[Row]) -> None:
    """The table of statistics."""
    _write(data_dir.table("stats") / "day=2026-09-21" / "20260921T141400Z.parquet", rows, STATS.arrow)


def write_table(data_dir: DataDir, name: str, rows: Sequence[Row]) -> None:
    """Another table; columns that a row does not name are null."""
    schema = {"attempts": ATTEMPTS, "errors": ERRORS, "usage": USAGE}[name]
    _write(data_dir.table(name) / "part-0.parquet", rows, schema)


def _write(path: Path, rows: Sequence[Row], schema: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    full = [{name: row.get(name) for name in schema.names} for row in rows]
    pq.write_table(pa.Table.from_pylist(full, schema=schema), path)
