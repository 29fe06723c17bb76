"""The columns of statistics as Spark, Arrow and files have them, and the windows that they are about."""

from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from headrace.model.errors import BadConfig
from headrace.model.limits import STATS_WINDOW_MS_MAX, STATS_WINDOW_MS_MIN
from headrace.pipeline.source.schema import INSTANT, Column, Table
from headrace.pipeline.storage.layout import Layout

Row = dict[str, Any]
"""A row of one window: all columns but the window's own."""
Key = tuple[str, str, str | None]
"""Tenant, queue and kind."""

WINDOW = ("window_start", "window_end")
TIMES = ("wait_times", "run_times")
_COUNTS = (
    *("events", "enqueued", "unblocked", "replayed", "opened", "done", "retried", "released", "stalled", "dead"),
    *("expired", "cancelled", "purged", "removed", "closed", "deliveries", "wait_p50", "wait_p95", "wait_p99"),
    *("wait_max", "run_p50", "run_p95", "run_p99", "run_max", "run_ms_sum"),
)
_RATES = ("throughput", "retry_rate", "stall_rate", "death_rate")
_TIMES_SPARK = ArrayType(StructType([StructField("ms", LongType()), StructField("deliveries", LongType())]))
_TIMES_ARROW = pa.list_(pa.struct([("ms", pa.int64()), ("deliveries", pa.int64())]))

STATS = Table(
    (
        *(Column(name, TimestampType(), INSTANT) for name in WINDOW),
        *(Column(name, StringType(), pa.string()) for name in ("tenant", "queue", "kind")),
        *(Column(name, LongType(), pa.int64()) for name in _COUNTS),
        *(Column(name, DoubleType(), pa.float64()) for name in _RATES),
        *(Column(name, _TIMES_SPARK, _TIMES_ARROW) for name in TIMES),
        Column("backlog", LongType(), pa.int64()),
    )
)
ROW = STATS.without([*WINDOW, *TIMES])
"""What differs within a window, as far as people read it."""
LAYOUT = Layout(
    name="stats",
    schema=pa.schema([("day", pa.date32()), *STATS.without(["backlog"]).arrow]),
    partition_by=("day",),
    order=("window_start", "tenant", "queue", "kind"),
    stats=("window_start", "tenant", "queue"),
)
"""By the day on which windows begin. The backlog is added up from what came before, when rows are read."""


def check_window(window_ms: int) -> None:
    """Refuse windows that are not of whole seconds, or longer than a day."""
    if window_ms % 1_000 or not STATS_WINDOW_MS_MIN <= window_ms <= STATS_WINDOW_MS_MAX:
        raise BadConfig(
            f"windows of {window_ms} ms are not supported; give whole seconds, from {STATS_WINDOW_MS_MIN // 1_000} s to"
            f" {STATS_WINDOW_MS_MAX // 3_600_000} h"
        )


def key_of(row: Row) -> Key:
    """Whom a row is about."""
    return row["tenant"], row["queue"], row["kind"]
