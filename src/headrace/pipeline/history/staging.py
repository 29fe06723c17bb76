"""Lets Spark write a batch beside the history, in files of their final form."""

import secrets
import shutil
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import date_from_unix_date, floor, unix_micros

from headrace.model.errors import StoreUnavailable
from headrace.model.limits import HISTORY_TASK_EVENTS
from headrace.pipeline.history.layout import STAGING, leaves, spark_path

ORDER = ("tenant", "shard", "seq")
"""Of the rows in a file: near to each other what is asked for together, and cheap to merge."""
_DAY_US = 86_400_000_000


def stage(frame: DataFrame, folder: Path, events: int) -> list[Path]:
    """Write the rows of a batch of so many events, a file for each day and queue, and say which files these are."""
    clear(folder)
    # Named anew each time: executors of a killed run may still be writing into theirs.
    place = folder / STAGING / secrets.token_hex(8)
    # The session of a batch is the query's own. Spark's default form of instants is one that other engines dislike.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = frame.withColumn("day", _day())
    # A shuffle costs a small batch more than a second task would save.
    rows = rows.coalesce(1) if events <= HISTORY_TASK_EVENTS else rows.repartition("day", "queue")
    writer = rows.sortWithinPartitions("day", "queue", *ORDER).write.partitionBy("day", "queue")
    writer.options(compression="zstd", maxRecordsPerFile=0).parquet(spark_path(place))
    files = [file for leaf in leaves(place) for file in sorted(leaf.glob("*.parquet"))] if place.is_dir() else []
    if len({file.parent for file in files}) < len(files):
        raise StoreUnavailable(
            f"Spark wrote several files for one day and queue below {place}, where one was wanted; start again"
        )
    return files


def clear(folder: Path) -> None:
    """Remove what batches have left behind."""
    shutil.rmtree(folder / STAGING, ignore_errors=True)


def _day() -> Column:
    """The UTC date of an event, whatever the time zone of the session is."""
    return date_from_unix_date(floor(unix_micros("happened_at") / _DAY_US).cast("int"))
