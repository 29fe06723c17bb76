"""The table of jobs: one row for each life of a job, folded from its journal events."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

BEGINNINGS = ("enqueued", "unblocked", "replayed")
"""Events that begin a life: an id may be used again, freed from behind an active one, or come back from the dead."""
ENDINGS = ("done", "dead", "cancelled", "removed", "purged")
"""Events that end one."""
_JOB = ("tenant", "queue", "shard", "id")
_BACK = ("retried", "released", "stalled", "done", "dead", *BEGINNINGS)


def jobs(events: DataFrame) -> DataFrame:
    """One row per life of a job, from the columns of the journal.

    Reads `tenant queue shard epoch seq at event id kind tag priority attempts stalls fence enqueued_at wait_ms run_ms
    reason letter error_class error_message`; the order of the rows does not matter.

    Returns
    - `tenant queue shard id` and `incarnation`: 1 for the first life of the id that the journal saw beginning; 0 for
      one that began before the journal's first event, of which only the rest is known
    - `born`: enqueued, unblocked or replayed; null for incarnation 0
    - `kind tag priority` as last written
    - `enqueued_at`: when the store took it in (a replayed job keeps its first time), else when this life began
    - `first_claimed_at`
    - `ended_at outcome`: done, dead, cancelled, removed or purged; null while it waits or runs
    - `reason` of a death
    - `deliveries`: how often it was claimed
    - `attempts stalls` as the store counts them
    - `wait_ms` of the last delivery that ended, `run_ms` of all of them together
    - `error_class error_message` of the last attempt that failed
    """
    place = F.struct("epoch", "seq")
    ending = F.when(F.col("event").isin(*ENDINGS), place)
    lives = _own_events(events).groupBy(*_JOB, "incarnation")
    rows = lives.agg(
        F.min_by("event", F.when(_begins(), place)).alias("born"),
        F.max_by(F.struct("kind", "tag", "priority"), F.when(F.col("kind").isNotNull(), place)).alias("what"),
        F.max_by("enqueued_at", F.when(F.col("enqueued_at").isNotNull(), place)).alias("taken_in_at"),
        F.min(F.when(_begins(), F.col("at"))).alias("born_at"),
        F.min(F.when(F.col("event") == "claimed", F.col("at"))).alias("first_claimed_at"),
        F.min_by(F.struct("at", "event", "reason"), ending).alias("end"),
        F.count_if(F.col("event") == "claimed").cast("int").alias("deliveries"),
        _last("attempts", place),
        _last("stalls", place),
        _last("wait_ms", place),
        F.coalesce(F.sum("run_ms"), F.lit(0)).cast("long").alias("run_ms"),
        F.max_by(F.struct("error_class", "error_message"), F.when(F.col("error_class").isNotNull(), place)).alias(
            "error"
        ),
    )
    return rows.select(
        *_JOB,
        "incarnation",
        "born",
        "what.kind",
        "what.tag",
        "what.priority",
        F.coalesce("taken_in_at", "born_at").alias("enqueued_at"),
        "first_claimed_at",
        F.col("end.at").alias("ended_at"),
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


def _own_events(events: DataFrame) -> DataFrame:
    """The events of jobs with their `incarnation`, without those that tell of something else under the same id."""
    story = Window.partitionBy(*_JOB).orderBy("epoch", "seq")
    so_far = story.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = story.rowsBetween(Window.unboundedPreceding, -1)
    delivered = F.col("fence").isNotNull()
    # While a delivery runs, a cancelled event without its fence tells of the twin that was blocked behind it.
    over = F.col("event").isin(*_BACK) | ((F.col("event") == "cancelled") & delivered)
    came = F.when(F.col("event") == "claimed", True).when(over, False)
    twin_cancelled = (F.col("event") == "cancelled") & ~delivered & F.coalesce("running", F.lit(False))
    letter_purged = (F.col("event") == "purged") & F.col("letter").isNotNull()
    return (
        events.where(F.col("id").isNotNull())
        .withColumn("incarnation", F.sum(_begins().cast("int")).over(so_far).cast("int"))
        .withColumn("running", F.last(came, ignorenulls=True).over(before))
        # A blocked event announces the next life; the twin's own life begins when it is freed.
        .where((F.col("event") != "blocked") & ~twin_cancelled & ~letter_purged)
    )


def _begins() -> Column:
    return F.col("event").isin(*BEGINNINGS)


def _last(name: str, place: Column) -> Column:
    return F.max_by(name, F.when(F.col(name).isNotNull(), place)).alias(name)


def _zero_when_new(name: str) -> Column:
    # The first events of a life do not carry counters: they are zero then.
    return F.when(F.col(name).isNull() & F.col("born").isNotNull(), F.lit(0)).otherwise(F.col(name)).alias(name)
