"""Arrays as PostgreSQL reads them in binary: psycopg looks at every element several times, which costs more than the
statement does."""

from collections.abc import Sequence
from struct import Struct

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

BYTEA, INT8, TEXT = 17, 20, 25
"""The numbers of the element types, the same on every server."""
_HEAD = Struct(">iiiii").pack  # dimensions, may hold NULL, type, length, index of the first
_SIZE = Struct(">i").pack
_INT8 = Struct(">iq").pack
_NULL = _SIZE(-1)


class Array(bytes):
    """The binary form of an array; the statement says of which type, by a cast or a function's argument."""

    __slots__ = ()


class ArrayDumper(Dumper):
    """Hands an array to libpq as it is."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Array) -> bytes:
        """The bytes to send."""
        return obj


def take_arrays(context: AdaptContext) -> None:
    """Let the statements of a connection or cursor be given arrays."""
    context.adapters.register_dumper(Array, ArrayDumper)


def texts(items: Sequence[str]) -> Array:
    """A `text[]`."""
    return _array(TEXT, [item.encode() for item in items])


def blobs(items: Sequence[bytes | None]) -> Array:
    """A `bytea[]`."""
    return _array(BYTEA, items)


def numbers(items: Sequence[int | None]) -> Array:
    """A `bigint[]`."""
    return Array(
        _HEAD(1, 1, INT8, len(items), 1) + b"".join([_NULL if item is None else _INT8(8, item) for item in items])
    )


def _array(oid: int, items: Sequence[bytes | None]) -> Array:
    parts = [_HEAD(1, 1, oid, len(items), 1)]
    for item in items:
        if item is None:
            parts.append(_NULL)
        else:
            parts += (_SIZE(len(item)), item)
    return Array(b"".join(parts))
