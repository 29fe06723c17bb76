"""Reads a history as a DataFrame."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.pipeline.history.delta import table_files
from headrace.pipeline.history.layout import history_folder, spark_path
from headrace.pipeline.history.state import HistoryState, read_state
from headrace.pipeline.source.schema import JOURNAL, JOURNAL_PAYLOADS


def read_history(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The events of the history in a folder: the journal's columns, `day`, and `payload` and `result` if it has them.

    A filter on `day` or `queue` reads only their folders. What is added later is seen by who reads again.
    """
    home = history_folder(folder)
    state = read_state(home)
    if state is None:
        raise BadConfig(f"there is no history in {home}; check the path, or write one with headrace pipeline history")
    schema = schema_of(state)
    if state.form == "delta":
        # The table says which files count: those that were merged stay for a while.
        files = [spark_path(Path(file)) for file in table_files(home)]
        if not files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", spark_path(home)).parquet(*files).select(*schema.names)
    return spark.read.schema(schema).parquet(spark_path(home)).select(*schema.names)


def schema_of(state: HistoryState) -> StructType:
    """The columns of a history; said, since Spark would take a queue called 2024 for a number."""
    bodies = JOURNAL_PAYLOADS.spark.fields if state.payloads else []
    return StructType([*JOURNAL.spark.fields, StructField("day", DateType()), *bodies])
