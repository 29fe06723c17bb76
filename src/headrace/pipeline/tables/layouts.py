"""Says how each table lies in files: its columns, the folders of its days, and what the log knows of each file."""

import pyarrow as pa

from headrace.pipeline.source.schema import INSTANT
from headrace.pipeline.storage.layout import Layout

_TEXT, _INT, _LONG, _DAY = pa.string(), pa.int32(), pa.int64(), pa.date32()
_LIFE = [("tenant", _TEXT), ("queue", _TEXT), ("shard", _INT), ("id", _TEXT), ("incarnation", _INT)]
_ERROR = [("error_class", _TEXT), ("error_message", _TEXT)]
_JOB_ORDER = ("tenant", "queue", "shard", "id", "incarnation")

JOBS = Layout(
    name="jobs",
    schema=pa.schema(
        [
            ("day", _DAY),
            *_LIFE,
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
"""By the day on which the job's life ended; null while it is open."""

ATTEMPTS = Layout(
    name="attempts",
    schema=pa.schema(
        [
            ("day", _DAY),
            *_LIFE,
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
"""By the day on which the life of their job ended; null while it is open."""

LIVES = Layout(
    name="lives",
    schema=pa.schema(
        [
            ("part", _TEXT),
            *_LIFE,
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
"""What the next run of jobs needs of the earlier ones: the events of open lives, and which ids have ended lives."""

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

LAYOUTS = {layout.name: layout for layout in (JOBS, ATTEMPTS, LIVES, ERRORS, USAGE, CHANGES, FRESHNESS, FINDINGS)}
