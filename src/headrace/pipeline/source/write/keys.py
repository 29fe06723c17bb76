"""Keys by which rows that were written are known: by their key column, else by all that they say.

Never by partition, batch or place: a write that is run again, restarted or cut otherwise makes the same keys.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.model.errors import Refused
from headrace.model.limits import KEY_CHARS_MAX

# Maps come in any order. A cell that was refused has no say, its row is not written.
_pack = msgspec.msgpack.Encoder(order="deterministic", enc_hook=lambda _: None).encode

INSTANTS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How Spark's to_json writes instants within a key: neither the time zone of a session nor the milliseconds of Spark's
default must make one row out of two, or two out of one."""


def key_start(name: str) -> str:
    """What the keys of all writes of a name begin with."""
    return f"ingest/{name}/"


def given_keys(start: str, cells: Iterable[str | None]) -> Iterator[str | Refused]:
    """What follows the start in the keys of rows with a key of their own; hashed where it cannot be one as it is."""
    chars_max = KEY_CHARS_MAX - len(start)
    for cell in cells:
        if not cell:
            yield Refused(
                "bad_key",
                "column 'key' is null or empty; fill it, or leave the column out and rows are known by all they say",
            )
        elif len(cell) <= chars_max and cell.isprintable():
            yield cell
        else:
            yield "#" + hashlib.blake2b(cell.encode(), digest_size=16).hexdigest()


def row_keys(columns: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """What follows the start in the keys of rows without: the hash of all that a row says, by the names of columns."""
    names = sorted(columns)
    shared = hashlib.blake2b("\0".join(names).encode() + b"\0", digest_size=16)
    for row in zip(*(columns[name] for name in names), strict=True):
        digest = shared.copy()
        digest.update(_pack(row))
        yield digest.hexdigest()
