"""The columns of statistics as Spark, Arrow and files have them, and the windows that they are about."""

from typing import Any

import pyarrow as pa
from pyspark.sql.types import DoubleType, LongType, StringType, TimestampType

from headrace.model.errors import BadConfig
from headrace.model.limits import STATS_WINDOW_MS_MAX, STATS_WINDOW_MS_MIN
from headrace.model.times import instant_text, read_instant_ms
from headrace.pipeline.source.schema import INSTANT, Column, Table

Row = dict[str, Any]
"""A row of one window: all columns but the window's own."""
Key = tuple[str, str, str | None]
"""Tenant, queue and kind."""

WINDOW = ("window_start", "window_end")
_COUNTS = (
    *("events", "enqueued", "unblocked", "replayed", "opened", "done", "retried", "released", "stalled", "dead"),
    *("expired", "cancelled", "purged", "removed", "closed", "deliveries", "wait_p50", "wait_p95", "wait_p99"),
    *("wait_max", "run_p50", "run_p95", "run_p99", "run_max", "run_ms_sum"),
)
_RATES = ("throughput", "retry_rate", "stall_rate", "death_rate")

STATS = Table(
    (
        *(Column(name, TimestampType(), INSTANT) for name in WINDOW),
        *(Column(name, StringType(), pa.string()) for name in ("tenant", "queue", "kind")),
        *(Column(name, LongType(), pa.int64()) for name in _COUNTS),
        *(Column(name, DoubleType(), pa.float64()) for name in _RATES),
        Column("backlog", LongType(), pa.int64()),
    )
)
ROW = STATS.without(WINDOW)
"""What differs within a window."""


def check_window(window_ms: int) -> None:
    """Refuse windows that files cannot be named after."""
    if window_ms % 1_000 or not STATS_WINDOW_MS_MIN <= window_ms <= STATS_WINDOW_MS_MAX:
        raise BadConfig(
            f"windows of {window_ms} ms are not supported; give whole seconds, from {STATS_WINDOW_MS_MIN // 1_000} s to"
            f" {STATS_WINDOW_MS_MAX // 3_600_000} h"
        )


def key_of(row: Row) -> Key:
    """Whom a row is about."""
    return row["tenant"], row["queue"], row["kind"]


def order_of(row: Row) -> tuple[str, str, str]:
    """The place of a row within its window; what has no kind comes first."""
    return row["tenant"], row["queue"], row["kind"] or ""


def day_of(start_ms: int) -> str:
    """The folder of a window: `day=2030-01-31`."""
    return f"day={instant_text(start_ms)[:10]}"


def name_of(start_ms: int) -> str:
    """The name of a window's file, in the order of time: `20300131T120000Z`."""
    return instant_text(start_ms)[:19].replace("-", "").replace(":", "") + "Z"


def start_of(name: str) -> int:
    """The window that a name means."""
    return read_instant_ms("window", name)
