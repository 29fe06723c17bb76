"""The log of a feed in SQLite: the changes of a call lie together in few rows."""

import sqlite3
from collections.abc import Iterator, Sequence

from headrace.model.feed import Changed
from headrace.stores.feed_packing import changes_of, pieces_of, sizes_of
from headrace.stores.sqlite.sql import sql
from headrace.stores.transitions.feed_rows import FeedHead


class FeedLog:
    """Changes in pieces, each under the number of its last. A piece goes when its last change does, so the first may
    hold some that are dropped already."""

    def __init__(self, connection: sqlite3.Connection, feed_id: int, head: FeedHead) -> None:
        self.feed_id = feed_id
        self.head = head
        self._run = connection.execute
        self._run_many = connection.executemany

    def append(self, changes: Sequence[Changed]) -> None:
        self._run_many(sql("feed_change_write"), [(self.feed_id, *piece) for piece in pieces_of(changes)])

    def change(self, seq: int) -> Changed | None:
        found = self.changes(seq - 1, 1, 1)
        return found[0] if found and found[0].seq == seq else None

    def changes(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        found: list[Changed] = []
        for columns in self._pieces(after, limit):
            for change in changes_of(columns, after):
                found.append(change)
                bytes_max -= change.size
                if len(found) == limit or bytes_max <= 0:
                    return found
        return found

    def oldest_changes(self, limit: int) -> Iterator[tuple[int, int, int]]:
        # One by one: most calls drop as many as they write, and could drop thousands.
        after = self.head.first_seq - 1
        for columns in self._pieces(after, limit):
            yield from sizes_of(columns, after)

    def _pieces(self, after: int, limit: int) -> sqlite3.Cursor:
        return self._run(sql("feed_change_read"), (self.feed_id, after, limit))

    def drop_changes(self, upto: int) -> None:
        self._run(sql("feed_change_drop"), (self.feed_id, upto))
