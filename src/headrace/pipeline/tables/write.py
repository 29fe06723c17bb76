"""Writes the tables of a folder from events: each is a pure function in `tables`, and here it gets its files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events
from headrace.pipeline.parquet_table import check_replaceable, replace_table
from headrace.pipeline.spark_session import job_description
from headrace.pipeline.stats.run import write_stats
from headrace.pipeline.stats.state import window_of
from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.errors import errors
from headrace.pipeline.tables.jobs import jobs
from headrace.pipeline.tables.usage import usage

SAMPLES = 3
"""Jobs that are named for an error: enough to look at, few enough to read."""

WINDOW_MS = 60_000
"""Of statistics, unless somebody wants other windows."""


class TableCounts(Struct, frozen=True):
    """How many rows the tables have."""

    jobs: int
    attempts: int


def write_jobs(spark: SparkSession, events: Events, data_dir: DataDir) -> TableCounts:
    """Write the tables of jobs and attempts from the same events, and say how many rows they have.

    Tables that are there are replaced, each in one step; a folder with anything else in it is refused.
    """
    for name in ("jobs", "attempts"):
        check_replaceable(data_dir.table(name))
    with held(events) as same:
        with job_description(spark, "headrace: jobs"):
            of_jobs = replace_table(jobs(same.frame), data_dir.table("jobs"))
        with job_description(spark, "headrace: attempts"):
            return TableCounts(of_jobs, replace_table(attempts(same.frame), data_dir.table("attempts")))


def write_errors(spark: SparkSession, events: Events, data_dir: DataDir, *, samples: int = SAMPLES) -> int:
    """Write the table of errors with so many sample jobs each, and say how many rows it has."""
    with job_description(spark, "headrace: errors"):
        return replace_table(errors(events.frame, samples).coalesce(1), data_dir.table("errors"))


def write_usage(spark: SparkSession, events: Events, data_dir: DataDir) -> int:
    """Write the table of usage, and say how many rows it has."""
    with job_description(spark, "headrace: usage"):
        return replace_table(usage(events.frame).coalesce(1), data_dir.table("usage"))


def write_tables(
    spark: SparkSession,
    events: Events,
    data_dir: DataDir,
    *,
    window_ms: int | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> None:
    """Write all tables of a folder from the same events.

    Where these are those of one tenant or queue, the tables hold nothing else afterwards; statistics keep the rows of
    others, since a query that follows the store may write beside this.

    Statistics are by windows of `window_ms`; when that is None, as those that are there, else of a minute. `on_stage`
    is told which table begins.
    """
    tell = on_stage or (lambda _: None)
    with held(events) as same:
        tell("jobs and attempts")
        write_jobs(spark, same, data_dir)
        tell("errors")
        write_errors(spark, same, data_dir)
        tell("usage")
        write_usage(spark, same, data_dir)
        tell("statistics")
        folder = data_dir.table("stats")
        with job_description(spark, "headrace: stats"):
            write_stats(spark, same.frame, folder, window_ms=window_ms or window_of(folder) or WINDOW_MS)


@contextmanager
def held(events: Events) -> Iterator[Events]:
    """The same events for all tables that are made in this block: a journal that is read again has moved on."""
    if events.origin == "history" or events.frame.is_cached:
        yield events
        return
    kept = events.frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield replace(events, frame=kept)
    finally:
        kept.unpersist()
