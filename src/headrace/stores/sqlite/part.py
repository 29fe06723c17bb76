"""A part of a shard's rows: what all parts share."""

import sqlite3

from headrace.stores.sqlite.head import SqliteHead

KEY_BITS = 40
"""Keys of entries and endings: the shard above, a number of the shard below."""
PINNED = 1 << KEY_BITS - 1


class Part:
    """The connection, the shard and its counters."""

    def __init__(self, connection: sqlite3.Connection, shard_id: int, stored: tuple[int, ...]) -> None:
        self.connection = connection
        self.run = connection.execute
        self.shard_id = shard_id
        self.head = SqliteHead(stored)
        self.base = shard_id << KEY_BITS
