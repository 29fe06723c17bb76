"""Short tables for people: what a journal and the table of jobs say at a glance."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)


def events_by_queue(events: DataFrame) -> DataFrame:
    """Reads `tenant queue event`; returns `tenant queue event events`."""
    return (
        events.groupBy("tenant", "queue", "event").agg(F.count("*").alias("events")).orderBy("tenant", "queue", "event")
    )


def outcomes_by_kind(jobs: DataFrame) -> DataFrame:
    """Reads `kind outcome deliveries`; returns `kind jobs done dead cancelled open deliveries`, one row per kind."""
    return (
        jobs.groupBy("kind")
        .agg(
            F.count("*").alias("jobs"),
            *(F.count_if(F.col("outcome") == name).alias(name) for name in ("done", "dead", "cancelled")),
            F.count_if(F.col("outcome").isNull()).alias("open"),
            F.sum("deliveries").alias("deliveries"),
        )
        .orderBy("kind")
    )


def times_by_kind(events: DataFrame) -> DataFrame:
    """Reads `kind wait_ms run_ms` of deliveries that ended; returns `kind deliveries` and the 50th and 95th percentile
    of waiting and running in milliseconds: `wait_p50 wait_p95 run_p50 run_p95`."""
    return (
        events.where(F.col("run_ms").isNotNull())
        .groupBy("kind")
        .agg(
            F.count("*").alias("deliveries"),
            *(_percentile(f"{what}_ms", p).alias(f"{what}_p{p}") for what in ("wait", "run") for p in (50, 95)),
        )
        .orderBy("kind")
    )


def jobs_by_attempts(jobs: DataFrame) -> DataFrame:
    """Reads `attempts outcome` of jobs that ended; returns `attempts done dead cancelled`: failed attempts, and how
    often jobs with so many ended in which way."""
    names = ("done", "dead", "cancelled")
    return (
        jobs.where(F.col("outcome").isNotNull())
        .groupBy("attempts")
        .agg(*(F.count_if(F.col("outcome") == name).alias(name) for name in names))
        .orderBy("attempts")
    )


def deaths_by_reason(jobs: DataFrame) -> DataFrame:
    """Reads `outcome reason kind error_class error_message id`; returns `reason kind error_class deaths example`, the
    most frequent first."""
    return (
        jobs.where(F.col("outcome") == "dead")
        .groupBy("reason", "kind", "error_class")
        .agg(F.count("*").alias("deaths"), F.min_by("error_message", "id").alias("example"))
        .orderBy(F.desc("deaths"), "reason", "kind")
    )


def _percentile(name: str, p: int) -> Column:
    return F.percentile(name, F.lit(p / 100)).cast("long")
