"""Flaws of the journal itself: numbers that are missing or doubled, times that go back, events that cannot follow."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.names import FAIL_QUEUE_SUFFIX
from headrace.pipeline.audit.fold import JOB, SHARD, blocked_job_after, state_after
from headrace.pipeline.audit.rules import BLOCKED, LOST, SETTLES

_FLAW = ("what", *JOB, "seq", "event", "before", "after")


def number_flaws(events: DataFrame) -> DataFrame:
    """Where the numbers or the times of a journal do not follow each other.

    Reads `tenant queue shard id seq happened_at event`. Returns `what` (gap, doubled or backwards), `tenant queue shard
    id seq event`, and as text `before` (the seq before, or its time) and `after` (the same of this event).
    """
    story = Window.partitionBy(*SHARD).orderBy("seq", "happened_at")
    earlier_seq, earlier_at = F.lag("seq").over(story), F.lag("happened_at").over(story)
    numbered = events.withColumn("seq_before", earlier_seq).withColumn("at_before", earlier_at)
    what = (
        F.when(F.col("seq") == F.col("seq_before"), "doubled")
        .when(F.col("seq") > F.col("seq_before") + 1, "gap")
        .when(F.col("happened_at") < F.col("at_before"), "backwards")
    )
    is_late = F.col("what") == "backwards"
    return (
        numbered.withColumn("what", what)
        .where(F.col("what").isNotNull())
        .withColumn(
            "before", F.when(is_late, F.col("at_before").cast("string")).otherwise(F.col("seq_before").cast("string"))
        )
        .withColumn(
            "after", F.when(is_late, F.col("happened_at").cast("string")).otherwise(F.col("seq").cast("string"))
        )
        .select(*_FLAW)
    )


def story_flaws(events: DataFrame, shards: DataFrame) -> DataFrame:
    """Events that cannot follow what their job's events said before.

    Reads `tenant queue shard id seq event fence reason dead_letter`, and of each shard `tenant queue shard is_whole`.
    Returns `what` (impossible or fence), `tenant queue shard id seq event`, and as text `before` and `after`: what the
    job did before (waiting, active or over), or the fences.
    """
    story = Window.partitionBy(*JOB).orderBy("seq")
    before = story.rowsBetween(Window.unboundedPreceding, -1)
    claimed = F.when(F.col("event") == "claimed", F.col("fence"))
    told = (
        events.where(F.col("id").isNotNull())
        .join(F.broadcast(shards.select(*SHARD, "is_whole")), on=list(SHARD), how="inner")
        .withColumn("state_before", F.last(state_after(), ignorenulls=True).over(before))
        .withColumn("blocked_job_before", F.last(blocked_job_after(), ignorenulls=True).over(before))
        .withColumn("fence_before", F.last(claimed, ignorenulls=True).over(before))
        # Where the journal begins with the queue, what has no events yet is not there.
        .withColumn("state_before", F.coalesce("state_before", F.when(F.col("is_whole"), "over")))
        .withColumn("blocked_job_before", F.coalesce("blocked_job_before", F.when(F.col("is_whole"), False)))
    )
    what = F.when(~F.coalesce(_may_follow(), F.lit(True)), "impossible").when(
        ~F.coalesce(_fits_fence(), F.lit(True)), "fence"
    )
    is_fence = F.col("what") == "fence"
    return (
        told.withColumn("what", what)
        .where(F.col("what").isNotNull())
        .withColumn("before", F.when(is_fence, F.col("fence_before").cast("string")).otherwise(F.col("state_before")))
        .withColumn("after", F.col("fence").cast("string"))
        .select(*_FLAW)
    )


def dead_letter_flaws(dead_letters: DataFrame) -> DataFrame:
    """Numbers of dead letters that two deaths have. Reads what `fold_dead_letters` returns; returns what the others
    do."""
    return dead_letters.where(F.col("deaths") > 1).select(
        F.lit("doubled").alias("what"),
        *JOB,
        F.col("dead_seq").alias("seq"),
        F.lit("dead").alias("event"),
        F.col("deaths").cast("string").alias("before"),
        F.col("dead_letter").cast("string").alias("after"),
    )


def _may_follow() -> Column:
    """Whether an event may come after what was there; null where that is not known."""
    event, state, blocked_job = F.col("event"), F.col("state_before"), F.col("blocked_job_before")
    delivered, reason = F.col("fence").isNotNull(), F.coalesce("reason", F.lit(""))
    of_blocked_job = reason == BLOCKED
    # The fail job of a death may meet an older one of its name, of a queue that was deleted and made anew.
    is_fail_job = F.col("queue").endswith(FAIL_QUEUE_SUFFIX)
    return (
        F.when(event == "enqueued", is_fail_job | ((state == "over") & ~blocked_job))
        .when(event == "replayed", (state == "over") & ~blocked_job)
        .when(event == "unblocked", (state == "over") & blocked_job)
        .when(event == "updated", state == "waiting")
        .when(event == "merged", (state == "waiting") & blocked_job)
        .when(event == "claimed", (state == "waiting") & ~blocked_job)
        .when(event.isin("blocked", "asked", "done", "retried", "released"), state == "active")
        # Mending lets a job wait again that has lost its delivery, and cannot know whose it was.
        .when(event == "stalled", (state == "active") | ~delivered)
        .when((event == "cancelled") & of_blocked_job, (state == "active") & blocked_job)
        .when(event.isin("dead", "cancelled"), state == F.when(delivered, "active").otherwise("waiting"))
        .when((event == "purged") & F.col("dead_letter").isNull(), state == "waiting")
        .when((event == "removed") & (reason != LOST), state == F.when(reason == "", "over").otherwise(reason))
    )


def _fits_fence() -> Column:
    fence, before = F.col("fence"), F.col("fence_before")
    return F.when(F.col("event") == "claimed", fence > before).when(
        F.col("event").isin(*SETTLES, "asked") & fence.isNotNull(), fence == before
    )
