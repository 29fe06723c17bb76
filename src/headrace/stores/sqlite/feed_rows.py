"""The rows of one feed in SQLite: items are collected during a step and written together."""

import sqlite3
from collections.abc import Iterator, Sequence

from headrace.model.feed import Changed, FeedConfig, FeedName
from headrace.stores.engine.feed_rows import FeedCounters, ItemRow
from headrace.stores.engine.row_codec import changes_of, counters_of, pieces_of, sizes_of, write_config
from headrace.stores.sqlite.sql import json_array, sql


class SqliteFeedLog:
    """Changes in pieces, each under the seq of its last change. A piece is dropped with its last change, so the first
    piece may hold dropped changes."""

    def __init__(self, connection: sqlite3.Connection, feed_id: int, counters: FeedCounters) -> None:
        self.feed_id = feed_id
        self.counters = counters
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
        # One by one: a caller may drop thousands, but most drop as few as they write.
        after = self.counters.first_seq - 1
        for columns in self._pieces(after, limit):
            yield from sizes_of(columns, after)

    def _pieces(self, after: int, limit: int) -> sqlite3.Cursor:
        return self._run(sql("feed_change_read"), (self.feed_id, after, limit))

    def drop_changes(self, upto: int) -> None:
        self._run(sql("feed_change_drop"), (self.feed_id, upto))


ABOVE_ALL = "\U0010ffff"
"""Sorts behind every rank."""


class SqliteFeed(SqliteFeedLog):
    """Items are written before the file is read in order of rank; a caller that only appends needs no such read."""

    def __init__(
        self, connection: sqlite3.Connection, feed: FeedName, feed_id: int, config: FeedConfig, counters: FeedCounters
    ) -> None:
        super().__init__(connection, feed_id, counters)
        self.feed = feed
        self.config = config
        self._stored = (config, counters_of(counters))
        self._known: dict[str, ItemRow | None] = {}
        self._dirty: dict[str, None] = {}
        # The first and last item of the feed, if known.
        self._first: ItemRow | None = None
        self._last: ItemRow | None = None

    def load(self, ids: Sequence[str]) -> None:
        # Ids with a NUL are read one by one: SQLite's JSON ends a text there.
        wanted = [id for id in ids if id not in self._known and "\0" not in id]
        for id in wanted:
            self._known[id] = None
        if self.counters.items and wanted:
            for key, item, rank, at_ms in self._run(sql("feed_item_load"), (self.feed_id, json_array(wanted))):
                id = key.decode()
                self._known[id] = ItemRow(id, item, rank, at_ms)

    def row(self, id: str) -> ItemRow | None:
        if id not in self._known:
            found = self._run(sql("feed_item_find"), (self.feed_id, id.encode())).fetchone()
            self._known[id] = None if found is None else ItemRow(id, *found)
        return self._known[id]

    def put(self, row: ItemRow) -> None:
        first, last = self._first, self._last
        if first is not None and (row.rank <= first.rank or row.id == first.id):
            self._first = row if row.rank <= first.rank else None
        if last is not None and (row.rank >= last.rank or row.id == last.id):
            self._last = row if row.rank >= last.rank else None
        self._known[row.id] = row
        self._dirty[row.id] = None

    def drop(self, row: ItemRow) -> None:
        if self._first is not None and self._first.id == row.id:
            self._first = None
        if self._last is not None and self._last.id == row.id:
            self._last = None
        self._known[row.id] = None
        self._dirty[row.id] = None

    def _flush(self) -> None:
        """Write the items that the step has changed so far."""
        if not self._dirty:
            return
        written, dropped = [], []
        for id in self._dirty:
            row = self._known[id]
            if row is None:
                dropped.append((self.feed_id, id.encode()))
            else:
                written.append((self.feed_id, id.encode(), row.rank, row.at_ms, row.item))
        self._dirty = {}
        if dropped:
            self._run_many(sql("feed_item_drop"), dropped)
        if written:
            self._run_many(sql("feed_item_write"), written)

    def first(self, limit: int, after_rank: str = "", bytes_max: int | None = None) -> list[ItemRow]:
        if limit != 1 or after_rank:
            return self._ordered("feed_item_first", after_rank, limit, bytes_max)
        if self._first is None:
            self._first = next(iter(self._ordered("feed_item_first", after_rank, 1)), None)
        return [] if self._first is None else [self._first]

    def last(self, limit: int, before_rank: str | None = None) -> list[ItemRow]:
        if limit != 1 or before_rank is not None:
            return self._ordered("feed_item_last", ABOVE_ALL if before_rank is None else before_rank, limit)
        if self._last is None:
            self._last = next(iter(self._ordered("feed_item_last", ABOVE_ALL, 1)), None)
        return [] if self._last is None else [self._last]

    def _ordered(self, name: str, rank: str, limit: int, bytes_max: int | None = None) -> list[ItemRow]:
        self._flush()
        rows: list[ItemRow] = []
        size = 0
        for id, item, at_rank, at_ms in self._run(sql(name), (self.feed_id, rank, limit)):
            rows.append(ItemRow(id.decode(), item, at_rank, at_ms))
            size += len(id) + len(item)
            if bytes_max is not None and size >= bytes_max:
                break
        return rows

    def write_back(self) -> None:
        """Write the changes of the step."""
        self._flush()
        config, counters = self._stored
        now = counters_of(self.counters)
        if now != counters:
            self._run(sql("feed_write"), (*now, self.feed_id))
        if self.config is not config:
            self._run(sql("feed_configure"), (write_config(self.config), self.feed_id))
        self._stored = (self.config, now)
