"""The table of standings: how many jobs of each queue stand where, as their lives say."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)


def standing(jobs: DataFrame) -> DataFrame:
    """One row per queue that can be laid beside the store's own counts.

    Reads `tenant queue id incarnation born outcome` of the table of jobs. Returns `tenant queue open done cancelled
    dead`: `open` waits or runs; `done` and `cancelled` count ids whose ending is kept (a life that begins anew deletes
    the ending before it, one freed from behind does not); `dead` counts letters (a replay takes one away). What
    retention has swept, and what was removed or purged after its end, is still counted here.
    """
    later = Window.partitionBy("tenant", "queue", "id").orderBy("incarnation").rowsBetween(1, Window.unboundedFollowing)
    replaced = F.max(F.col("born").isin("enqueued", "replayed")).over(later)
    ended_again = F.max(_is("done") | _is("cancelled")).over(later)
    kept = ~F.coalesce(replaced, F.lit(False)) & ~F.coalesce(ended_again, F.lit(False))
    return (
        jobs.withColumn("kept", kept)
        .groupBy("tenant", "queue")
        .agg(
            F.count_if(F.col("outcome").isNull()).alias("open"),
            F.count_if(_is("done") & F.col("kept")).alias("done"),
            F.count_if(_is("cancelled") & F.col("kept")).alias("cancelled"),
            (F.count_if(_is("dead")) - F.count_if(F.col("born") == "replayed")).alias("dead"),
        )
    )


def _is(outcome: str) -> Column:
    return F.coalesce(F.col("outcome") == outcome, F.lit(False))
