"""Arrays in PostgreSQL's binary form: the server reads what was written, whichever way it was written."""

from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from headrace.stores.postgres.arrays import Array, blobs, numbers, texts
from headrace.stores.postgres.connection import connect, settings_of
from tests.support.schemas import new_schema

ITEMS: dict[str, tuple[Callable[..., Array], str, Sequence[object]]] = {
    "texts of one length": (texts, "text[]", ["ab", "cd"]),
    "texts of one length that take several bytes": (texts, "text[]", ["é1", "ab", "€€"]),
    "texts of several lengths": (texts, "text[]", ["a", "", "abc"]),
    "empty texts": (texts, "text[]", ["", ""]),
    "texts of a length that one byte holds": (texts, "text[]", ["a" * 127, "b" * 127]),
    "texts of a length that one byte does not hold": (texts, "text[]", ["a" * 128, "b" * 128]),
    "no text": (texts, "text[]", []),
    "bytes of one length": (blobs, "bytea[]", [b"\x00\xff", b"ab"]),
    "bytes of several lengths": (blobs, "bytea[]", [b"", b"abc"]),
    "bytes and nothing": (blobs, "bytea[]", [None, b"a", None, b""]),
    "nothing at all": (blobs, "bytea[]", [None, None]),
    "no bytes": (blobs, "bytea[]", []),
    "one number again and again": (numbers, "bigint[]", [7, 7]),
    "several numbers": (numbers, "bigint[]", [-1, 2**63 - 1, None]),
    "no value again and again": (numbers, "bigint[]", [None, None]),
    "no number": (numbers, "bigint[]", []),
}


@pytest.mark.parametrize("shape", ITEMS)
def test_the_server_reads_the_items_that_were_written(shape: str) -> None:
    write, kind, items = ITEMS[shape]

    with new_schema() as url, closing(connect(settings_of(url))) as connection:
        found = connection.execute(f"SELECT unnest(%b::{kind})", (write(items),)).fetchall()

    assert [item for (item,) in found] == items
