"""Reads stores and writes tables: the only module of the pipeline with effects outside Spark."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline import report
from headrace.pipeline.source.options import ALL, Options
from headrace.pipeline.tables.jobs import jobs
from headrace.pipeline.tables.standing import standing

Rows = list[dict[str, Any]]


class Summary(Struct, frozen=True):
    """What a journal and its table of jobs say at a glance; the tables are those of `pipeline.report`."""

    events: int
    jobs: int
    events_by_queue: Rows
    outcomes_by_kind: Rows
    times_by_kind: Rows
    jobs_by_attempts: Rows
    deaths_by_reason: Rows
    standing: Rows


def read_journal(spark: SparkSession, url: str, *, tenant: str = ALL, queue: str = ALL) -> DataFrame:
    """The journal of the store at `url`; of all tenants and queues unless told otherwise."""
    master = str(spark.sparkContext.master)
    if url.startswith("sqlite:") and not master.startswith("local"):
        raise BadConfig(
            f"a SQLite store can be read by a local Spark only, and this one runs on {master}; use local[*]"
        )
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would find the same faults, but wrap them into a traceback of its own.
    Options.parse(options)
    return spark.read.format("headrace").options(**options).load()


def write_jobs(spark: SparkSession, url: str, path: str) -> int:
    """Write the table of jobs of the store at `url` to a folder of Parquet files, and say how many rows it has.

    A table that is there already is replaced; a folder with anything else in it is refused.
    """
    _check_replaceable(Path(path))
    jobs(read_journal(spark, url)).write.mode("overwrite").parquet(path)
    return spark.read.parquet(path).count()


def summarise(spark: SparkSession, url: str, path: str) -> Summary:
    """Read the journal at `url` and the table of jobs at `path`, and count."""
    journal, table = read_journal(spark, url).cache(), spark.read.parquet(path)
    try:
        return Summary(
            events=journal.count(),
            jobs=table.count(),
            events_by_queue=_rows(report.events_by_queue(journal)),
            outcomes_by_kind=_rows(report.outcomes_by_kind(table)),
            times_by_kind=_rows(report.times_by_kind(journal)),
            jobs_by_attempts=_rows(report.jobs_by_attempts(table)),
            deaths_by_reason=_rows(report.deaths_by_reason(table)),
            standing=_rows(standing(table)),
        )
    finally:
        journal.unpersist()


def _rows(frame: DataFrame) -> Rows:
    return [row.asDict() for row in frame.collect()]


def _check_replaceable(folder: Path) -> None:
    # Spark empties the folder before it writes, so a wrong path must not be somebody's home.
    if folder.exists() and not (folder / "_SUCCESS").is_file() and (folder.is_file() or any(folder.iterdir())):
        raise BadConfig(f"{folder} exists and is no table that Spark wrote; name a folder that is new or empty")
