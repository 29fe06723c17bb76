"""A part of a shard's rows: what all parts share."""

import sqlite3
from contextlib import closing
from typing import Any

from headrace.stores.engine.rows import part_of
from headrace.stores.sqlite.counters import SqliteShardCounters
from headrace.stores.sqlite.sql import sql

KEY_BITS = 40
"""Keys of entries and finished jobs: the shard above, a number of the shard below."""
PINNED = 1 << KEY_BITS - 1


class SqliteRowGroup:
    """The connection, the shard and its counters."""

    def __init__(self, connection: sqlite3.Connection, shard_id: int, stored: tuple[int, ...]) -> None:
        self.connection = connection
        self.run = connection.execute
        self.shard_id = shard_id
        self.counters = SqliteShardCounters(stored)
        self.base = shard_id << KEY_BITS

    def part(self, name: str, after: int | str, limit: int, bytes_max: int) -> tuple[list[tuple[Any, ...]], bool]:
        """The rows of a statement behind a key until `limit` or `bytes_max` of its last column is reached, and whether
        there may be more. Rows are fetched one by one, so none is read that the bytes leave out."""
        with closing(self.run(sql(name), (self.shard_id, after, limit))) as found:
            return part_of(found, lambda columns: len(columns[-1] or b""), limit, bytes_max)
