"""Reads stores and writes tables: the only module of the pipeline with effects outside Spark."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.source.options import ALL, Options
from headrace.pipeline.tables.jobs import jobs


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


def _check_replaceable(folder: Path) -> None:
    # Spark empties the folder before it writes, so a wrong path must not be somebody's home.
    if folder.exists() and not (folder / "_SUCCESS").is_file() and (folder.is_file() or any(folder.iterdir())):
        raise BadConfig(f"{folder} exists and is no table that Spark wrote; name a folder that is new or empty")
