"""Reads a history as a DataFrame."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.storage.layout import Condition, TableVersion
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.read import read_version
from headrace.pipeline.storage.table import open_log


def read_history(spark: SparkSession, folder: str | Path | Location, *, where: Sequence[Condition] = ()) -> DataFrame:
    """The events of the history in a folder: the journal's columns, `day`, `batch`, and `payload` and `result` if it
    has them.

    `where` are conditions such as `("day", "=", "2030-01-31")` or `("batch", ">", 17)`: only files that may hold such
    events are opened. Later filters on `day` skip folders, and on other columns row groups. What is added later is seen
    by who reads again.
    """
    location, now = _newest(folder)
    return read_version(spark, location, now, (), where)


def history_files(folder: str | Path | Location, *, where: Sequence[Condition] = ()) -> list[str]:
    """The paths or URLs of the files that hold the events now, for engines that read Parquet and no table format."""
    location, now = _newest(folder)
    return [str(location.child(file.path)) for file in now.files(where)]


def _newest(folder: str | Path | Location) -> tuple[Location, TableVersion]:
    location = Location.parse(folder)
    now = open_log(location).load()
    if now is None:
        raise BadConfig(
            f"there is no history in {location}; check the path, or write one with headrace pipeline history"
        )
    return location, now
