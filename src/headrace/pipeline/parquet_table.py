"""Replaces a table of Parquet files in one step: whoever reads it sees the old one or the new one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.files import exchange, locked, sync_file, sync_folder, write_whole

MARK = "_headrace"
"""The file that says that a folder is a table of ours; readers of Parquet leave out what begins so."""
INSTANTS = "spark.sql.parquet.outputTimestampType"
GLOB = "*.parquet"
"""The files of a table."""


def replace_table(frame: DataFrame, folder: Path) -> int:
    """Write a frame to the folder of a table, in place of what the table held, and say how many rows it has.

    Who reads meanwhile sees the old table until the new one is there whole. Raises `BadConfig` for a folder that holds
    anything but a table written by this function. One run at a time: a second one waits for the first.
    """
    folder = folder.resolve()
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.new")
    with locked(folder.with_name(f".{folder.name}.lock")):
        _drop(fresh)  # what a run left that was killed
        with _plain_instants(frame.sparkSession):
            # By its scheme: the default of this Spark may be a file system elsewhere.
            frame.write.parquet(f"file:{fresh}", compression="zstd")
        rows = rows_of(fresh)
        # Spark does not wait for the disk, and the table that was there before is dropped.
        for file in fresh.glob(GLOB):
            sync_file(file)
        write_whole(fresh / MARK, b"")
        if folder.exists():
            check_replaceable(folder)
            exchange(fresh, folder)
            _drop(fresh)
        else:
            fresh.rename(folder)
        sync_folder(folder.parent)
    return rows


def check_replaceable(folder: Path) -> None:
    """Refuse other folders than tables of Headrace: a wrong path may be somebody's home."""
    if folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise BadConfig(f"{folder} is not a table of Headrace and was left alone; name another folder")


def rows_of(folder: Path) -> int:
    """How many rows a table has, by what its files say of themselves."""
    return sum(pq.read_metadata(file).num_rows for file in folder.glob(GLOB))


@contextmanager
def _plain_instants(spark: SparkSession) -> Iterator[None]:
    """Within this block, Spark writes instants as other engines read them: in microseconds, and as UTC."""
    before = spark.conf.get(INSTANTS)
    spark.conf.set(INSTANTS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(INSTANTS, before)


def _drop(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
