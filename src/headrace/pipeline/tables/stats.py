"""The table of statistics: what happened in each window of time, by tenant, queue and kind."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

OPENINGS = ("enqueued", "unblocked", "replayed")
"""Events after which one job more waits."""
OUTCOMES = ("done", "retried", "released", "stalled", "dead", "cancelled")
"""Ways in which a delivery ends; jobs also die and are cancelled without one."""
READ = ("tenant", "queue", "happened_at", "event", "kind", "fence", "wait_ms", "run_ms", "reason", "dead_letter")
"""The columns of the journal that are needed."""
PERCENTILES = (50, 95, 99)


def stats(events: DataFrame, window_ms: int) -> DataFrame:
    """One row for each window, tenant, queue and kind in which something was opened or closed, or a delivery ended.

    Reads `tenant queue happened_at event kind fence wait_ms run_ms reason dead_letter`, in any order.

    Returns
    - `window_start window_end`: windows of `window_ms`, counted from 1970 UTC
    - `tenant queue kind`; the kind is null where a record was lost
    - `events`: those that are counted here
    - `enqueued unblocked replayed` and `opened`, all of them
    - `done retried released stalled dead expired cancelled purged removed`: `dead` holds the `expired`, which died
      without a delivery; `cancelled` holds those that waited, and not those that were blocked behind another
    - `closed`: jobs that were done, died, or were cancelled, purged or removed
    - `deliveries`: those that ended
    - `wait_p50 wait_p95 wait_p99 wait_max run_p50 run_p95 run_p99 run_max` of these in milliseconds, by nearest rank;
      null without any
    - `run_ms_sum`
    - `throughput`: done a second
    - `retry_rate stall_rate death_rate`: of the deliveries that ended; null without any
    """
    counted = events.where(_opens() | _closes() | _delivers())
    rows = counted.groupBy(_start(window_ms).alias("window_start"), "tenant", "queue", "kind").agg(
        F.count("*").alias("events"),
        *(F.count_if(F.col("event") == name).alias(name) for name in OPENINGS),
        F.count_if(_opens()).alias("opened"),
        *(F.count_if(F.col("event") == name).alias(name) for name in OUTCOMES),
        F.count_if((F.col("event") == "dead") & F.col("fence").isNull()).alias("expired"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("purged", "removed")),
        F.count_if(_closes()).alias("closed"),
        F.count_if(_delivers()).alias("deliveries"),
        *_spread("wait"),
        *_spread("run"),
        F.coalesce(F.sum("run_ms"), F.lit(0)).cast("long").alias("run_ms_sum"),
    )
    return rows.select(
        F.timestamp_millis("window_start").alias("window_start"),
        F.timestamp_millis(F.col("window_start") + window_ms).alias("window_end"),
        "tenant",
        "queue",
        "kind",
        "events",
        *OPENINGS,
        "opened",
        *OUTCOMES[:5],
        "expired",
        "cancelled",
        "purged",
        "removed",
        "closed",
        "deliveries",
        *(f"{what}_{which}" for what in ("wait", "run") for which in (*(f"p{p}" for p in PERCENTILES), "max")),
        "run_ms_sum",
        (F.col("done") / F.lit(window_ms / 1_000)).alias("throughput"),
        _rate(F.col("retried")).alias("retry_rate"),
        _rate(F.col("stalled")).alias("stall_rate"),
        _rate(F.col("dead") - F.col("expired")).alias("death_rate"),
    )


def with_backlog(stats: DataFrame, beginnings: DataFrame) -> DataFrame:
    """Adds `backlog`: how many jobs waited or ran at the end of the window.

    Reads the columns of `stats`, and `tenant queue is_known` of `beginnings`; the backlog of a queue whose beginning
    is not known is null. A job counts under the kind that it had when it came and when it went: where an update changes
    kinds, only the sum over the kinds of a queue is exact.
    """
    kind = Window.partitionBy("tenant", "queue", "kind").orderBy("window_start")
    so_far = kind.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = stats.join(F.broadcast(beginnings), on=["tenant", "queue"], how="left")
    total = F.sum(F.col("opened") - F.col("closed")).over(so_far)
    return known.select(*(stats[name] for name in stats.columns), F.when(F.col("is_known"), total).alias("backlog"))


def beginnings(events: DataFrame) -> DataFrame:
    """Whether the events of each queue are all that there ever were.

    Reads `tenant queue shard seq`; returns `tenant queue is_known`. An epoch that uses numbers again counts them twice,
    which hides no beginning that is gone.
    """
    shards = events.groupBy("tenant", "queue", "shard").agg(
        ((F.min("seq") == 1) & (F.count("*") >= F.max("seq"))).alias("is_known")
    )
    return shards.groupBy("tenant", "queue").agg(F.bool_and("is_known").alias("is_known"))


def _start(window_ms: int) -> Column:
    at_ms = F.unix_millis("happened_at")
    return at_ms - F.pmod(at_ms, F.lit(window_ms))


def _opens() -> Column:
    return F.col("event").isin(*OPENINGS)


def _closes() -> Column:
    event, reason = F.col("event"), F.col("reason")
    return (
        event.isin("done", "dead")
        | ((event == "cancelled") & reason.isNull())
        | ((event == "purged") & F.col("dead_letter").isNull())
        | ((event == "removed") & reason.isNotNull())
    )


def _delivers() -> Column:
    """Whether a delivery ended. One that was lost with its record left a `stalled` that knows no fence."""
    event = F.col("event")
    return event.isin("retried", "released", "stalled") | (
        event.isin("done", "dead", "cancelled") & F.col("fence").isNotNull()
    )


def _spread(what: str) -> list[Column]:
    ranks = [
        F.expr(f"percentile_disc({p / 100}) within group (order by {what}_ms)").cast("long").alias(f"{what}_p{p}")
        for p in PERCENTILES
    ]
    return [*ranks, F.max(f"{what}_ms").alias(f"{what}_max")]


def _rate(part: Column) -> Column:
    return F.when(F.col("deliveries") > 0, part / F.col("deliveries"))
