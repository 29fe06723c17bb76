"""Finds the jobs behind events: which life of which job each event belongs to, and the payload of that life."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.tables.lives import JOB, begins, ends, lived, place

EVENT = (*JOB, "epoch", "seq")
"""The identity of an event."""
PAYLOAD_EVENTS = ("enqueued", "updated", "unblocked", "merged")
"""Events that give a job another payload; a replayed job keeps the one it died with."""
EVENT_COLUMNS = (*EVENT, "happened_at", "event", "kind", "tag", "priority", "reason", "dead_letter")


def jobs_behind(events: DataFrame, matches: DataFrame) -> DataFrame:
    """One row for each life of a job that an event of `matches` belongs to.

    Reads of `events` the columns `tenant queue shard epoch seq happened_at event id kind tag priority reason
    dead_letter`, and `payload` if it has it; of `matches` the columns `tenant queue shard id epoch seq`. Both in any
    order.

    Returns
    - `tenant queue shard id`, and `life`: the epoch and seq of its first event, as in 1-17. A life that began before
      all events is named by its last event, as in until-1-17, or 0 while it goes on. So a life changes its name once
      its first event is dropped: a journal drops events, a history does not.
    - `kind tag priority` as last written in that life
    - `payload`: the last one of that life; null if no event has it. An event that wrote a payload without recording it
      makes it unknown; a replay keeps it.
    - `matched_events`, and `matched_at`, when the first of them happened
    """
    if "payload" not in events.columns:
        events = events.withColumn("payload", F.lit(None).cast("string"))
    keys = matches.select(*EVENT).distinct()
    # Sort only the events of these jobs: a history has many others.
    of_jobs = events.join(keys.select(*JOB).distinct(), on=list(JOB), how="left_semi")
    in_lives = lived(of_jobs.select(*EVENT_COLUMNS, "payload")).select("*", _payload_so_far().alias("held"))
    lives = (
        in_lives.join(keys.withColumn("is_match", F.lit(True)), on=list(EVENT), how="left")
        .groupBy(*JOB, "incarnation")
        .agg(
            F.min(F.when(begins(), place())).alias("begin"),
            F.min(F.when(ends(), place())).alias("end"),
            F.max_by(F.struct("kind", "tag", "priority"), _description_order()).alias("what"),
            F.max_by("held", place()).alias("held"),
            F.count("is_match").alias("matched_events"),
            F.min(F.when(F.col("is_match"), F.col("happened_at"))).alias("matched_at"),
        )
    )
    return lives.where("matched_events > 0").select(
        *JOB,
        F.coalesce(_life_name("", "begin"), _life_name("until-", "end"), F.lit("0")).alias("life"),
        "what.kind",
        "what.tag",
        "what.priority",
        F.col("held.payload").alias("payload"),
        "matched_events",
        "matched_at",
    )


def _life_name(prefix: str, event: str) -> Column:
    return F.concat(F.lit(prefix), f"{event}.epoch", F.lit("-"), f"{event}.seq")


def _description_order() -> Column:
    """The order of events by which the last full description wins: `removed` has the kind alone, so it comes first."""
    return F.when(F.col("kind").isNotNull(), F.struct(F.col("event") != "removed", "epoch", "seq"))


def _payload_so_far() -> Column:
    """The payload after an event, inside a struct: an unknown payload must not be taken for the one before it."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    has_payload = F.col("event").isin(*PAYLOAD_EVENTS) | F.col("payload").isNotNull()
    return F.last(F.when(has_payload, F.struct("payload")), ignorenulls=True).over(so_far)
