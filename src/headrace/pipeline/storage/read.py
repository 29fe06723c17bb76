"""Reads a version of a table as a DataFrame: by Spark itself from a local disk, by pyarrow from object storage."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructType

from headrace.pipeline.storage.layout import Condition, DataFile, TableVersion, plain_values
from headrace.pipeline.storage.location import Location

_TASK_BYTES = 64 * 2**20
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_OPS: dict[type[Filter], Any] = {
    EqualTo: "=",
    In: "in",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
_Comparison = EqualTo | In | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual
_PUSHED = (DateType, IntegerType, LongType, StringType)
_COMPARE: dict[str, Any] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def read_version(
    spark: SparkSession, location: Location, now: TableVersion, columns: Sequence[str], where: Sequence[Condition]
) -> DataFrame:
    """The rows of a version for which all conditions hold, with these columns or with all."""
    schema, files = from_arrow_schema(now.schema, prefer_timestamp_ntz=False), now.files(where)
    names = list(columns) or schema.names
    if not files:
        return spark.createDataFrame([], schema).select(*names)
    if location.is_local:
        base = location.spark_url
        frame = spark.read.schema(schema).option("basePath", base).parquet(*(f"{base}/{file.path}" for file in files))
    else:
        wanted = {*names, *(column for column, _, _ in where)}
        spark.dataSource.register(FileSource)
        frame = (
            spark.read.format(FileSource.name())
            .schema(StructType([field for field in schema if field.name in wanted]))
            .options(
                location=location.url,
                version=str(now.number),
                where=msgspec.json.encode([(name, op, plain_values(value)) for name, op, value in where]).decode(),
                pushdown=str(spark.conf.get(_PUSHDOWN, "false")).lower(),
            )
            .load()
        )
    return frame.where(_column(where)).select(*names) if where else frame.select(*names)


class FileSource(DataSource):
    """`format("headrace_files")`: files of a table on storage for which this Spark may have no connector."""

    @classmethod
    def name(cls) -> str:
        return "headrace_files"

    def reader(self, schema: StructType) -> "FileReader":
        kind = PushingFileReader if self.options["pushdown"] == "true" else FileReader
        where = msgspec.json.decode(self.options["where"], type=list[tuple[str, str, Any]])
        return kind(Location(self.options["location"]), int(self.options["version"]), schema, where)


class FileTask(InputPartition):
    """The files that a task reads, and the columns that it gives."""

    def __init__(self, schema: Any) -> None:
        super().__init__(None)
        self.schema = schema
        self.files: list[DataFile] = []


class FileReader(DataSourceReader):
    """Divides files among tasks, each of which reads the columns that are wanted."""

    def __init__(self, location: Location, version: int, schema: StructType, where: list[Any]) -> None:
        self._location = location
        self._version = version
        self._schema = schema
        self._where = where

    def partitions(self) -> list[InputPartition]:
        from headrace.pipeline.storage.delta import DeltaLog

        now = DeltaLog(self._location).load(self._version)
        assert now is not None, "a version that was read is kept for days"
        schema = pa.schema([now.schema.field(name) for name in self._schema.names])
        # One at least: Spark would read a partition of nothing for none.
        tasks, size = [FileTask(schema)], 0
        for file in now.files(self._where):
            if tasks[-1].files and size + file.size > _TASK_BYTES:
                tasks.append(FileTask(schema))
                size = 0
            tasks[-1].files.append(file)
            size += file.size
        return list(tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileTask), "Spark gives back what it was given"
        for file in partition.files:
            yield from _read_file(self._location, file, partition.schema, self._where)


class PushingFileReader(FileReader):
    """Takes Spark's filters as well, which Spark applies to the rows once more."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        for each in filters:
            # Instants are not taken: without a zone, Spark means its session's.
            if isinstance(each, _Comparison) and isinstance(self._schema[each.attribute[0]].dataType, _PUSHED):
                value = list(each.value) if isinstance(each, In) else each.value
                self._where.append((each.attribute[0], _OPS[type(each)], plain_values(value)))
            yield each


def _read_file(location: Location, file: DataFile, schema: Any, where: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
    files, folder = location.filesystem()
    inside = pa.schema([field for field in schema if field.name not in file.partition])
    rows = ds.dataset([f"{folder}/{file.path}"], filesystem=files, format="parquet", schema=inside)
    terms = [_expression(*condition) for condition in where if _is_skippable(inside, *condition)]
    for batch in rows.to_batches(filter=reduce(and_, terms) if terms else None):
        columns = [
            _repeated(file.partition[field.name], field.type, batch.num_rows)
            if field.name in file.partition
            else batch.column(field.name)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_skippable(schema: Any, column: str, op: str, value: Any) -> bool:
    """Whether row groups can be skipped by it: for others it is enough that Spark looks at their rows."""
    values = value if op == "in" else [value]
    return column in schema.names and (
        (pa.types.is_string(schema.field(column).type) and all(isinstance(each, str) for each in values))
        or (pa.types.is_integer(schema.field(column).type) and all(isinstance(each, int) for each in values))
    )


def _expression(column: str, op: str, value: Any) -> Any:
    field = pc.field(column)
    if op == "in":
        return field.isin(list(value))
    return _COMPARE[op](field, value)


def _column(where: Sequence[Condition]) -> Column:
    return reduce(
        and_, (col(name).isin(*value) if op == "in" else _COMPARE[op](col(name), value) for name, op, value in where)
    )


def _repeated(value: str | None, kind: Any, count: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.string()), count).cast(kind)
