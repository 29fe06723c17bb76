"""The lives of jobs: which events of an id belong to which of its lives, for all tables that follow jobs."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

JOB = ("tenant", "queue", "shard", "id")
"""What names a job; its lives are numbered."""
BEGINNINGS = ("enqueued", "unblocked", "replayed")
"""Events that begin a life: an id may be used again, freed from behind an active one, or come back from the dead."""
FINISHED_JOBS = ("done", "dead", "cancelled", "removed", "purged")
"""Events that end one."""


def lived(events: DataFrame, *, continued: bool = False) -> DataFrame:
    """The events that tell of a life of a job, each with its `incarnation`.

    Reads `tenant queue shard epoch seq event id reason dead_letter` and keeps all other columns; the order of the rows
    does not matter. `incarnation` is 1 for the first life of the id that the journal saw beginning, and 0 for one that
    began before the journal's first event. Events that continue others are `continued`: they have the column
    `known_incarnation`, which is theirs, and those with null there go on counting from `lives_before`. Left out is what
    tells of something else under the same id: a blocked job that is blocked behind an active job or cancelled there
    (its own life begins when it is freed), a dead letter that is purged, and the removal of what had ended before."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    if not continued:
        begun = F.sum(begins().cast("int")).over(so_far).cast("int")
        return events.where(of_a_life()).select("*", begun.alias("incarnation"))
    is_new = F.col("known_incarnation").isNull()
    begun = F.col("lives_before") + F.sum((begins() & is_new).cast("int")).over(so_far)
    incarnation = F.coalesce("known_incarnation", begun).cast("int").alias("incarnation")
    return events.where(of_a_life()).select("*", incarnation).drop("known_incarnation", "lives_before")


def of_a_life() -> Column:
    """Whether an event tells of a life of a job, and of nothing else under the same id."""
    return F.col("id").isNotNull() & ~_of_something_else()


def begins() -> Column:
    """Whether an event begins a life."""
    return F.col("event").isin(*BEGINNINGS)


def ends() -> Column:
    """Whether an event of a life ends it."""
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
