"""Checks the columns of a write, reads them as Python values, and hashes them into keys."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
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

from headrace.client.codec import holds_no_number
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import KEY_CHARS_MAX
from headrace.model.validate import bounded_repr, cut


class ColumnSpec(Struct, frozen=True):
    """The allowed types of a column."""

    words: str
    types: tuple[type[DataType], ...] = ()
    """Empty for all types that JSON can express."""


TEXT = ColumnSpec("string", (StringType,))
WHOLE = ColumnSpec("int or bigint", (ByteType, ShortType, IntegerType, LongType))
INSTANT = ColumnSpec("timestamp", (TimestampType,))
TEXTS = ColumnSpec("map<string,string>", (MapType,))
JSON_VALUE = ColumnSpec("string with JSON in it, or a column of any other type, which is written as JSON")
_NO_JSON = (BinaryType, VariantType)


def check_columns(
    what: str, schema: StructType, known: Mapping[str, ColumnSpec], *, hint: str, others: bool = False
) -> tuple[str, ...]:
    """The names of the columns in their order; raises `BadConfig` for an unknown one (unless `others`), a repeated one
    or one of another type."""
    names = schema.fieldNames()
    for field in schema.fields:
        spec = known.get(field.name)
        if spec is None:
            if others:
                continue
            raise BadConfig(
                f"a write with what={what} has no column {cut(field.name)!r}; {hint}; known columns: {', '.join(known)}"
            )
        if names.count(field.name) > 1:
            raise BadConfig(f"column {field.name!r} occurs {names.count(field.name)} times; select it once")
        if not _fits(field.dataType, spec):
            raise BadConfig(
                f"column {field.name!r} of a write with what={what} must be {spec.words}; found"
                f" {field.dataType.simpleString()}{_advice(field.dataType)}"
            )
    return tuple(names)


def _fits(found: DataType, spec: ColumnSpec) -> bool:
    if isinstance(found, NullType):
        return True  # a column of nulls fits anything
    if spec is TEXTS:
        return (
            isinstance(found, MapType)
            and isinstance(found.keyType, StringType)
            and isinstance(found.valueType, StringType)
        )
    return isinstance(found, spec.types) if spec.types else not isinstance(found, _NO_JSON)


def _advice(found: DataType) -> str:
    if isinstance(found, VariantType):
        return "; make it text with to_json(…)"
    return f"; cast it from {cut(found.simpleString())}" if isinstance(found, BinaryType) else "; cast it"


UNREADABLE = (ValueError, OverflowError, KeyError, pa.ArrowException)
"""Raised by Arrow for a cell without a Python value: invalid UTF-8, an instant in the year 10000."""
_is_json = msgspec.json.Decoder(msgspec.Raw).decode
# Deterministic: Spark's maps have no order, and a repeated row must be the same job.
_encode = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode


def texts(column: pa.Array) -> list[Any]:
    """Text or None."""
    if pa.types.is_null(column.type):
        return [None] * len(column)
    return list(column.to_numpy(zero_copy_only=False).tolist())  # twice as fast as to_pylist


def values(column: pa.Array) -> list[Any]:
    """Any type, maps as dictionaries."""
    return list(column.to_pylist(maps_as_pydicts="strict"))


def instants_ms(column: pa.Array) -> list[Any]:
    """Milliseconds since 1970, or None."""
    if pa.types.is_null(column.type):
        return [None] * len(column)
    return [None if us is None else us // 1_000 for us in column.cast(pa.int64()).to_pylist()]


def by_cell(read: Callable[[pa.Array], list[Any]], what: str, column: pa.Array) -> tuple[list[Any], dict[int, Refused]]:
    """The values of a column, and refusals by row for cells that `read` cannot read: since one such cell fails the
    whole column, it is then read cell by cell. The value of such a cell is a readable form of it."""
    try:
        return read(column), {}
    except UNREADABLE:
        found: list[Any] = []
        odd: dict[int, Refused] = {}
    for at in range(len(column)):
        try:
            found += read(column.slice(at, 1))
        except UNREADABLE as error:
            found.append(loose(column[at]))
            odd[at] = Refused("bad_" + what, f"{what} {bounded_repr(found[-1])} holds {_why(error)}")
    return found, odd


def loose(cell: pa.Scalar) -> Any:
    """A readable form of a cell: replacement characters for invalid UTF-8, and times as text."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return cell.as_buffer().to_pybytes().decode(errors="replace")
    if pa.types.is_struct(kind):
        return {field.name: loose(cell[at]) for at, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return {loose(pair[0]): loose(pair[1]) for pair in cell.values}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [loose(each) for each in cell.values]
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    return cell.cast(pa.string()).as_py() if is_time else cell.as_py()


def _why(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "a date or an instant that is not of the years 1 to 9999; make it null, or text"
    if isinstance(error, UnicodeDecodeError | pa.ArrowException):
        return "text that is not UTF-8; decode it with its own encoding"
    return f"an unreadable value: {error}"


def json_texts(what: str, column: pa.Array) -> Sequence[bytes | Refused]:
    """The JSON of each cell: text holds JSON, other types are encoded. An invalid cell has its refusal."""
    if pa.types.is_null(column.type):
        return [b"null"] * len(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        small = pa.types.is_string(column.type)
        cells = column.cast(pa.binary() if small else pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
        return _checked(what, cells, _is_json if _is_utf8(column) else _is_json_text)
    found, odd = by_cell(values, what, column)
    if odd:
        return [odd[at] if at in odd else _encoded(what, value) for at, value in enumerate(found)]
    return [_encoded(what, value) for value in found]


def _is_utf8(column: pa.Array) -> bool:
    """Whether a column is valid UTF-8; checked at once, since cell by cell it would cost as much as the JSON."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_json_text(cell: bytes) -> object:
    cell.decode()  # the JSON decoder accepts any bytes within a text
    return _is_json(cell)


def _checked(what: str, cells: list[bytes | None], check: Callable[[bytes], object]) -> Sequence[bytes | Refused]:
    found: list[bytes | Refused] = []
    for cell in cells:
        if cell is None:
            found.append(b"null")
            continue
        try:
            check(cell)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            found.append(_no_json(what, cell, error))
        else:
            found.append(cell)
    return found


def _no_json(what: str, cell: bytes, error: Exception) -> Refused:
    return Refused(
        "bad_" + what,
        f"{what} {cut(cell.decode(errors='replace'))!r} is not valid JSON ({error}); make it with to_json(…)",
    )


def _encoded(what: str, value: object) -> bytes | Refused:
    try:
        text = _encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        return Refused("bad_" + what, f"{what} {bounded_repr(value)} cannot be written as JSON: {error}")
    if b"null" in text and holds_no_number(value):
        return Refused(
            "bad_" + what, f"{what} {bounded_repr(value)} holds a number that JSON cannot write; make it null"
        )
    return text


# Maps have no order. A refused cell does not matter, since its row is not written.
_pack = msgspec.msgpack.Encoder(order="deterministic", enc_hook=lambda _: None).encode

INSTANTS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How Spark's to_json writes instants within a key, whatever the session's time zone, and with microseconds: otherwise
two rows could become one, or one row two."""


def key_start(name: str) -> str:
    """The prefix of the keys of all writes of a name."""
    return f"ingest/{name}/"


def column_keys(start: str, cells: Iterable[str | None]) -> Iterator[str | Refused]:
    """The keys of rows with a column `key`, without the prefix; hashed if too long or unprintable."""
    chars_max = KEY_CHARS_MAX - len(start)
    for cell in cells:
        if not cell:
            yield Refused(
                "bad_key",
                "column 'key' is null or empty; fill it, or leave the column out and the whole row is the key",
            )
        elif len(cell) <= chars_max and cell.isprintable():
            yield cell
        else:
            yield "#" + hashlib.blake2b(cell.encode(), digest_size=16).hexdigest()


def row_keys(columns: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """The keys of rows without a column `key`: the hash of the whole row by column names.

    Independent of partition, batch and position, so that a repeated write makes the same keys.
    """
    names = sorted(columns)
    shared = hashlib.blake2b("\0".join(names).encode() + b"\0", digest_size=16)
    for row in zip(*(columns[name] for name in names), strict=True):
        digest = shared.copy()
        digest.update(_pack(row))
        yield digest.hexdigest()
