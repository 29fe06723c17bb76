"""The table of usage: what each tenant used, day by day."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

_DAY_MS = 86_400_000
_ENDED = ("done", "retried", "released", "stalled")


def usage(events: DataFrame) -> DataFrame:
    """One row for each tenant and day in which anything happened.

    Reads `tenant queue happened_at event fence wait_ms run_ms reason payload_bytes`, in any order.

    Returns
    - `day tenant`: the date of the events, in UTC
    - `events`, and the `queues` that had any, fail queues included
    - `enqueued replayed done dead cancelled`: jobs. One that was enqueued behind its active namesake counts as enqueued
      when it is freed to wait on its own; what was merged or cancelled before that does not count
    - `deliveries` that ended, and of these `retried` and `stalled`
    - `run_ms wait_ms`: of these, summed up
    - `payload_bytes` of the jobs that count as enqueued
    """
    is_enqueued = F.col("event").isin("enqueued", "unblocked")
    is_cancelled = (F.col("event") == "cancelled") & F.col("reason").isNull()
    ended = F.col("event").isin(*_ENDED) | (F.col("event").isin("dead", "cancelled") & F.col("fence").isNotNull())
    return events.groupBy(_day().alias("day"), "tenant").agg(
        F.count("*").alias("events"),
        F.count_distinct("queue").alias("queues"),
        F.count_if(is_enqueued).alias("enqueued"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("replayed", "done", "dead")),
        F.count_if(is_cancelled).alias("cancelled"),
        F.count_if(ended).alias("deliveries"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("retried", "stalled")),
        _total("run_ms"),
        _total("wait_ms"),
        _total("payload_bytes", is_enqueued),
    )


def _day() -> Column:
    return F.date_from_unix_date(F.floor(F.unix_millis("happened_at") / _DAY_MS).cast("int"))


def _total(name: str, of: Column | None = None) -> Column:
    summed = F.sum(name) if of is None else F.sum(F.when(of, F.col(name)))
    return F.coalesce(summed, F.lit(0)).cast("long").alias(name)
