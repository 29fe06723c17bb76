"""Maps the columns of rows to those of jobs with SQL, which is checked against the rows before any is written."""

from collections.abc import Mapping as Pairs

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from headrace.model.errors import BadConfig
from headrace.model.validate import cut
from headrace.pipeline.flows.ingest.source import CORRUPT
from headrace.pipeline.source.sink.columns import INSTANT, INSTANTS, TEXTS, WHOLE
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.pipeline.sql import one_sentence, quoted, selected

_TEXT_COLUMNS = ("id", "key", "tag")
"""Columns that may be numbers in a table, and are text in a job."""
_VALUE_CHARS = 60
_KEY_JSON = {"ignoreNullFields": "true"} | INSTANTS
"""The options of `to_json` for keys."""
_KEY_JSON_SQL = "map(" + ", ".join(f'"{name}", "{value}"' for name, value in _KEY_JSON.items()) + ")"
_DAY = r"^\s*\d{4}-\d{2}-\d{2}"
"""The beginning of a valid instant: Spark would take '12:30' for today, and '2030' for its first day."""
_EXPECTED = {
    "whole": "not a whole number; remove the fraction",
    "instant": "not a valid time; write it as 2030-01-31T12:00:00Z, or make it a timestamp",
}


class Mapping(Struct, frozen=True):
    """How rows become jobs: `columns` has a Spark SQL expression for each column of a job, as in
    `{"kind": "'welcome'", "payload": "struct(id, email)", "key": "id"}`.

    Columns of a job are `kind`, `payload`, `id`, `key`, `queue`, `tenant`, `run_at`, `delay_ms`, `priority`,
    `timeout_ms`, `max_attempts`, `max_stalls`, `backoff_ms`, `backoff_ms_max`, `result_ttl_ms`, `expires_at`, `tag`,
    `headers` and `refusal` (a text that refuses the row unless it is null). Without a `payload` it is the whole row;
    without a `key`, rows that are equal in all columns are one job.
    """

    columns: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name, expression in self.columns.items():
            if name not in COLUMNS:
                raise BadConfig(f"a job has no column {cut(name)!r} to map to; it has {', '.join(COLUMNS)}")
            if not expression.strip():
                raise BadConfig(f"the mapping of {name!r} is empty; give a column, or an expression of Spark SQL")


def map_columns(frame: DataFrame, mapping: Mapping | Pairs[str, str] | None = None, what: str = "mapping") -> DataFrame:
    """The rows of a frame as columns of jobs; raises `BadConfig` for SQL that does not fit them, before any is read.

    Reads the columns in the mapping's SQL, and all columns where it has no `payload` or `key`. Returns the mapped
    columns of jobs, `payload` and `key`, and `refusal` where a value may be invalid. `what` goes before the name of a
    column in a sentence.
    """
    checked = mapping if isinstance(mapping, Mapping) else Mapping(dict(mapping or {}))
    columns = dict(checked.columns)
    if "payload" not in columns:
        columns["payload"] = _whole_row(frame)
    columns.setdefault("key", _row_hash(frame))
    if _has_corrupt_rows(frame):
        # The whole text is kept with the row: it is all that is left to correct it by.
        refusal = f"'bad_source: the row cannot be read, its text is ' || `{CORRUPT}`"
        columns["refusal"] = f"coalesce({columns.get('refusal', 'null')}, {refusal})"
    with one_sentence(frame, what, ", ".join(columns)):
        return cast_columns(selected(frame, columns, what), what)


def cast_columns(frame: DataFrame, what: str) -> DataFrame:
    """The columns of jobs in the types of a job, by casts that lose nothing.

    Returns also `refusal`, with a sentence for a value that would lose something, if there may be one. `what` goes
    before the name of a column in a sentence.
    """
    values: list[Column] = []
    refusals: list[Column] = [F.col("refusal")] if "refusal" in frame.columns else []
    for field in frame.schema.fields:
        if field.name == "refusal":
            continue
        value, invalid = _cast(field, what)
        values.append(value.alias(field.name))
        if invalid is not None:
            expected, condition = invalid
            text = F.substring(F.col(field.name).cast("string"), 1, _VALUE_CHARS)
            sentence = F.concat(F.lit(f"bad_{field.name}: {field.name} '"), text, F.lit(f"' is {_EXPECTED[expected]}"))
            refusals.append(F.when(condition, sentence))
    if refusals:
        values.append(F.coalesce(*refusals).cast("string").alias("refusal"))
    return frame.select(*values)


def _cast(field: StructField, what: str) -> tuple[Column, tuple[str, Column] | None]:
    """The value of a column in the type of a job, and the condition under which it is invalid."""
    name, kind, column = field.name, field.dataType, F.col(field.name)
    job_type = COLUMNS[name]
    if name == "payload":
        return (F.to_json(column) if isinstance(kind, VariantType) else column), None
    if name in _TEXT_COLUMNS:
        return _cast_text(name, kind, column), None
    if job_type is WHOLE and isinstance(kind, StringType | FractionalType | DecimalType):
        whole = column.try_cast("bigint")
        has_fraction = F.lit(False) if isinstance(kind, StringType) else whole != column
        return whole, ("whole", column.isNotNull() & (whole.isNull() | has_fraction))
    if job_type is INSTANT:
        return _cast_instant(field, column, what)
    if job_type is TEXTS and isinstance(kind, StructType):
        raise BadConfig(
            f"{what} {name} is {kind.simpleString()} instead of map<string,string>; write map('name', value, …)"
        )
    return column, None


def _cast_text(name: str, kind: DataType, column: Column) -> Column:
    if isinstance(kind, IntegralType | DecimalType | BooleanType | DateType):
        return column.cast("string")
    if name == "key" and isinstance(kind, StructType | ArrayType) and "map<" not in kind.simpleString():
        return _compound_key(kind, column)
    return column


def _compound_key(kind: StructType | ArrayType, column: Column) -> Column:
    """The JSON of several columns; null when all are null, since all such rows would share one key."""
    text = F.to_json(column, _KEY_JSON)
    if isinstance(kind, ArrayType):
        return F.when(F.exists(column, lambda part: part.isNotNull()), text)
    return F.nullif(text, F.lit("{}"))


def _cast_instant(field: StructField, column: Column, what: str) -> tuple[Column, tuple[str, Column] | None]:
    if isinstance(field.dataType, DateType):
        return column.cast("timestamp"), None
    if isinstance(field.dataType, StringType):
        instant = F.when(column.rlike(_DAY), column.try_cast("timestamp"))
        return instant, ("instant", column.isNotNull() & instant.isNull())
    if isinstance(field.dataType, NumericType):
        raise BadConfig(
            f"{what} {field.name} is {field.dataType.simpleString()} instead of an instant; convert it with"
            " timestamp_millis(…) or timestamp_seconds(…)"
        )
    return column, None


def _whole_row(frame: DataFrame) -> str:
    fields = [field for field in frame.schema.fields if field.name != CORRUPT]
    for field in fields:
        if _has_variant(field):
            raise BadConfig(
                f"column {field.name!r} is {cut(field.dataType.simpleString())}, which a payload cannot hold;"
                f" map the payload, for example to: to_json({field.name})"
            )
    if not fields:
        raise BadConfig("the rows have no columns to make a payload of; map it, for example to: 'null'")
    return f"struct({', '.join(quoted(field.name) for field in fields)})"


def _row_hash(frame: DataFrame) -> str:
    """The key of a row without one: a hash of 128 bits, as of other writes."""
    parts = [
        # To format an instant is slow, and most tables have one.
        f"unix_micros({quoted(field.name)}) AS {quoted(field.name)}"
        if isinstance(field.dataType, TimestampType)
        else quoted(field.name)
        for field in frame.schema.fields
    ]
    return f"md5(to_json(struct({', '.join(parts)}), {_KEY_JSON_SQL}))"


def _has_corrupt_rows(frame: DataFrame) -> bool:
    return any(field.name == CORRUPT and isinstance(field.dataType, StringType) for field in frame.schema.fields)


def _has_variant(field: StructField) -> bool:
    kind: DataType = field.dataType
    return isinstance(kind, VariantType) or "variant" in kind.simpleString().lower()
