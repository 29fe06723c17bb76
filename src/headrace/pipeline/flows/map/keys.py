"""Reads the keys of rows, and makes the ids of their jobs: the same row always has the same id."""

import re
from collections.abc import Sequence

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from headrace.model.errors import BadConfig
from headrace.model.limits import MAP_NAME_CHARS_MAX
from headrace.model.validate import cut
from headrace.pipeline.source.sink.columns import INSTANTS
from headrace.pipeline.sql import one_sentence, quoted

RESULT_COLUMNS = ("outcome", "result", "error_class", "error_message", "attempts", "ended_at")
"""The columns of a result behind those of its key."""
RESERVED = (
    "_key",
    "_tag",
    "_id",
    "_payload",
    "_reason",
    "_sentence",
    "_value",
    "_json",
    "_job",
    "_earlier",
    "_requested",
)
"""Internal columns."""
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAP_NAME_CHARS_MAX - 1}}}")
_PLAIN = (StringType, ByteType, ShortType, IntegerType, LongType, BooleanType, DateType, DecimalType)
"""Types of which no two values have the same text."""
_READABLE = r"\A[A-Za-z0-9._:@+/-]{1,128}\z"
"""Keys that become part of an id unchanged; a hashed one begins with `#`."""
_JSON = {"ignoreNullFields": "false"} | INSTANTS
"""By default Spark leaves out nulls, and two keys would be one."""


class Key(Struct, frozen=True):
    """Identifies the job of a row: one or more columns, each from an expression."""

    expressions: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...]

    def columns(self) -> list[Column]:
        """The columns of the key by name."""
        pairs = zip(self.expressions, self.names, strict=True)
        return [F.expr(expression).alias(name) for expression, name in pairs]

    def text(self) -> Column:
        """The key as one text, from columns with its names: two keys have the same text only if they are equal."""
        if len(self.names) == 1 and isinstance(self.types[0], _PLAIN):
            return F.col(quoted(self.names[0])).cast("string")
        parts = [
            (F.unix_micros(F.col(quoted(name))) if isinstance(kind, TimestampType) else F.col(quoted(name))).alias(
                str(at)
            )
            for at, (name, kind) in enumerate(zip(self.names, self.types, strict=True))
        ]
        return F.to_json(F.struct(*parts), _JSON)

    def is_missing(self) -> Column:
        """Whether a part of the key is null."""
        is_missing = F.lit(False)
        for name in self.names:
            is_missing = is_missing | F.col(quoted(name)).isNull()
        return is_missing


def key_of(frame: DataFrame, key: str | Sequence[str]) -> Key:
    """The key of a frame from one or more columns or expressions; raises `BadConfig` for one that cannot be a key."""
    expressions = (key,) if isinstance(key, str) else tuple(key)
    if not expressions:
        raise BadConfig("a map needs a key; name the column or columns that identify a row")
    names: list[str] = []
    types: list[DataType] = []
    for expression in expressions:
        with one_sentence(frame, "key", expression):
            fields = frame.select(F.expr(expression)).schema.fields
        if len(fields) != 1:
            raise BadConfig(f"key {cut(expression)!r} gives {len(fields)} columns; name each of them as a key")
        [field] = fields
        _check(field.name, field.dataType, expression, names)
        names.append(field.name)
        types.append(field.dataType)
    return Key(expressions, tuple(names), tuple(types))


def id_of(name: str, text: Column) -> Column:
    """The id of a row's job, by the text of its key.

    Made here and not by the write: so results are joined to rows in plain SQL, and a user finds the job of a row:
    `headrace jobs show enrich/4711`.
    """
    hashed = F.concat(F.lit("#"), F.substring(F.sha2(text, 256), 1, 40))
    return F.concat(F.lit(f"{name}/"), F.when(text.rlike(_READABLE), text).otherwise(hashed))


def check_name(name: str) -> None:
    """Refuse an invalid name of a map."""
    if not _NAME.fullmatch(name):
        raise BadConfig(
            f"the name of a map is {cut(name)!r}; start with a letter or digit, and use letters, digits, '.', '-'"
            f" and '_' ({MAP_NAME_CHARS_MAX} at most)"
        )


def _check(name: str, kind: DataType, expression: str, names: list[str]) -> None:
    existing = {each.lower() for each in (*RESULT_COLUMNS, *RESERVED, *names)}
    if name.lower() in existing:
        raise BadConfig(
            f"key {cut(expression)!r} makes a column {name!r}, which the results have already; give it another name, as"
            f" in: {expression} AS my_{name}"
        )
    if _holds(kind, (MapType, VariantType)):
        raise BadConfig(
            f"key {cut(expression)!r} is {cut(kind.simpleString())}, which has no single text form; use a part of it"
            " as the key"
        )


def _holds(kind: DataType, unwanted: tuple[type[DataType], ...]) -> bool:
    if isinstance(kind, StructType):
        return any(_holds(field.dataType, unwanted) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds(kind.elementType, unwanted)
    return isinstance(kind, unwanted)
