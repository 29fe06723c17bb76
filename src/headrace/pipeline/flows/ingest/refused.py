"""Reads the rows that were refused and kept."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from headrace.pipeline.history.layout import spark_path
from headrace.pipeline.source.sink.rejects import SCHEMA


def read_refused(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The rows that writes into `folder` have kept: why each was refused (`reason`, `sentence`), what it said as
    columns of a job, its payload as text, and the `run` that met it.

    A frame without rows when none was refused. Mended rows can be written again: drop `reason`, `sentence` and `run`.
    """
    home = Path(folder).expanduser().absolute()
    known = from_arrow_schema(SCHEMA)
    schema = StructType([*known.fields, StructField("run", StringType())])
    if not any(home.glob("run=*/*.parquet")):
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(spark_path(home))
