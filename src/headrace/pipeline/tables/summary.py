"""Short tables for people: what the tables of jobs and attempts say at a glance."""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

SHARES = (50, 95)
"""The percentiles that are told of waiting and running."""


def by_kind(jobs: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row per tenant, queue and kind: how its jobs ended, and how long they waited and ran; the most jobs first.

    Reads `tenant queue kind outcome` of the table of jobs and `tenant queue kind wait_ms run_ms` of the table of
    attempts. Returns `tenant queue kind jobs open done dead cancelled gone` (removed or purged) `deliveries`, and of
    those that ended `wait_p50 wait_p95 run_p50 run_p95` in milliseconds.
    """
    keys = ("tenant", "queue", "kind")
    finished_jobs = jobs.groupBy(*keys).agg(
        F.count("*").alias("jobs"),
        F.count_if(F.col("outcome").isNull()).alias("open"),
        *(F.count_if(F.col("outcome") == name).alias(name) for name in ("done", "dead", "cancelled")),
        F.count_if(F.col("outcome").isin("removed", "purged")).alias("gone"),
    )
    times = attempts.groupBy(*keys).agg(
        F.count("*").alias("deliveries"),
        *(_percentile(f"{what}_ms", share).alias(f"{what}_p{share}") for what in ("wait", "run") for share in SHARES),
    )
    both = finished_jobs.alias("e").join(times.alias("t"), on=_same(*keys), how="left")
    return both.select(
        "e.*", F.coalesce("t.deliveries", F.lit(0)).alias("deliveries"), *(f"t.{name}" for name in times.columns[4:])
    ).orderBy(F.desc("jobs"), *keys)


def _same(*names: str) -> Column:
    # A kind may be unknown, and unknown is the same as unknown here.
    first, *others = (F.col(f"e.{name}").eqNullSafe(F.col(f"t.{name}")) for name in names)
    for other in others:
        first &= other
    return first


def _percentile(name: str, share: int) -> Column:
    """By nearest rank, so that it is a time that was measured."""
    return F.expr(f"percentile_disc({share / 100}) within group (order by {name})").cast("long")


def latest_days(usage: DataFrame) -> DataFrame:
    """The table of usage, the latest day first."""
    return usage.orderBy(F.desc("day"), "tenant")


def latest_windows(stats: DataFrame) -> DataFrame:
    """The table of statistics, the latest window first."""
    return stats.orderBy(F.desc("window_start"), "tenant", "queue", "kind")


def top(frame: DataFrame, count: int) -> tuple[list[dict[str, Any]], int]:
    """The first rows of a frame, instants in UTC, and how many there are besides."""
    rows: list[dict[str, Any]] = frame.limit(count).toArrow().to_pylist()
    return rows, frame.count() - len(rows) if len(rows) == count else 0
