"""The answer of a map as a table of Parquet files: what is in it outlives what the store keeps."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StringType

from headrace.model.errors import BadConfig
from headrace.pipeline.flows.map.keys import ANSWER, Key
from headrace.pipeline.flows.map.results import MARKS
from headrace.pipeline.parquet_table import MARK, check_replaceable


def read_answers(spark: SparkSession, folder: Path) -> DataFrame | None:
    """The table in a folder as it was written; None when there is none."""
    if not (folder / MARK).is_file():
        return None
    # By its scheme: the default of this Spark may be a file system elsewhere.
    return spark.read.parquet(f"file:{folder.resolve()}")


def check_table(spark: SparkSession, folder: Path, key: Key, result_type: DataType | None) -> None:
    """Refuse a folder that holds anything but an answer with the same columns, which is to be replaced."""
    check_replaceable(folder.resolve())
    earlier = read_answers(spark, folder)
    if earlier is None:
        return
    wanted = dict(zip(key.names, (each.simpleString() for each in key.types), strict=True))
    wanted["result"] = (result_type or StringType()).simpleString()
    found = {field.name: field.dataType.simpleString() for field in earlier.schema.fields}
    others = found.keys() - wanted.keys() - {*ANSWER, *MARKS}
    different = [name for name, kind in wanted.items() if found.get(name) != kind]
    if different or others:
        told = ", ".join(f"{name} {found.get(name, 'missing')}" for name in (*different, *sorted(others)))
        raise BadConfig(
            f"the table in {folder} has other columns than this map makes ({told}); name another folder, or delete it"
        )
