"""The columns that a write takes, checked when it is planned: one sentence says what is wrong with a frame."""

from collections.abc import Mapping

from msgspec import Struct
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from headrace.model.errors import BadConfig
from headrace.model.validate import cut


class Wanted(Struct, frozen=True):
    """What a column must hold."""

    words: str
    types: tuple[type[DataType], ...] = ()
    """Of these; empty for whatever JSON can say."""


TEXT = Wanted("string", (StringType,))
WHOLE = Wanted("int or bigint", (ByteType, ShortType, IntegerType, LongType))
INSTANT = Wanted("timestamp", (TimestampType,))
TEXTS = Wanted("map<string,string>", (MapType,))
JSON_VALUE = Wanted("string with JSON in it, or a column of any other type, which is written as JSON")
_NO_JSON = (BinaryType, VariantType)


def check_columns(
    what: str, schema: StructType, known: Mapping[str, Wanted], *, hint: str, others: bool = False
) -> tuple[str, ...]:
    """The names of the columns in their order; `BadConfig` for one that is unknown (unless others are left alone), is
    there twice or holds something else."""
    names = schema.fieldNames()
    for field in schema.fields:
        wanted = known.get(field.name)
        if wanted is None:
            if others:
                continue
            raise BadConfig(
                f"there is no column {cut(field.name)!r} in what is written as {what}; {hint}; known columns:"
                f" {', '.join(known)}"
            )
        if names.count(field.name) > 1:
            raise BadConfig(f"column {field.name!r} is there {names.count(field.name)} times; select it once")
        if not _fits(field.dataType, wanted):
            raise BadConfig(
                f"column {field.name!r} of what is written as {what} must be {wanted.words}; found"
                f" {field.dataType.simpleString()}{_advice(field.dataType)}"
            )
    return tuple(names)


def _fits(found: DataType, wanted: Wanted) -> bool:
    if isinstance(found, NullType):
        return True  # a column of nulls, which says nothing
    if wanted is TEXTS:
        return (
            isinstance(found, MapType)
            and isinstance(found.keyType, StringType)
            and isinstance(found.valueType, StringType)
        )
    return isinstance(found, wanted.types) if wanted.types else not isinstance(found, _NO_JSON)


def _advice(found: DataType) -> str:
    if isinstance(found, VariantType):
        return "; make it text with to_json(…)"
    return (
        f"; cast it, {cut(found.simpleString())} says something else" if isinstance(found, BinaryType) else "; cast it"
    )
