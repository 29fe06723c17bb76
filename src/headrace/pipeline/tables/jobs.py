"""The generations of jobs, and the table of jobs: one row for each generation, folded from its journal events."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

JOB = ("tenant", "queue", "shard", "id")
"""What names a job; its generations are numbered."""
BEGINNINGS = ("enqueued", "unblocked", "replayed")
"""Events that begin a generation: an id may be used again, freed from behind an active one, or come back from the
dead."""
FINISHED_JOBS = ("done", "dead", "cancelled", "removed", "purged")
"""Events that end one."""


def with_generation(events: DataFrame, *, continued: bool = False) -> DataFrame:
    """The events that tell of a generation of a job, each with its `generation`.

    Reads `tenant queue shard epoch seq event id reason dead_letter` and keeps all other columns; the order of the rows
    does not matter. `generation` is 1 for the first generation of the id that the journal saw beginning, and 0 for one
    that began before the journal's first event. Events that continue others are `continued`: they have the column
    `known_generation`, which is theirs, and those with null there go on counting from `generations_before`. Left out is
    what tells of something else under the same id: a blocked job that is blocked behind an active job or cancelled
    there (its own generation begins when it is freed), a dead letter that is purged, and the removal of what had ended
    before."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    if not continued:
        begun = F.sum(begins().cast("int")).over(so_far).cast("int")
        return events.where(of_a_generation()).select("*", begun.alias("generation"))
    is_new = F.col("known_generation").isNull()
    begun = F.col("generations_before") + F.sum((begins() & is_new).cast("int")).over(so_far)
    generation = F.coalesce("known_generation", begun).cast("int").alias("generation")
    return events.where(of_a_generation()).select("*", generation).drop("known_generation", "generations_before")


def of_a_generation() -> Column:
    """Whether an event tells of a generation of a job, and of nothing else under the same id."""
    return F.col("id").isNotNull() & ~_of_something_else()


def begins() -> Column:
    """Whether an event begins a generation."""
    return F.col("event").isin(*BEGINNINGS)


def ends() -> Column:
    """Whether an event of a generation ends it."""
    return F.col("event").isin(*FINISHED_JOBS)


def place() -> Column:
    """Where an event stands among those of its shard: what comes later is greater."""
    return F.struct("epoch", "seq")


def _of_something_else() -> Column:
    event, reason = F.col("event"), F.col("reason")
    return (
        (event == "blocked")
        | ((event == "cancelled") & reason.eqNullSafe("blocked"))
        | ((event == "purged") & F.col("dead_letter").isNotNull())
        | ((event == "removed") & reason.isNull())
    )


def jobs(events: DataFrame, *, continued: bool = False) -> DataFrame:
    """One row per generation of a job, from the columns of the journal; `continued` as in `with_generation`.

    Reads `tenant queue shard epoch seq happened_at event id kind tag priority attempts stalls fence enqueued_at wait_ms
    run_ms reason dead letter error_class error_message`; the order of the rows does not matter.

    Returns
    - `tenant queue shard id` and `generation`: 1 for the first generation of the id that the journal saw beginning; 0
      for one that began before the journal's first event, of which only the rest is known
    - `born`: enqueued, unblocked or replayed; null for generation 0
    - `kind tag priority` as last written
    - `enqueued_at`: when the store took it in (a replayed job keeps its first time), else when this generation began
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
        with_generation(events, continued=continued)
        .groupBy(*JOB, "generation")
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
        "generation",
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
    # The first events of a generation do not carry counters: they are zero then.
    return F.when(F.col(name).isNull() & F.col("born").isNotNull(), F.lit(0)).otherwise(F.col(name)).alias(name)
