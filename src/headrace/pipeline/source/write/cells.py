"""Columns of Arrow as lists of Python's values: whole columns at a time, since a cell at a time is slow."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headrace.client.codec import holds_no_number
from headrace.model.checks import cut
from headrace.model.errors import Refused

_is_json = msgspec.json.Decoder(msgspec.Raw).decode
# Deterministic: Spark's maps are in any order, and a row that is written again must be the same job.
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


def json_texts(what: str, column: pa.Array) -> Sequence[bytes | Refused]:
    """JSON of each cell: of text, what it holds, of anything else, itself. A cell that has none has its refusal."""
    if pa.types.is_null(column.type):
        return [b"null"] * len(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        small = pa.types.is_string(column.type)
        cells = column.cast(pa.binary() if small else pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
        return _checked(what, cells)
    return [_encoded(what, value) for value in values(column)]


def _checked(what: str, cells: list[bytes | None]) -> Sequence[bytes | Refused]:
    found: list[bytes | Refused] = []
    for cell in cells:
        if cell is None:
            found.append(b"null")
            continue
        try:
            _is_json(cell)
        except msgspec.DecodeError as error:
            found.append(_no_json(what, cell, error))
        else:
            found.append(cell)
    return found


def _no_json(what: str, cell: bytes, error: msgspec.DecodeError) -> Refused:
    return Refused(
        "bad_" + what,
        f"{what} {cut(cell.decode(errors='replace'))!r} is no JSON ({error}); make it with to_json(…)",
    )


def _encoded(what: str, value: object) -> bytes | Refused:
    try:
        text = _encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        return Refused("bad_" + what, f"{what} {cut(repr(value))} cannot be written as JSON: {error}")
    if b"null" in text and holds_no_number(value):
        return Refused("bad_" + what, f"{what} {cut(repr(value))} holds a number that JSON cannot write; make it null")
    return text
