"""Writes the tables of a folder from events: each is a pure function in `tables`, and here it gets its files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events
from headrace.pipeline.spark_session import job_description
from headrace.pipeline.stats.run import read_stats, write_stats
from headrace.pipeline.storage.table import DataTable, open_table
from headrace.pipeline.tables.errors import failed_jobs, merge_failed_jobs
from headrace.pipeline.tables.increment import add_rows, rows_in
from headrace.pipeline.tables.layouts import LAYOUTS
from headrace.pipeline.tables.usage import daily_usage, merge_usage
from headrace.pipeline.tables.write_jobs import JobTables, advance


class TableCounts(Struct, frozen=True):
    """How many rows the tables have."""

    jobs: int
    attempts: int


def write_jobs(spark: SparkSession, events: Events, data_dir: DataDir, *, rebuild: bool = False) -> TableCounts:
    """Bring the tables of jobs and attempts to the head of the events, and say how many rows they have.

    From a history, only batches that the tables lack are read; from a journal, or with `rebuild`, or when the tables
    hold the events of another tenant or queue, they are made anew. Readers see the rows before or after, never half.
    """
    tables = JobTables(*(table_of(data_dir, name) for name in ("jobs", "attempts", "generations")))
    with cached_events(events) as same, job_description(spark, "headrace: jobs and attempts"):
        advance(spark, same, tables, rebuild=rebuild)
    return TableCounts(rows_in(tables.jobs), rows_in(tables.attempts))


def write_errors(spark: SparkSession, events: Events, data_dir: DataDir, *, rebuild: bool = False) -> int:
    """Bring the table of errors to the head of the events, as `write_jobs` does, and say how many rows it has."""
    with job_description(spark, "headrace: errors"):
        table = table_of(data_dir, "errors")
        return add_rows(spark, events, table, failed_jobs, merge_failed_jobs, rebuild=rebuild)


def write_usage(spark: SparkSession, events: Events, data_dir: DataDir, *, rebuild: bool = False) -> int:
    """Bring the table of usage to the head of the events, as `write_jobs` does, and say how many rows it has."""
    with job_description(spark, "headrace: usage"):
        return add_rows(spark, events, table_of(data_dir, "usage"), daily_usage, merge_usage, rebuild=rebuild)


def write_tables(
    spark: SparkSession,
    events: Events,
    data_dir: DataDir,
    *,
    window_ms: int | None = None,
    rebuild: bool = False,
    on_stage: Callable[[str], None] | None = None,
) -> None:
    """Bring all tables of a folder to the head of the same events.

    Where these are those of one tenant or queue, the tables hold nothing else afterwards; statistics keep the rows of
    others, since a query that follows the store may write beside this.

    Statistics are by windows of `window_ms`; when that is None, as those that are there, else of a minute. `on_stage`
    is told which table begins.
    """
    tell = on_stage or (lambda _: None)
    with cached_events(events) as same:
        tell("jobs and attempts")
        write_jobs(spark, same, data_dir, rebuild=rebuild)
        tell("errors")
        write_errors(spark, same, data_dir, rebuild=rebuild)
        tell("usage")
        write_usage(spark, same, data_dir, rebuild=rebuild)
        tell("statistics")
        folder = data_dir.location("stats")
        with job_description(spark, "headrace: stats"):
            write_stats(spark, same, folder, window_ms=window_ms, rebuild=rebuild)


def table_of(data_dir: DataDir, name: str) -> DataTable:
    """A table of a folder, which need not be there yet."""
    return open_table(data_dir.location(name), LAYOUTS[name])


def read_table(spark: SparkSession, data_dir: DataDir, name: str, *, days: int | None = None) -> DataFrame:
    """The rows of a table, as of now; those of statistics with their backlog.

    With `days`, only those of so many last days that the table has, and of what is still open.
    """
    if name == "stats":
        return read_stats(spark, data_dir.location(name))
    table = table_of(data_dir, name)
    now = table.version()
    if now is None:
        raise BadConfig(f"there is no table in {table.location}; write it first, or name another folder")
    rows = table.read(spark)
    if days is None:
        return rows
    last = sorted({day for file in now.files() if (day := file.partition["day"]) is not None})[-days:]
    return rows.where(rows["day"].isNull() | (rows["day"] >= last[0])) if last else rows


@contextmanager
def cached_events(events: Events) -> Iterator[Events]:
    """The same events for all tables that are made in this block: a journal that is read again has moved on."""
    if events.origin == "history" or events.frame.is_cached:
        yield events
        return
    kept = events.frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield replace(events, rows=kept)
    finally:
        kept.unpersist()
