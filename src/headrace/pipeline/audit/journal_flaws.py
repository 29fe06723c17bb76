"""Finds flaws of the journal itself: missing or duplicate numbers, times that go back, events that cannot follow."""

from typing import Any

from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.event import Bounds
from headrace.model.names import FAIL_QUEUE_SUFFIX, Shard
from headrace.pipeline.audit.findings import Finding, FindingKind
from headrace.pipeline.audit.fold import BLOCKED, JOB, LOST, SETTLEMENTS, SHARD, blocked_job_after, state_after

_MISSING_HINT = "readers of this journal miss events; compare with the history, and find out who deletes entries"
_HINTS: dict[str, str] = {
    "gap": _MISSING_HINT,
    "duplicate": "readers of this journal may take them for one; find out who writes to the store besides Headrace",
    "backwards": "windows over time may have missed it; find out who writes to the store besides Headrace",
    "impossible": "an event is missing or was made up; headrace doctor shows whether the store is damaged",
    "fence": "outside resources may refuse the newer delivery; find out whether a part of the store was restored",
}
_FLAW = ("what", *JOB, "seq", "event", "before", "after")


class EventRange(Struct, frozen=True):
    """The events that were read of a shard."""

    first_seq: int
    first_at_ms: int
    last_seq: int
    count: int


def number_flaws(events: DataFrame) -> DataFrame:
    """Events whose number or time does not follow the event before.

    Reads `tenant queue shard id seq happened_at event`. Returns `what` (gap, duplicate or backwards), `tenant queue
    shard id seq event`, and as text `before` (the seq before, or its time) and `after` (the same of this event).
    """
    in_order = Window.partitionBy(*SHARD).orderBy("seq", "happened_at")
    earlier_seq, earlier_at = F.lag("seq").over(in_order), F.lag("happened_at").over(in_order)
    numbered = events.withColumn("seq_before", earlier_seq).withColumn("at_before", earlier_at)
    what = (
        F.when(F.col("seq") == F.col("seq_before"), "duplicate")
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


def order_flaws(events: DataFrame, shards: DataFrame) -> DataFrame:
    """Events that cannot follow the earlier events of their job.

    Reads `tenant queue shard id seq event fence reason dead_letter`, and of each shard `tenant queue shard is_whole`.
    Returns `what` (impossible or fence), `tenant queue shard id seq event`, and as text `before` and `after`: the
    state before (waiting, active or over), or the fences.
    """
    in_order = Window.partitionBy(*JOB).orderBy("seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    claimed = F.when(F.col("event") == "claimed", F.col("fence"))
    with_state = (
        events.where(F.col("id").isNotNull())
        .join(F.broadcast(shards.select(*SHARD, "is_whole")), on=list(SHARD), how="inner")
        .withColumn("state_before", F.last(state_after(), ignorenulls=True).over(before))
        .withColumn("blocked_job_before", F.last(blocked_job_after(), ignorenulls=True).over(before))
        .withColumn("fence_before", F.last(claimed, ignorenulls=True).over(before))
        # A journal that begins with its queue has an event of every job.
        .withColumn("state_before", F.coalesce("state_before", F.when(F.col("is_whole"), "over")))
        .withColumn("blocked_job_before", F.coalesce("blocked_job_before", F.when(F.col("is_whole"), False)))
    )
    what = F.when(~F.coalesce(_may_follow(), F.lit(True)), "impossible").when(
        ~F.coalesce(_fits_fence(), F.lit(True)), "fence"
    )
    is_fence = F.col("what") == "fence"
    return (
        with_state.withColumn("what", what)
        .where(F.col("what").isNotNull())
        .withColumn("before", F.when(is_fence, F.col("fence_before").cast("string")).otherwise(F.col("state_before")))
        .withColumn("after", F.col("fence").cast("string"))
        .select(*_FLAW)
    )


def dead_letter_flaws(dead_letters: DataFrame) -> DataFrame:
    """Dead letters with two deaths. Reads the columns of `fold_dead_letters`; returns those of `order_flaws`."""
    return dead_letters.where(F.col("deaths") > 1).select(
        F.lit("duplicate").alias("what"),
        *JOB,
        F.col("dead_seq").alias("seq"),
        F.lit("dead").alias("event"),
        F.col("deaths").cast("string").alias("before"),
        F.col("dead_letter").cast("string").alias("after"),
    )


def _may_follow() -> Column:
    """Whether an event may follow the state before it; null where that is unknown."""
    event, state, blocked_job = F.col("event"), F.col("state_before"), F.col("blocked_job_before")
    delivered, reason = F.col("fence").isNotNull(), F.coalesce("reason", F.lit(""))
    of_blocked_job = reason == BLOCKED
    # The fail job of a death may meet one with the same id, of a queue that was deleted and created again.
    is_fail_job = F.col("queue").endswith(FAIL_QUEUE_SUFFIX)
    return (
        F.when(event == "enqueued", is_fail_job | ((state == "over") & ~blocked_job))
        .when(event == "replayed", (state == "over") & ~blocked_job)
        .when(event == "unblocked", (state == "over") & blocked_job)
        .when(event == "updated", state == "waiting")
        .when(event == "merged", (state == "waiting") & blocked_job)
        .when(event == "claimed", (state == "waiting") & ~blocked_job)
        .when(event.isin("blocked", "asked", "done", "retried", "released"), state == "active")
        # A repair lets a job wait again that has lost its delivery, whose fence is unknown.
        .when(event == "stalled", (state == "active") | ~delivered)
        .when((event == "cancelled") & of_blocked_job, (state == "active") & blocked_job)
        .when(event.isin("dead", "cancelled"), state == F.when(delivered, "active").otherwise("waiting"))
        .when((event == "purged") & F.col("dead_letter").isNull(), state == "waiting")
        .when((event == "removed") & (reason != LOST), state == F.when(reason == "", "over").otherwise(reason))
    )


def _fits_fence() -> Column:
    fence, before = F.col("fence"), F.col("fence_before")
    return F.when(F.col("event") == "claimed", fence > before).when(
        F.col("event").isin(*SETTLEMENTS, "asked") & fence.isNotNull(), fence == before
    )


def flaw_finding(row: Any) -> Finding:
    """The finding of a row of these frames."""
    kind: FindingKind = row["what"]
    return Finding(
        what=kind,
        tenant=row["tenant"],
        queue=row["queue"],
        shard=row["shard"],
        id=row["id"],
        journal=_flaw_text(row),
        store="",
        seq=row["seq"],
        hint=_HINTS[kind],
    )


def _flaw_text(row: Any) -> str:
    before, after = row["before"], row["after"]
    match row["what"]:
        case "gap":
            return f"seq {before} is followed by {after}; {int(after) - int(before) - 1:,} events are missing"
        case "duplicate" if row["event"] == "dead" and int(after) != row["seq"]:
            return f"dead letter {after} was given to {before} deaths"
        case "duplicate":
            return f"seq {after} exists twice"
        case "backwards":
            return f"{row['event']} at {after}, after an event at {before}"
        case "fence":
            return f"{row['event']} with fence {after}, after fence {before}"
        case _:
            return f"{row['event']} of a job that was {before}"


def missing_finding(shard: Shard, bounds: Bounds, events: EventRange | None, last_seq: int) -> Finding | None:
    """A finding if a journal lacks events between `bounds.first_seq` and `last_seq`."""
    if last_seq < bounds.first_seq:
        return None
    if events is not None and events.first_seq <= bounds.first_seq and events.last_seq >= last_seq:
        return None
    actual = "no event" if events is None else f"seq {events.first_seq} to {events.last_seq}"
    return Finding(
        what="gap",
        tenant=shard.queue.tenant,
        queue=shard.queue.full_name,
        shard=shard.index,
        journal=f"its bounds are seq {bounds.first_seq} to {last_seq}, and it has {actual}",
        store="",
        seq=bounds.first_seq,
        hint=_MISSING_HINT,
    )
