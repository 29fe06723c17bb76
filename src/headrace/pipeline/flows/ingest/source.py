"""Finds the format of a source before Spark is started, and reads it into a frame."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import StringType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.validate import check_path, cut, shown_path
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

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
    ".log": "text",
    ".xml": "xml",
}
"""Formats by file extension."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
"""Extensions of compressed files, which Spark unpacks itself."""
FILES_SAMPLED_MAX = 1_000
"""File names that are read of a folder: its files have one format, and there may be millions."""
NO_PATH = "-"
"""The name of a source without a path, such as jdbc and kafka, which have a format and options only."""
_GLOB = frozenset("*?[]{}")


class Source(Struct, frozen=True):
    """Files, or a table of Spark's catalog."""

    name: str
    """A path, a pattern of paths, the name of a table, or `-`."""
    format: str | None
    """None for a table."""
    options: dict[str, str] = {}

    @property
    def path(self) -> str | None:
        """None for a source without a path."""
        return None if self.name == NO_PATH else self.name


def find_source(
    name: str,
    format: str | None = None,  # noqa: A002  (as Spark calls it)
    options: Mapping[str, str] | None = None,
    *,
    local: bool = True,
) -> Source:
    """The source of a name: a path if it looks like one, exists here or has a `format`, else a table of the catalog.

    `-` is a source without a path. With `local`, Spark runs on this machine, and a path that does not exist here is
    refused. The given options win over those of the file extension.
    """
    given = dict(options or {})
    if not name:
        raise BadConfig("the source has no name; give a path, a pattern of paths, or a table that Spark knows")
    if name == NO_PATH:
        if format is None or format in {*FORMATS.values(), "delta"}:
            raise BadConfig("the source is -, which has no path; give a --format without one, such as jdbc")
        return Source(name, format, given)
    is_url = "://" in name or name.startswith("file:")
    if not is_url:
        check_path("the source", name)
    local_path = None if is_url else Path(os.path.expanduser(name))  # noqa: PTH111 - pathlib raises for an unknown user
    exists = local_path is not None and local_path.exists()
    looks_like_path = is_url or "/" in name or bool(_GLOB & set(name)) or exists or _extension(name) in FORMATS
    if format is None and not looks_like_path:
        return Source(name, None, given)
    if local_path is not None and local and not exists and not _GLOB & set(name):
        hint = "" if format is None else f"; if {cut(format)} has no path, give - and its options (--option)"
        raise BadConfig(
            f"there is no file or folder {shown_path(name)!r}; check the path, or give a table that Spark knows{hint}"
        )
    # Java may run in another folder.
    path = name if local_path is None else str(local_path.absolute() if local else local_path)
    extension = _main_extension(local_path, name)
    source_format = format or _format(local_path, name, extension)
    return Source(path, source_format, _default_options(source_format, extension) | given)


def _format(path: Path | None, name: str, extension: str) -> str:
    if path is not None and (path / "_delta_log").is_dir():
        return "delta"
    if extension not in FORMATS:
        known = ", ".join(sorted(set(FORMATS.values())))
        raise BadConfig(f"the name {cut(name)!r} does not show its format; give --format, such as {known}")
    return FORMATS[extension]


def _main_extension(path: Path | None, name: str) -> str:
    """The extension of a file, or of most files of a folder."""
    if path is None or not path.is_dir():
        return _extension(name)
    count = Counter(extension for file in islice(_files(path), FILES_SAMPLED_MAX) if (extension := _extension(file)))
    return count.most_common(1)[0][0] if count else _extension(name)


def _files(folder: Path) -> Iterator[str]:
    """Names of files that Spark would read: none that begins with a dot or an underscore."""
    for _, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "_"))]
        yield from (file for file in files if not file.startswith((".", "_")))


def _extension(name: str) -> str:
    path = Path(name.rstrip("/"))
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def _default_options(source_format: str, extension: str) -> dict[str, str]:
    if source_format != "csv":
        return {}
    return {"header": "true", "inferSchema": "true"} | ({"sep": "\t"} if extension == ".tsv" else {})


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
            _table(spark, source, follow)
            if source.format is None
            else _read_files(spark, source, columns, follow, corrupt)
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


def _read_files(
    spark: SparkSession, source: Source, schema: StructType | None, follow: bool, corrupt: bool
) -> DataFrame:
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
        raise BadConfig(f"this session has a temporary view {VIEW!r}, the name of the rows in --sql; drop it")
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
