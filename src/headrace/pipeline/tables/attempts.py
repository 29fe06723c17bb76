"""The table of attempts: one row for each delivery of a job to a worker, and how it ended."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.tables.jobs import JOB, place, with_generation

_GENERATION = (*JOB, "generation")


def attempts(events: DataFrame, *, continued: bool = False) -> DataFrame:
    """One row per delivery, from the columns of the journal; `continued` as in `with_generation`.

    Reads `tenant queue shard epoch seq happened_at event id kind fence worker wait_ms run_ms reason dead letter
    error_class error_message`; the order of the rows does not matter.

    Returns
    - `tenant queue shard id generation`: the generation that the delivery belongs to, as in the table of jobs
    - `attempt`: 1 for the first delivery of that generation; null for generation 0, whose first ones nobody saw
    - `fence`: the number of the delivery in its shard; null where it was lost or is older than the journal
    - `worker kind`
    - `claimed_at`; null when that was before the journal's first event
    - `ended_at outcome`: done, retried, released, stalled, dead, cancelled or removed; null while it runs
    - `wait_ms run_ms` of a delivery that ended, where the store knows them
    - `reason` of a death; active or lost of a removal
    - `error_class error_message` of one that failed
    """
    end = F.struct("happened_at", "event", "kind", "wait_ms", "run_ms", "reason", "error_class", "error_message")
    claimed = F.col("event") == "claimed"
    rows = (
        _of_deliveries(with_generation(events, continued=continued))
        .groupBy(*_GENERATION, "delivery")
        .agg(
            F.min(F.when(claimed, F.col("number"))).alias("attempt"),
            F.max("worker").alias("worker"),
            F.min_by("kind_so_far", place()).alias("kind"),
            F.min(F.when(claimed, F.col("happened_at"))).alias("claimed_at"),
            # The first one counts: a record may be lost when its last delivery is long over.
            F.min_by(end, F.when(~claimed, place())).alias("end"),
        )
    )
    return rows.select(
        *_GENERATION,
        F.when(F.col("generation") > 0, F.col("attempt")).alias("attempt"),
        F.col("delivery").alias("fence"),
        "worker",
        F.coalesce("end.kind", "kind").alias("kind"),
        "claimed_at",
        F.col("end.happened_at").alias("ended_at"),
        F.col("end.event").alias("outcome"),
        "end.wait_ms",
        "end.run_ms",
        "end.reason",
        "end.error_class",
        "end.error_message",
    )


def _of_deliveries(generations: DataFrame) -> DataFrame:
    """The events that begin or end deliveries, each with the `delivery` it is about, by its fence."""
    story = Window.partitionBy(*_GENERATION).orderBy("epoch", "seq")
    so_far = story.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    claimed = F.col("event") == "claimed"
    last_fence = F.last(F.when(claimed, F.col("fence")), ignorenulls=True).over(so_far)
    return generations.select(
        "*",
        F.count_if(claimed).over(so_far).cast("int").alias("number"),
        F.last("kind", ignorenulls=True).over(so_far).alias("kind_so_far"),
        F.coalesce("fence", last_fence).alias("delivery"),
    ).where(claimed | _ends_a_delivery())


def _ends_a_delivery() -> Column:
    event, fence, reason = F.col("event"), F.col("fence"), F.col("reason")
    settled = event.isin("done", "retried", "released", "dead", "cancelled") & fence.isNotNull()
    # Where a record was lost, so was the fence; whether it ran is known by the claim before it.
    lost = (event == "removed") & (reason == "lost") & F.col("delivery").isNotNull()
    removed = (event == "removed") & (reason == "active")
    return settled | (event == "stalled") | removed | lost
