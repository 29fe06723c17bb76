"""The lives of jobs: which events of an id belong to which of its lives, for all tables that follow jobs."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

JOB = ("tenant", "queue", "shard", "id")
"""What names a job; its lives are numbered."""
BEGINNINGS = ("enqueued", "unblocked", "replayed")
"""Events that begin a life: an id may be used again, freed from behind an active one, or come back from the dead."""
FINISHED_JOBS = ("done", "dead", "cancelled", "removed", "purged")
"""Events that end one."""


def lived(events: DataFrame) -> DataFrame:
    """The events that tell of a life of a job, each with its `incarnation`.

    Reads `tenant queue shard epoch seq event id reason dead_letter` and keeps all other columns; the order of the rows
    does not matter. `incarnation` is 1 for the first life of the id that the journal saw beginning, and 0 for one that
    began before the journal's first event. Left out is what tells of something else under the same id: a blocked job
    that is blocked behind an active job or cancelled there (its own life begins when it is freed), a dead letter that
    is purged, and the removal of what had ended before."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return events.where(F.col("id").isNotNull() & ~_of_something_else()).select(
        "*", F.sum(begins().cast("int")).over(so_far).cast("int").alias("incarnation")
    )


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
