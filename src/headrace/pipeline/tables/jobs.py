"""The table of jobs: one row for each life of a job, folded from its journal events."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.tables.lives import JOB, begins, ends, lived, place


def jobs(events: DataFrame, *, continued: bool = False) -> DataFrame:
    """One row per life of a job, from the columns of the journal; `continued` as in `lived`.

    Reads `tenant queue shard epoch seq happened_at event id kind tag priority attempts stalls fence enqueued_at wait_ms
    run_ms reason dead letter error_class error_message`; the order of the rows does not matter.

    Returns
    - `tenant queue shard id` and `incarnation`: 1 for the first life of the id that the journal saw beginning; 0 for
      one that began before the journal's first event, of which only the rest is known
    - `born`: enqueued, unblocked or replayed; null for incarnation 0
    - `kind tag priority` as last written
    - `enqueued_at`: when the store took it in (a replayed job keeps its first time), else when this life began
    - `first_claimed_at`
    - `ended_at outcome`: done, dead, cancelled, removed or purged; null while it waits or runs
    - `reason` of a death; of a removal, what the job was doing: waiting, active, or lost when nobody knows
    - `deliveries`: how often it was claimed
    - `attempts stalls` as the store counts them
    - `wait_ms` of the last delivery that ended, `run_ms` of all of them together
    - `error_class error_message` of the last attempt that failed
    """
    what, error = F.struct("tag", "priority"), F.struct("error_class", "error_message")
    rows = (
        lived(events, continued=continued)
        .groupBy(*JOB, "incarnation")
        .agg(
            F.min_by("event", F.when(begins(), place())).alias("born"),
            _last("kind"),
            # A removal tells the kind alone. What else tells of a job has a priority, and a tag only if there is one.
            F.max_by(what, F.when(F.col("priority").isNotNull(), place())).alias("what"),
            _last("enqueued_at"),
            F.min(F.when(begins(), F.col("happened_at"))).alias("born_at"),
            F.min(F.when(F.col("event") == "claimed", F.col("happened_at"))).alias("first_claimed_at"),
            F.min_by(F.struct("happened_at", "event", "reason"), F.when(ends(), place())).alias("end"),
            F.count_if(F.col("event") == "claimed").cast("int").alias("deliveries"),
            _last("attempts"),
            _last("stalls"),
            _last("wait_ms"),
            F.coalesce(F.sum("run_ms"), F.lit(0)).cast("long").alias("run_ms"),
            F.max_by(error, F.when(F.col("error_class").isNotNull(), place())).alias("error"),
        )
    )
    return rows.select(
        *JOB,
        "incarnation",
        "born",
        "kind",
        "what.tag",
        "what.priority",
        F.coalesce("enqueued_at", "born_at").alias("enqueued_at"),
        "first_claimed_at",
        F.col("end.happened_at").alias("ended_at"),
        F.col("end.event").alias("outcome"),
        F.col("end.reason").alias("reason"),
        "deliveries",
        _zero_when_new("attempts"),
        _zero_when_new("stalls"),
        "wait_ms",
        "run_ms",
        "error.error_class",
        "error.error_message",
    )


def _last(name: str) -> Column:
    return F.max_by(name, F.when(F.col(name).isNotNull(), place())).alias(name)


def _zero_when_new(name: str) -> Column:
    # The first events of a life do not carry counters: they are zero then.
    return F.when(F.col(name).isNull() & F.col("born").isNotNull(), F.lit(0)).otherwise(F.col(name)).alias(name)
