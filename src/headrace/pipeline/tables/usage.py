"""The table of usage: what each tenant used, day by day, by queue and kind; rows of more events are added to it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

_DAY_MS = 86_400_000
_ENDED = ("done", "retried", "released", "stalled")
_KEY = ("day", "tenant", "queue", "kind")
_COUNTS = (
    *("events", "enqueued", "replayed", "done", "dead", "cancelled", "deliveries", "retried", "stalled"),
    *("run_ms", "wait_ms", "payload_bytes"),
)


def usage(events: DataFrame) -> DataFrame:
    """One row for each tenant and day in which anything happened: `tenant_usage` of `daily_usage`."""
    return tenant_usage(daily_usage(events))


def daily_usage(events: DataFrame) -> DataFrame:
    """One row for each day, tenant, queue and kind in which anything happened; this is what the table holds.

    Reads `tenant queue kind happened_at event fence wait_ms run_ms reason payload_bytes`, in any order.

    Returns
    - `day tenant queue kind`: the date of the events, in UTC; fail queues have rows of their own; the kind is null
      where an event does not name it
    - `events`
    - `enqueued replayed done dead cancelled`: jobs. One that was enqueued behind its active namesake counts as enqueued
      when it is freed to wait on its own; what was merged or cancelled before that does not count
    - `deliveries` that ended, and of these `retried` and `stalled`
    - `run_ms wait_ms`: of these, summed up
    - `payload_bytes` of the jobs that count as enqueued
    """
    is_enqueued = F.col("event").isin("enqueued", "unblocked")
    is_cancelled = (F.col("event") == "cancelled") & F.col("reason").isNull()
    ended = F.col("event").isin(*_ENDED) | (F.col("event").isin("dead", "cancelled") & F.col("fence").isNotNull())
    return events.groupBy(day_of("happened_at").alias("day"), "tenant", "queue", "kind").agg(
        F.count("*").alias("events"),
        F.count_if(is_enqueued).alias("enqueued"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("replayed", "done", "dead")),
        F.count_if(is_cancelled).alias("cancelled"),
        F.count_if(ended).alias("deliveries"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("retried", "stalled")),
        _total(F.col("run_ms"), "run_ms"),
        _total(F.col("wait_ms"), "wait_ms"),
        _total(F.when(is_enqueued, F.col("payload_bytes")), "payload_bytes"),
    )


def merge_usage(rows: DataFrame) -> DataFrame:
    """Rows of `daily_usage` of different events, as one row for each day, tenant, queue and kind."""
    return rows.groupBy(*_KEY).agg(*(_total(F.col(name), name) for name in _COUNTS))


def tenant_usage(daily: DataFrame) -> DataFrame:
    """Rows of `daily_usage` as one row for each day and tenant, with the number of `queues` instead of their names."""
    return (
        daily.groupBy("day", "tenant")
        .agg(F.count_distinct("queue").alias("queues"), *(_total(F.col(name), name) for name in _COUNTS))
        .select("day", "tenant", "events", "queues", *_COUNTS[1:])
    )


def day_of(name: str) -> Column:
    """The date of an instant, in UTC."""
    return F.date_from_unix_date(F.floor(F.unix_millis(name) / _DAY_MS).cast("int"))


def _total(values: Column, name: str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0)).cast("long").alias(name)
