"""Packs arrays in PostgreSQL's binary form: psycopg inspects every element several times, which costs more than the
statement."""

from collections.abc import Sequence
from struct import Struct

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

BYTEA, INT8, TEXT = 17, 20, 25
"""The numbers of the element types, the same on every server."""
ONE_BYTE_MAX = 127
"""The highest size of which the last byte is a character by itself."""
_HEAD = Struct(">iiiii").pack  # dimensions, may hold NULL, type, length, index of the first
_SIZE = Struct(">i").pack
_INT8 = Struct(">iq").pack
_NULL = _SIZE(-1)


class Array(bytes):
    """The binary form of an array; its type is that of a cast or of a function's argument in the statement."""

    __slots__ = ()


class ArrayDumper(Dumper):
    """Passes an array to libpq unchanged."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Array) -> bytes:
        """The bytes to send."""
        return obj


def register_arrays(context: AdaptContext) -> None:
    """Let the statements of a connection or cursor take arrays as arguments."""
    context.adapters.register_dumper(Array, ArrayDumper)


def texts(items: Sequence[str]) -> Array:
    """A `text[]`."""
    sizes = set(map(len, items))
    if len(sizes) == 1 and (size := sizes.pop()) <= ONE_BYTE_MAX:
        # Ids and tokens are of one length: joined as one text, 20 instead of 86 ns each.
        between = "\0\0\0" + chr(size)
        joined = between + between.join(items)
        if joined.isascii():
            return Array(_HEAD(1, 1, TEXT, len(items), 1) + joined.encode())
    return _array(TEXT, [item.encode() for item in items])


def blobs(items: Sequence[bytes | None]) -> Array:
    """A `bytea[]`."""
    nulls = items.count(None)
    if nulls == len(items):
        return Array(_HEAD(1, 1, BYTEA, nulls, 1) + _NULL * nulls)
    if not nulls and len(set(map(len, items))) == 1:  # type: ignore[arg-type]  # none is None
        between = _SIZE(len(items[0]))  # type: ignore[arg-type]
        return Array(_HEAD(1, 1, BYTEA, len(items), 1) + between + between.join(items))  # type: ignore[arg-type]
    return _array(BYTEA, items)


def numbers(items: Sequence[int | None]) -> Array:
    """A `bigint[]`."""
    head = _HEAD(1, 1, INT8, len(items), 1)
    if items and items.count(first := items[0]) == len(items):
        return Array(head + (_NULL if first is None else _INT8(8, first)) * len(items))
    return Array(head + b"".join([_NULL if item is None else _INT8(8, item) for item in items]))


def _array(oid: int, items: Sequence[bytes | None]) -> Array:
    parts = [_HEAD(1, 1, oid, len(items), 1)]
    for item in items:
        if item is None:
            parts.append(_NULL)
        else:
            parts += (_SIZE(len(item)), item)
    return Array(b"".join(parts))
