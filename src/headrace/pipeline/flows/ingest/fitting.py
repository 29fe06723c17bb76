"""Casts that lose nothing, done for whoever maps columns; a value that would lose something refuses its row."""

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
    VariantType,
)

from headrace.model.errors import BadConfig
from headrace.pipeline.source.sink.columns import INSTANT, INSTANTS, TEXTS, WHOLE
from headrace.pipeline.source.sink.row_to_job import COLUMNS

_NAMING = ("id", "key", "tag")
"""Columns that may be numbers in a table, and are text in a job."""
_SAID_CHARS = 60
AS_KEY = {"ignoreNullFields": "true"} | INSTANTS
"""How keys are written as JSON."""
_DAY = r"^\s*\d{4}-\d{2}-\d{2}"
"""How an instant in a text begins: Spark would take '12:30' for today, and '2030' for its first day."""


def fitted(frame: DataFrame, what: str) -> DataFrame:
    """The columns of jobs, each of the type that a job has; `what` goes before the name of a column in a sentence.

    Returns column `refusal` besides when a value may be one that does not fit: then it says so.
    """
    values: list[Column] = []
    refusals: list[Column] = [F.col("refusal")] if "refusal" in frame.columns else []
    for field in frame.schema.fields:
        if field.name == "refusal":
            continue
        value, odd = _fit(field, what)
        values.append(value.alias(field.name))
        if odd is not None:
            said = F.substring(F.col(field.name).cast("string"), 1, _SAID_CHARS)
            sentence = F.concat(F.lit(f"bad_{field.name}: {field.name} '"), said, F.lit(f"' is {_WANTED[odd[0]]}"))
            refusals.append(F.when(odd[1], sentence))
    if refusals:
        values.append(F.coalesce(*refusals).cast("string").alias("refusal"))
    return frame.select(*values)


_WANTED = {
    "whole": "no whole number; give one, without a fraction",
    "instant": "no instant; write it as 2030-01-31T12:00:00Z, or make it a timestamp",
}


def _fit(field: StructField, what: str) -> tuple[Column, tuple[str, Column] | None]:
    """The value of a column as a job has it, and when a row's own value is none."""
    name, kind, column = field.name, field.dataType, F.col(field.name)
    wanted = COLUMNS[name]
    if name == "payload":
        return (F.to_json(column) if isinstance(kind, VariantType) else column), None
    if name in _NAMING:
        return _named(name, kind, column), None
    if wanted is WHOLE and isinstance(kind, StringType | FractionalType | DecimalType):
        whole = column.try_cast("bigint")
        other = F.lit(False) if isinstance(kind, StringType) else whole != column
        return whole, ("whole", column.isNotNull() & (whole.isNull() | other))
    if wanted is INSTANT:
        return _instant(field, column, what)
    if wanted is TEXTS and isinstance(kind, StructType):
        raise BadConfig(
            f"{what} {name} is {kind.simpleString()}, and map<string,string> is wanted; write map('name', value, …)"
        )
    return column, None


def _named(name: str, kind: DataType, column: Column) -> Column:
    if isinstance(kind, IntegralType | DecimalType | BooleanType | DateType):
        return column.cast("string")
    if name == "key" and isinstance(kind, StructType | ArrayType) and "map<" not in kind.simpleString():
        return _joined(kind, column)
    return column


def _joined(kind: StructType | ArrayType, column: Column) -> Column:
    """Several columns that are one key together; null when all are, which as JSON were the same key for all such
    rows."""
    text = F.to_json(column, AS_KEY)
    if isinstance(kind, ArrayType):
        return F.when(F.exists(column, lambda part: part.isNotNull()), text)
    return F.nullif(text, F.lit("{}"))


def _instant(field: StructField, column: Column, what: str) -> tuple[Column, tuple[str, Column] | None]:
    if isinstance(field.dataType, DateType):
        return column.cast("timestamp"), None
    if isinstance(field.dataType, StringType):
        instant = F.when(column.rlike(_DAY), column.try_cast("timestamp"))
        return instant, ("instant", column.isNotNull() & instant.isNull())
    if isinstance(field.dataType, NumericType):
        raise BadConfig(
            f"{what} {field.name} is {field.dataType.simpleString()}, and an instant is wanted; say what it counts with"
            " timestamp_millis(…) or timestamp_seconds(…)"
        )
    return column, None
