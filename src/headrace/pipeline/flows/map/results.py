"""The answer of a map: what became of each key, out of its rows and the jobs of its queue."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import DataType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.model.validate import cut
from headrace.pipeline.flows.map.keys import ANSWER, Key, quoted
from headrace.pipeline.source.schema import JOBS
from headrace.pipeline.sql import one_sentence

OUTCOMES = ("done", "dead", "cancelled", "open", "lost", "refused")
"""What can become of a key; `lost` is what the store knows nothing of any more."""
CHANGED = (
    "the key was mapped before with another kind or payload, whose answer is not this row's; give the row another key,"
    " or map under another name"
)
_COLUMNS = ("id", "state", "tag", "result", "error_class", "error_message", "attempts", "ended_at", "as_of_seq")
_OPEN = ("waiting", "active", "blocked")
_VALUE = "v"
MARKS = ("_key", "_tag")
"""Columns of an answer that are not for its reader: the text of the key, and what the row said in short."""


def read_jobs(spark: SparkSession, url: str, queue: Queue, name: str) -> DataFrame:
    """What the store holds of the jobs of a map."""
    options = {"url": url, "what": "jobs", "tenant": queue.tenant, "queue": queue.full_name}
    jobs = spark.read.format("headrace").options(**options, columns=",".join(_COLUMNS)).load()
    return jobs.where(F.col("id").startswith(f"{name}/"))


def no_jobs(spark: SparkSession) -> DataFrame:
    """The same of a queue that is not there."""
    return spark.createDataFrame([], JOBS.pick(_COLUMNS).spark)


def answers(rows: DataFrame, key: Key, jobs: DataFrame, result_type: DataType | None = None) -> DataFrame:
    """A row for each key, and one more for each row that says something else under the same key.

    Reads `rows` as `map.rows` makes them and `jobs` as `read_jobs` does. Returns the columns of the key, `outcome`,
    `result` (JSON text, or of `result_type`), `error_class`, `error_message`, `attempts`, `ended_at`; and `_key` and
    `_tag`, by which a later answer finds its own.
    """
    # By the text of the key and not by its columns: Spark takes 0.0 and -0.0 for one, and their ids are two.
    distinct = rows.dropDuplicates(["_key", "_tag", "_reason"])
    joined = distinct.join(_last(jobs), F.col("_id") == F.col("_job.id"), how="left")
    is_changed = F.col("_job.id").isNotNull() & ~F.col("_job.tag").eqNullSafe(F.col("_tag"))
    is_ours = F.col("_reason").isNull() & ~is_changed
    state = F.when(F.col("_job.state").isin(*_OPEN), F.lit("open")).otherwise(F.col("_job.state"))
    outcome = F.when(~is_ours, F.lit("refused")).otherwise(F.coalesce(state, F.lit("lost")))
    why = {
        "error_class": F.coalesce(F.col("_reason"), F.lit("conflict")),
        "error_message": F.coalesce(F.col("_sentence"), F.lit(CHANGED)),
    }
    told = {name: F.when(is_ours, F.col(f"_job.{name}")).otherwise(why.get(name)) for name in ANSWER[1:]}
    if result_type is not None:
        told["result"] = _parsed(told["result"], result_type)
    names = [F.col(quoted(name)) for name in key.names]
    return joined.select(*names, outcome.alias("outcome"), *(told[name].alias(name) for name in ANSWER[1:]), *MARKS)


def remembered(found: DataFrame, earlier: DataFrame) -> DataFrame:
    """An answer in which what the store knows nothing of any more is as an earlier answer has it, for the same row; and
    behind it, what became of keys that only the earlier one has."""
    ended = earlier.where(F.col("outcome").isin("done", "dead", "cancelled"))
    known = ended.select(*MARKS, F.struct(*ANSWER).alias("_known")).dropDuplicates(list(MARKS))
    joined = found.join(known, on=list(MARKS), how="left")
    is_lost = (F.col("outcome") == "lost") & F.col("_known").isNotNull()
    told = {name: F.when(is_lost, F.col(f"_known.{name}")).otherwise(F.col(name)) for name in ANSWER}
    columns = (told[name].alias(name) if name in told else F.col(quoted(name)) for name in found.columns)
    others = ended.join(found.select("_key"), on="_key", how="left_anti")
    return joined.select(*columns).unionByName(others)


def by_error(found: DataFrame) -> DataFrame:
    """How often an answer has which error, the most frequent first: `outcome`, `error_class`, `rows`, `example`."""
    failed = found.where(F.col("error_class").isNotNull())
    grouped = failed.groupBy("outcome", "error_class")
    counted = grouped.agg(F.count(F.lit(1)).alias("rows"), F.min("error_message").alias("example"))
    return counted.orderBy(F.desc("rows"), "outcome", "error_class")


def result_type_of(frame: DataFrame, schema: str | None) -> DataType | None:
    """The type that a text such as `score double, tags array<string>` or `int` names."""
    if schema is None:
        return None
    with one_sentence(frame, "schema", schema):
        return DataType.fromDDL(schema)
    raise BadConfig(f"schema {cut(schema)!r} is none; write it as in: score double, tags array<string>")


def _last(jobs: DataFrame) -> DataFrame:
    """One job for each id: the live one, else what ended last. A job that moves while it is read is there twice."""
    is_open = F.col("state").isin(*_OPEN)
    newest = F.struct(is_open, F.coalesce(F.col("ended_at"), F.lit(0).cast("timestamp")), F.col("as_of_seq"))
    found = F.max_by(F.struct(*jobs.columns), newest)
    return jobs.groupBy(F.col("id").alias("_group")).agg(found.alias("_job")).select("_job")


def _parsed(result: Column, kind: DataType) -> Column:
    # Within an object: from_json knows no text and no number that stands for itself.
    wrapped = F.concat(F.lit(f'{{"{_VALUE}":'), result, F.lit("}"))
    return F.from_json(wrapped, StructType([StructField(_VALUE, kind)]))[_VALUE]
