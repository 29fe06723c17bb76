"""Reads a source into a frame: files in a format of Spark, or a table, filtered by SQL."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import StringType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.validate import cut
from headrace.pipeline.flows.ingest.source import Source, find_source
from headrace.pipeline.spark_errors import headrace_error
from headrace.pipeline.sql import filtered, one_sentence, unlogged

VIEW = "source"
"""The name of the rows in SQL."""
CORRUPT = "_corrupt_record"
"""Spark's column for the text of a row that it cannot parse."""
COMMANDS = ("insert", "create", "drop", "alter", "merge", "update", "delete", "truncate", "set", "use", "cache", "load")
"""First words of SQL that is valid but no query."""
_PARSED = ("csv", "json")
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")
"""The error condition that begins a message of Spark; a stream's own is followed by that of its batch."""
_REASON_CHARS_MAX = 300


def read_source(
    spark: SparkSession,
    source: str | Source,
    format: str | None = None,  # noqa: A002  (as Spark calls it)
    options: Mapping[str, str] | None = None,
    schema: str | None = None,
    sql: str | None = None,
    where: str | None = None,
    *,
    follow: bool = False,
    corrupt: bool = False,
) -> DataFrame:
    """The rows of a source as a frame, with `follow` as a stream; raises `BadConfig` with one sentence.

    `source` is a path, a pattern of paths or a table of Spark's catalog, and its `format` is guessed from the name; or
    `-` for a `format` that is read by its `options` alone, such as jdbc or kafka. The first line of CSV names its
    columns, and their types are inferred unless `schema` (`id bigint, name string`) gives them. `sql` is a query over
    the rows as `source`; `where` is a condition.

    A row of CSV or JSON that cannot be parsed fails the read, unless option `mode` says otherwise. With `corrupt` the
    row is kept with its text in column `_corrupt_record`, whatever `where` says; a query that leaves the column out
    fails on such a row.
    """
    found = find_source(source, format, options, local=is_local(spark)) if isinstance(source, str) else source
    frame = _read(spark, found, schema, follow, corrupt)
    if sql is not None:
        queried = _query(spark, frame, sql)
        if CORRUPT in frame.columns and CORRUPT not in queried.columns and corrupt:
            queried = _query(spark, _read(spark, found, schema, follow, False), sql)
        frame = queried
    if where is None:
        return frame
    matching = filtered(frame, where, "--where")
    if not corrupt or CORRUPT not in frame.columns:
        return matching
    # A corrupt row is all nulls, for which no condition is true: it would be dropped in silence.
    return frame.where(F.col(CORRUPT).isNotNull() | F.expr(where))


def is_local(spark: SparkSession) -> bool:
    """Whether Spark runs on this machine alone, with the same paths."""
    return (spark.conf.get("spark.master", "") or "").partition("[")[0] == "local"


@contextmanager
def one_line_errors(what: str) -> Iterator[None]:
    """Within this block, an error of Spark becomes one sentence that begins with `what`, and is logged nowhere."""
    with unlogged():
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            raise headrace_error(error) or BadConfig(f"{what}: {first_sentence(error)}") from None


def first_sentence(error: Exception) -> str:
    """The first sentence of an error of Spark, without the query plan; that of the task where a task failed."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    causes = [line for line in lines if line.startswith("Caused by: ") and "] " in line]
    others = [line for line in lines if line and "An error occurred while calling" not in line]
    reason = (causes[-1:] or others[:1] or ["nothing more is known"])[0]
    sentence = _CONDITION.split(reason.split(" SQLSTATE:")[0])[-1]
    return cut(sentence.rstrip(". "), _REASON_CHARS_MAX)


def _read(spark: SparkSession, source: Source, schema: str | None, follow: bool, corrupt: bool) -> DataFrame:
    columns = None if schema is None else _columns(schema)
    with one_line_errors(f"the source {cut(source.name, 100)!r} cannot be read"):
        return (
            _table(spark, source, follow) if source.format is None else _files(spark, source, columns, follow, corrupt)
        )


def _columns(schema: str) -> StructType:
    try:
        columns = StructType.fromDDL(schema)
    except PySparkException as error:
        raise BadConfig(
            f"--schema {cut(schema)!r} is not a schema: {first_sentence(error)}; write it as in: id bigint, name string"
        ) from None
    assert isinstance(columns, StructType)
    return columns


def _table(spark: SparkSession, source: Source, follow: bool) -> DataFrame:
    if not spark.catalog.tableExists(source.name):
        raise BadConfig(
            f"there is no file, folder or table {source.name!r}; give a path, a pattern of paths, or a table that"
            " Spark's catalog knows"
        )
    return (spark.readStream if follow else spark.read).options(**source.options).table(source.name)


def _files(spark: SparkSession, source: Source, schema: StructType | None, follow: bool, corrupt: bool) -> DataFrame:
    assert source.format is not None
    if source.format == "delta" and not follow and (frame := _delta(spark, source)) is not None:
        return frame
    options, is_parsed = source.options, source.format in _PARSED
    if is_parsed and "mode" not in {name.lower() for name in options}:
        options = options | {"mode": "PERMISSIVE" if corrupt else "FAILFAST"}
    reader = spark.read.format(source.format).options(**options)
    if schema is None and source.path is not None and (follow or (corrupt and is_parsed)):
        schema = reader.load(source.path).schema  # a stream of files needs its columns before the first file
    if schema is not None and corrupt and is_parsed and CORRUPT not in schema.fieldNames():
        schema = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    if follow:
        stream = spark.readStream.format(source.format).options(**options)
        return (stream if schema is None else stream.schema(schema)).load(source.path)
    return (reader if schema is None else reader.schema(schema)).load(source.path)


def _delta(spark: SparkSession, source: Source) -> DataFrame | None:
    """A local Delta table through the list of its files; None when Spark itself has the format."""
    try:
        spark.read.format("delta").load(source.name)
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error) or "://" in source.name:
            raise
    else:
        return None
    try:
        from deltalake import DeltaTable
    except ModuleNotFoundError as missing:
        raise BadConfig("a Delta table is read with package deltalake; pip install 'headrace[delta]'") from missing
    table = DeltaTable(source.name)
    files = [f"file:{file.removeprefix('file://')}" for file in table.file_uris()]
    base = f"file:{Path(source.name).absolute()}"
    reader = spark.read.option("basePath", base).option("mergeSchema", "true")
    return reader.parquet(*files) if files else None


def _query(spark: SparkSession, frame: DataFrame, sql: str) -> DataFrame:
    if spark.catalog.tableExists(VIEW) and spark.catalog.getTable(VIEW).isTemporary:
        raise BadConfig(f"this session has a temporary view {VIEW!r}, which is what --sql calls the rows; drop it")
    frame.createTempView(VIEW)
    try:
        with one_sentence(frame, "--sql", sql):
            # In brackets: Spark would run a command such as INSERT at once, even in a dry run.
            rows = spark.sql(f"SELECT * FROM (\n{sql.strip().rstrip(';')}\n)")  # noqa: S608  (the user's own SQL)
            _ = rows.schema  # analysed while the view exists
            return rows
    except BadConfig:
        if sql.strip().lower().startswith(COMMANDS):
            raise BadConfig(f"--sql {cut(sql)!r} is not a query; write a select, which calls the rows source") from None
        raise
    finally:
        spark.catalog.dropTempView(VIEW)
