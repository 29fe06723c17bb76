"""The jobs behind events: which life of which job each tells of, and what that life held."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.tables.lives import JOB, begins, ends, lived, place

EVENT = (*JOB, "epoch", "seq")
"""What names an event of a job."""
WRITES = ("enqueued", "updated", "unblocked", "merged")
"""Events after which a job holds another payload than before; one that is replayed has the payload that it had."""
NEEDED = (*EVENT, "happened_at", "event", "kind", "tag", "priority", "reason", "dead_letter")


def again(events: DataFrame, matched: DataFrame) -> DataFrame:
    """One row for each life of a job that an event of `matched` tells of.

    Reads of `events` the columns `tenant queue shard epoch seq happened_at event id kind tag priority reason
    dead_letter`, and `payload` if it has it; of `matched` the columns `tenant queue shard id epoch seq`. Both in any
    order.

    Returns
    - `tenant queue shard id`, and `life`: the epoch and seq of the event that began it, as in 1-17; of one that began
      before all events, those of the event that ended it, as in until-1-17, and 0 while it goes on. So a life has
      another name once the event that began it is dropped: a journal drops events, a history does not.
    - `kind tag priority` as last written in that life
    - `payload`: what that life held last; null when no event tells it. An event that wrote another payload without
      telling it makes it unknown; a replay leaves it as it was.
    - `matched_events`, and `matched_at`, when the first of them happened
    """
    if "payload" not in events.columns:
        events = events.withColumn("payload", F.lit(None).cast("string"))
    hits = matched.select(*EVENT).distinct()
    # Only the events of these jobs are put in order: a history has many others.
    theirs = events.join(hits.select(*JOB).distinct(), on=list(JOB), how="left_semi")
    told = lived(theirs.select(*NEEDED, "payload")).select("*", _held().alias("held"))
    lives = (
        told.join(hits.withColumn("is_hit", F.lit(True)), on=list(EVENT), how="left")
        .groupBy(*JOB, "incarnation")
        .agg(
            F.min(F.when(begins(), place())).alias("begin"),
            F.min(F.when(ends(), place())).alias("end"),
            F.max_by(F.struct("kind", "tag", "priority"), _tells_all()).alias("what"),
            F.max_by("held", place()).alias("held"),
            F.count("is_hit").alias("matched_events"),
            F.min(F.when(F.col("is_hit"), F.col("happened_at"))).alias("matched_at"),
        )
    )
    return lives.where("matched_events > 0").select(
        *JOB,
        F.coalesce(_named("", "begin"), _named("until-", "end"), F.lit("0")).alias("life"),
        "what.kind",
        "what.tag",
        "what.priority",
        F.col("held.payload").alias("payload"),
        "matched_events",
        "matched_at",
    )


def _named(word: str, event: str) -> Column:
    return F.concat(F.lit(word), f"{event}.epoch", F.lit("-"), f"{event}.seq")


def _tells_all() -> Column:
    """By what the last event is found that tells what a job is: `removed` has the kind alone, so any other goes before
    it."""
    return F.when(F.col("kind").isNotNull(), F.struct(F.col("event") != "removed", "epoch", "seq"))


def _held() -> Column:
    """What the job holds after an event, as far as the events up to it tell; inside a struct, since a payload that was
    written and not told must not be taken for the one before it."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    tells = F.col("event").isin(*WRITES) | F.col("payload").isNotNull()
    return F.last(F.when(tells, F.struct("payload")), ignorenulls=True).over(so_far)
