"""Says how each table lies in files: its columns, the folders of its days, and what the log knows of each file."""

from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from headrace.model.errors import BadConfig
from headrace.model.limits import STATS_WINDOW_MS_MAX, STATS_WINDOW_MS_MIN
from headrace.pipeline.source.schema import INSTANT, Column, Table
from headrace.pipeline.storage.layout import Layout

_TEXT, _INT, _LONG, _DAY = pa.string(), pa.int32(), pa.int64(), pa.date32()
_GENERATION = [("tenant", _TEXT), ("queue", _TEXT), ("shard", _INT), ("id", _TEXT), ("generation", _INT)]
_ERROR = [("error_class", _TEXT), ("error_message", _TEXT)]
_JOB_ORDER = ("tenant", "queue", "shard", "id", "generation")

JOBS = Layout(
    name="jobs",
    schema=pa.schema(
        [
            ("day", _DAY),
            *_GENERATION,
            *((name, _TEXT) for name in ("born", "kind", "tag")),
            ("priority", _INT),
            *((name, INSTANT) for name in ("enqueued_at", "first_claimed_at", "ended_at")),
            *((name, _TEXT) for name in ("outcome", "reason")),
            *((name, _INT) for name in ("deliveries", "attempts", "stalls")),
            *((name, _LONG) for name in ("wait_ms", "run_ms")),
            *_ERROR,
        ]
    ),
    partition_by=("day",),
    order=_JOB_ORDER,
    stats=("tenant", "queue", "kind", "ended_at"),
    bloom=("id",),
)
"""By the day on which the job's generation ended; null while it is open."""

ATTEMPTS = Layout(
    name="attempts",
    schema=pa.schema(
        [
            ("day", _DAY),
            *_GENERATION,
            ("attempt", _INT),
            ("fence", _LONG),
            *((name, _TEXT) for name in ("worker", "kind")),
            *((name, INSTANT) for name in ("claimed_at", "ended_at")),
            ("outcome", _TEXT),
            *((name, _LONG) for name in ("wait_ms", "run_ms")),
            ("reason", _TEXT),
            *_ERROR,
        ]
    ),
    partition_by=("day",),
    order=(*_JOB_ORDER, "fence"),
    stats=("tenant", "queue", "kind", "ended_at"),
    bloom=("id",),
)
"""By the day on which the generation of their job ended; null while it is open."""

GENERATIONS = Layout(
    name="generations",
    schema=pa.schema(
        [
            ("part", _TEXT),
            *_GENERATION,
            *((name, _LONG) for name in ("epoch", "seq")),
            ("happened_at", INSTANT),
            *((name, _TEXT) for name in ("event", "kind", "tag")),
            *((name, _INT) for name in ("priority", "attempts", "stalls")),
            ("fence", _LONG),
            ("worker", _TEXT),
            ("enqueued_at", INSTANT),
            *((name, _LONG) for name in ("wait_ms", "run_ms")),
            ("reason", _TEXT),
            ("dead_letter", _LONG),
            *_ERROR,
        ]
    ),
    partition_by=("part",),
    order=(*_JOB_ORDER, "epoch", "seq"),
    stats=("tenant", "queue"),
)
"""What the next run of jobs needs of the earlier ones: the events of open generations, and which ids have ended
generations."""

ERRORS = Layout(
    name="errors",
    schema=pa.schema(
        [
            ("day", _DAY),
            *((name, _TEXT) for name in ("tenant", "fingerprint", "error_class", "template", "queue")),
            ("shard", _INT),
            ("id", _TEXT),
            ("kinds", pa.list_(_TEXT)),
            *((name, _LONG) for name in ("failures", "deaths")),
            *((name, INSTANT) for name in ("first_seen", "last_seen")),
            ("last", pa.struct([("epoch", _LONG), ("seq", _LONG), ("happened_at", INSTANT), ("message", _TEXT)])),
        ]
    ),
    partition_by=("day",),
    order=("tenant", "fingerprint", "queue", "shard", "id"),
    stats=("tenant", "fingerprint"),
)
"""By the day of the failures: one row for each fingerprint and job that failed so on that day."""

USAGE = Layout(
    name="usage",
    schema=pa.schema(
        [
            ("day", _DAY),
            *((name, _TEXT) for name in ("tenant", "queue", "kind")),
            *(
                (name, _LONG)
                for name in (
                    *("events", "enqueued", "replayed", "done", "dead", "cancelled", "deliveries", "retried"),
                    *("stalled", "run_ms", "wait_ms", "payload_bytes"),
                )
            ),
        ]
    ),
    partition_by=("day",),
    order=("tenant", "queue", "kind"),
    stats=("tenant", "queue"),
)

CHANGES = Layout(
    name="changes",
    schema=pa.schema(
        [
            ("until", INSTANT),
            *((name, _TEXT) for name in ("tenant", "queue", "change", "direction")),
            *((name, pa.float64()) for name in ("before", "now", "factor")),
            *((name, _TEXT) for name in ("fingerprint", "message")),
        ]
    ),
)
"""What moved most comes first; each run replaces them all, as it does freshness and findings."""

FRESHNESS = Layout(
    name="freshness",
    schema=pa.schema(
        [
            *((name, _TEXT) for name in ("table_name", "tenant", "queue")),
            *((name, _LONG) for name in ("events_behind", "behind_ms")),
            *((name, INSTANT) for name in ("read_until", "store_until", "as_of")),
        ]
    ),
)

FINDINGS = Layout(
    name="findings",
    schema=pa.schema(
        [
            *((name, _TEXT) for name in ("what", "tenant", "queue")),
            ("shard", _INT),
            *((name, _TEXT) for name in ("id", "journal", "store")),
            ("seq", _LONG),
            ("hint", _TEXT),
        ]
    ),
)

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

STATS_COLUMNS = Table(
    (
        *(Column(name, TimestampType(), INSTANT) for name in WINDOW),
        *(Column(name, StringType(), pa.string()) for name in ("tenant", "queue", "kind")),
        *(Column(name, LongType(), pa.int64()) for name in _COUNTS),
        *(Column(name, DoubleType(), pa.float64()) for name in _RATES),
        *(Column(name, _TIMES_SPARK, _TIMES_ARROW) for name in TIMES),
        Column("backlog", LongType(), pa.int64()),
    )
)
WINDOW_ROW = STATS_COLUMNS.without([*WINDOW, *TIMES])
"""What differs within a window, as far as people read it."""
STATS = Layout(
    name="stats",
    schema=pa.schema([("day", pa.date32()), *STATS_COLUMNS.without(["backlog"]).arrow]),
    partition_by=("day",),
    order=("window_start", "tenant", "queue", "kind"),
    stats=("window_start", "tenant", "queue"),
    log_hours=2,
)
"""By the day on which windows begin. The backlog is added up from what came before, when rows are read."""

LAYOUTS = {
    layout.name: layout for layout in (JOBS, ATTEMPTS, GENERATIONS, STATS, ERRORS, USAGE, CHANGES, FRESHNESS, FINDINGS)
}


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
