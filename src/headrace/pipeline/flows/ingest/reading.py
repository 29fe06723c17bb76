"""Reads a source that a person names: files in a format that Spark knows, or a table, through SQL if need be."""

from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import StringType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.validate import cut
from headrace.pipeline.flows.ingest.source import Source, find_source
from headrace.pipeline.flows.ingest.telling import first_words, in_words
from headrace.pipeline.sql import filtered, one_sentence

VIEW = "source"
"""What SQL calls the rows of the source."""
CORRUPT = "_corrupt_record"
"""The column into which Spark puts the text of a row that it could not read, if there is one."""
COMMANDS = ("insert", "create", "drop", "alter", "merge", "update", "delete", "truncate", "set", "use", "cache", "load")
"""How SQL begins that is understood and yet no query."""
_PARSED = ("csv", "json")


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
    """The rows of a source as a frame, and with `follow` as a stream; raises `BadConfig` with a sentence to act on.

    `source` is a path, a pattern of paths or a table of Spark's catalog, in a `format` that is guessed from its name;
    or `-` for a `format` that is read by its `options` alone, such as jdbc or kafka. The first line of CSV names its
    columns, whose types are inferred unless `schema` (`id bigint, name string`) says them. `sql` is a query of the
    rows, which it calls `source`; `where` a condition.

    A row of CSV or JSON that cannot be read fails who reads it, unless option `mode` says otherwise. With `corrupt` it
    is there instead, its text in column `_corrupt_record`, whatever `where` says; a query that leaves that column out
    has it as above.
    """
    found = find_source(source, format, options, local=is_local(spark)) if isinstance(source, str) else source
    frame = _read(spark, found, schema, follow, corrupt)
    if sql is not None:
        queried = _queried(spark, frame, sql)
        if CORRUPT in frame.columns and CORRUPT not in queried.columns and corrupt:
            queried = _queried(spark, _read(spark, found, schema, follow, False), sql)
        frame = queried
    if where is None:
        return frame
    kept = filtered(frame, where, "--where")
    if not corrupt or CORRUPT not in frame.columns:
        return kept
    # A row that cannot be read is nulls, of which no condition is true: it would be gone, and nobody told.
    return frame.where(F.col(CORRUPT).isNotNull() | F.expr(where))


def is_local(spark: SparkSession) -> bool:
    """Whether Spark runs on this machine alone, and so finds paths where we do."""
    return (spark.conf.get("spark.master", "") or "").partition("[")[0] == "local"


def _read(spark: SparkSession, source: Source, schema: str | None, follow: bool, corrupt: bool) -> DataFrame:
    columns = None if schema is None else _columns(schema)
    with in_words(f"the source {cut(source.name, 100)!r} cannot be read"):
        return (
            _table(spark, source, follow) if source.format is None else _files(spark, source, columns, follow, corrupt)
        )


def _columns(schema: str) -> StructType:
    try:
        found = StructType.fromDDL(schema)
    except PySparkException as error:
        raise BadConfig(
            f"--schema {cut(schema)!r} is none: {first_words(error)}; write it as in: id bigint, name string"
        ) from None
    assert isinstance(found, StructType)
    return found


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
        schema = reader.load(source.path).schema  # a stream of files must know its columns before the first one
    if schema is not None and corrupt and is_parsed and CORRUPT not in schema.fieldNames():
        schema = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    if follow:
        stream = spark.readStream.format(source.format).options(**options)
        return (stream if schema is None else stream.schema(schema)).load(source.path)
    return (reader if schema is None else reader.schema(schema)).load(source.path)


def _delta(spark: SparkSession, source: Source) -> DataFrame | None:
    """A Delta table that lies here, through the list of its files; None when Spark itself knows the format."""
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


def _queried(spark: SparkSession, frame: DataFrame, sql: str) -> DataFrame:
    if spark.catalog.tableExists(VIEW) and spark.catalog.getTable(VIEW).isTemporary:
        raise BadConfig(
            f"there is a temporary view {VIEW!r} in this session, which is what --sql calls the rows; drop it"
        )
    frame.createTempView(VIEW)
    try:
        with one_sentence(frame, "--sql", sql):
            # In brackets, since a command such as INSERT would be run here and now, also in a dry run.
            found = spark.sql(f"SELECT * FROM (\n{sql.strip().rstrip(';')}\n)")  # noqa: S608  (a person's own SQL)
            _ = found.schema  # analysed now, while the view is there
            return found
    except BadConfig:
        if sql.strip().lower().startswith(COMMANDS):
            raise BadConfig(f"--sql {cut(sql)!r} is no query; write a select, which calls the rows source") from None
        raise
    finally:
        spark.catalog.dropTempView(VIEW)
