"""Builds the results of a map from rows, jobs and an earlier table, and replaces the table in one step."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import DataType, StringType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.model.validate import cut
from headrace.pipeline.files import exchange, locked, sync_file, sync_folder, write_whole
from headrace.pipeline.flows.fleet.report import FleetReport
from headrace.pipeline.flows.map.keys import RESULT_COLUMNS, Key
from headrace.pipeline.source.schema import JOBS
from headrace.pipeline.sql import one_sentence, quoted

MARK = "_headrace"
"""The file that marks a folder as a table of Headrace; readers of Parquet skip names with an underscore."""
INSTANTS = "spark.sql.parquet.outputTimestampType"
GLOB = "*.parquet"
"""The files of a table."""

OUTCOMES = ("done", "dead", "cancelled", "open", "lost", "refused")
"""The outcomes of a key; `lost` means that the store no longer has its job."""
CONFLICT = "the key was mapped before with another kind or payload; give the row another key, or map under another name"
ROW_COLUMNS = ("_key", "_tag")
"""Internal columns that match a stored result with its row: the text of the key, and a digest of the row."""
_JOB_COLUMNS = ("id", "state", "tag", "result", "error_class", "error_message", "attempts", "ended_at", "as_of_seq")
_OPEN = ("waiting", "active", "blocked")
_VALUE = "v"
Step = Literal["reading", "enqueuing", "running", "collecting"]
STEPS: tuple[Step, ...] = ("reading", "enqueuing", "running", "collecting")


class MapProgress(Struct, frozen=True):
    """How far a map is."""

    step: Step
    rows: int = 0
    """Rows of the frame, once they are read."""
    open: int = 0
    """Jobs of its queue that are waiting or running."""
    done: int = 0
    dead: int = 0


class MapReport(Struct, frozen=True, kw_only=True):
    """The results of a map as a frame, and their counts."""

    frame: DataFrame
    """A row for each key with its result or error, and one more for each row that conflicts with another of its key.

    Spark does not read the store again for it: it reads the files of `folder`, or a checkpoint if there is none.
    """
    name: str
    queue: Queue
    rows: int
    """Rows of the given frame."""
    created: int
    """New jobs."""
    duplicate: int
    """Rows whose jobs were created by an earlier call."""
    folded: int
    """Rows equal to another one."""
    outcomes: dict[str, int]
    """Result rows by outcome: done, dead, cancelled, open, lost, refused."""
    folder: Path | None = None
    fleet: FleetReport | None = None
    """None if no fleet was needed."""

    @property
    def is_complete(self) -> bool:
        """Whether no job is open: another call would change nothing."""
        return not self.outcomes.get("open")

    def sentence(self) -> str:
        """The counts in one sentence."""
        parts = [f"{count:,} {outcome}" for outcome, count in self.outcomes.items() if count]
        outcomes = ", ".join(parts) if parts else "none has a result"
        return f"of {self.rows:,} rows {outcomes}; {self.created:,} new jobs, {self.duplicate:,} from earlier calls"

    def __str__(self) -> str:
        return self.sentence()


def read_jobs(spark: SparkSession, url: str, queue: Queue, name: str) -> DataFrame:
    """The jobs of a map in the store."""
    options = {"url": url, "what": "jobs", "tenant": queue.tenant, "queue": queue.full_name}
    jobs = spark.read.format("headrace").options(**options, columns=",".join(_JOB_COLUMNS)).load()
    return jobs.where(F.col("id").startswith(f"{name}/"))


def no_jobs(spark: SparkSession) -> DataFrame:
    """The jobs of a queue that does not exist."""
    return spark.createDataFrame([], JOBS.pick(_JOB_COLUMNS).spark)


def map_results(rows: DataFrame, key: Key, jobs: DataFrame, result_type: DataType | None = None) -> DataFrame:
    """A row for each key, and one more for each row that conflicts with another of the same key.

    Reads `rows` as of `map.rows` and `jobs` as of `read_jobs`. Returns the columns of the key, `outcome`, `result`
    (JSON text, or of `result_type`), `error_class`, `error_message`, `attempts`, `ended_at`; and `_key` and `_tag`.
    """
    # By the text of the key and not by its columns: Spark takes 0.0 and -0.0 for one, and their ids are two.
    distinct = rows.dropDuplicates(["_key", "_tag", "_reason"])
    joined = distinct.join(_latest(jobs), F.col("_id") == F.col("_job.id"), how="left")
    is_conflict = F.col("_job.id").isNotNull() & ~F.col("_job.tag").eqNullSafe(F.col("_tag"))
    is_accepted = F.col("_reason").isNull() & ~is_conflict
    state = F.when(F.col("_job.state").isin(*_OPEN), F.lit("open")).otherwise(F.col("_job.state"))
    outcome = F.when(~is_accepted, F.lit("refused")).otherwise(F.coalesce(state, F.lit("lost")))
    refusal = {
        "error_class": F.coalesce(F.col("_reason"), F.lit("conflict")),
        "error_message": F.coalesce(F.col("_sentence"), F.lit(CONFLICT)),
    }
    columns = {
        name: F.when(is_accepted, F.col(f"_job.{name}")).otherwise(refusal.get(name)) for name in RESULT_COLUMNS[1:]
    }
    if result_type is not None:
        columns["result"] = _parsed(columns["result"], result_type)
    names = [F.col(quoted(name)) for name in key.names]
    return joined.select(
        *names, outcome.alias("outcome"), *(columns[name].alias(name) for name in RESULT_COLUMNS[1:]), *ROW_COLUMNS
    )


def merge_results(results: DataFrame, earlier: DataFrame) -> DataFrame:
    """The results with an earlier table: it fills in the rows that the store has lost, and adds its other keys."""
    finished = earlier.where(F.col("outcome").isin("done", "dead", "cancelled"))
    by_row = finished.select(*ROW_COLUMNS, F.struct(*RESULT_COLUMNS).alias("_earlier")).dropDuplicates(
        list(ROW_COLUMNS)
    )
    joined = results.join(by_row, on=list(ROW_COLUMNS), how="left")
    is_lost = (F.col("outcome") == "lost") & F.col("_earlier").isNotNull()
    filled = {name: F.when(is_lost, F.col(f"_earlier.{name}")).otherwise(F.col(name)) for name in RESULT_COLUMNS}
    columns = (filled[name].alias(name) if name in filled else F.col(quoted(name)) for name in results.columns)
    others = finished.join(results.select("_key"), on="_key", how="left_anti")
    return joined.select(*columns).unionByName(others)


def count_errors(results: DataFrame) -> DataFrame:
    """The errors of results, the most frequent first: `outcome`, `error_class`, `rows`, `example`."""
    failed = results.where(F.col("error_class").isNotNull())
    grouped = failed.groupBy("outcome", "error_class")
    counts = grouped.agg(F.count(F.lit(1)).alias("rows"), F.min("error_message").alias("example"))
    return counts.orderBy(F.desc("rows"), "outcome", "error_class")


def result_type_of(frame: DataFrame, schema: str | None) -> DataType | None:
    """The type that a text such as `score double, tags array<string>` or `int` names."""
    if schema is None:
        return None
    with one_sentence(frame, "schema", schema):
        return DataType.fromDDL(schema)
    raise BadConfig(f"schema {cut(schema)!r} is not a schema; write it as in: score double, tags array<string>")


def read_results(spark: SparkSession, folder: Path) -> DataFrame | None:
    """The table of results in a folder; None when there is none."""
    if not (folder / MARK).is_file():
        return None
    # With its scheme: this Spark may have another default file system.
    return spark.read.parquet(f"file:{folder.resolve()}")


def check_table(spark: SparkSession, folder: Path, key: Key, result_type: DataType | None) -> None:
    """Refuse a folder that holds anything but results with the same columns, since they are replaced."""
    check_replaceable(folder.resolve())
    earlier = read_results(spark, folder)
    if earlier is None:
        return
    expected = dict(zip(key.names, (each.simpleString() for each in key.types), strict=True))
    expected["result"] = (result_type or StringType()).simpleString()
    actual = {field.name: field.dataType.simpleString() for field in earlier.schema.fields}
    others = actual.keys() - expected.keys() - {*RESULT_COLUMNS, *ROW_COLUMNS}
    different = [name for name, kind in expected.items() if actual.get(name) != kind]
    if different or others:
        columns = ", ".join(f"{name} {actual.get(name, 'missing')}" for name in (*different, *sorted(others)))
        raise BadConfig(
            f"the table in {folder} has other columns than this map makes ({columns}); name another folder, or delete"
            " the table"
        )


def _latest(jobs: DataFrame) -> DataFrame:
    """One job for each id: the live one, else the one that finished last. A scan may return a job that moves twice."""
    is_open = F.col("state").isin(*_OPEN)
    order = F.struct(is_open, F.coalesce(F.col("ended_at"), F.lit(0).cast("timestamp")), F.col("as_of_seq"))
    latest = F.max_by(F.struct(*jobs.columns), order)
    return jobs.groupBy(F.col("id").alias("_group")).agg(latest.alias("_job")).select("_job")


def _parsed(result: Column, kind: DataType) -> Column:
    # Inside an object: from_json parses no bare text or number.
    wrapped = F.concat(F.lit(f'{{"{_VALUE}":'), result, F.lit("}"))
    return F.from_json(wrapped, StructType([StructField(_VALUE, kind)]))[_VALUE]


def replace_table(frame: DataFrame, folder: Path) -> int:
    """Replace the table in a folder with a frame; returns its number of rows.

    Readers see the old table until the new one is complete. Raises `BadConfig` for a folder that holds anything but a
    table written by this function. A second run waits for the first.
    """
    folder = folder.resolve()
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.new")
    with locked(folder.with_name(f".{folder.name}.lock")):
        _drop(fresh)  # left by a killed run
        with _plain_instants(frame.sparkSession):
            # With a scheme: the default file system of this Spark may be another one.
            frame.write.parquet(f"file:{fresh}", compression="zstd")
        rows = rows_of(fresh)
        # Spark does not sync to disk, and the old table is dropped.
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
    """Refuse folders that are not tables of Headrace: a wrong path may be a home folder."""
    if folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise BadConfig(f"{folder} is not a table of Headrace and was left alone; name another folder")


def rows_of(folder: Path) -> int:
    """The number of rows of a table, from the metadata of its files."""
    return sum(pq.read_metadata(file).num_rows for file in folder.glob(GLOB))


@contextmanager
def _plain_instants(spark: SparkSession) -> Iterator[None]:
    """Within this block, Spark writes instants in microseconds of UTC, which other engines read."""
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
