"""One feed in PostgreSQL and its log: read in batches, kept while the step lasts, written back at once."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headrace.model.feed import Changed, FeedName
from headrace.model.limits import EVICT_PER_CALL_MAX
from headrace.stores.engine.feed_rows import FeedCounters, ItemRow
from headrace.stores.engine.row_codec import change_columns, change_of, counter_columns, read_config, write_config
from headrace.stores.postgres.arrays import blobs, numbers
from headrace.stores.postgres.feed_items import END, FeedItems
from headrace.stores.postgres.sql import Cursor, LazyTransaction

FRONT_ROWS = 64
"""The oldest changes are read this many at a time while the number to drop is unknown; then twice as many."""

OldestChange = tuple[int, int, int]
"""Seq, at_ms and size of a change: what retention needs."""


class PostgresFeedLog:
    """Changes under their seq."""

    def __init__(self, transaction: LazyTransaction, feed_id: int, counters: FeedCounters) -> None:
        self._transaction = transaction
        self._feed_id = feed_id
        self._stored_first = counters.first_seq
        self._stored_last = counters.seq
        self._appended: list[Changed] = []
        self._dropped_seq = 0
        self._front: list[OldestChange] = []

    def append(self, changes: Sequence[Changed]) -> None:
        """Append changes."""
        self._appended += changes

    def oldest(self, limit: int) -> Iterator[OldestChange]:
        """The first changes, read as far as they are consumed."""
        count = 0
        while count < limit and self._first_seq() + count <= self._stored_last:
            if len(self._front) <= count:
                wanted = min(max(FRONT_ROWS, count), limit - count)
                self.add_front(self.send_front(wanted))
            if len(self._front) <= count:
                return  # the log has a gap, which integrity checks report
            yield self._front[count]
            count += 1
        for change in self._appended[: limit - count]:
            yield change.seq, change.at_ms, change.size

    def _first_seq(self) -> int:
        return max(self._stored_first, self._dropped_seq + 1)

    def send_front(self, limit: int) -> Cursor:
        """Send a read of the oldest changes that are not known yet."""
        return self._transaction.run("feed_change_oldest", self._feed_id, self._first_seq() + len(self._front), limit)

    def add_front(self, found: Cursor) -> None:
        """Keep the rows of `send_front`."""
        self._front += found.fetchall()

    def drop(self, upto: int) -> None:
        """Drop changes up to a seq."""
        self._dropped_seq = upto
        self._front = [each for each in self._front if each[0] > upto]
        self._appended = [change for change in self._appended if change.seq > upto]

    def read(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        """Changes after a seq."""
        with self._transaction.pipeline():
            self.flush()
            found = self._transaction.run("feed_change_read", self._feed_id, after, limit, bytes_max)
        return [change_of(columns) for columns in found.fetchall()]

    def flush(self) -> None:
        """Write appended changes and delete dropped ones; in one round trip inside `pipeline`."""
        if self._dropped_seq >= self._stored_first:
            upto = min(self._dropped_seq, self._stored_last)
            if upto >= self._stored_first:
                self._transaction.run("feed_change_drop", self._feed_id, self._stored_first, upto)
            self._stored_first = self._dropped_seq + 1
        if self._appended:
            seqs, times, ids, abouts, items = zip(*map(change_columns, self._appended), strict=True)
            columns = numbers(seqs), numbers(times), blobs(ids), blobs(abouts), blobs(items)
            self._transaction.run("feed_change_write", self._feed_id, *columns)
            self._stored_last = self._appended[-1].seq
            self._appended = []


CHANGES_PER_ITEM = 2
"""Changes that one item may add to the log: it is published and another one evicted, or it is edited and moved."""


class FeedReads(NamedTuple):
    """Reads sent for a feed; their rows can be fetched after `pipeline`."""

    ids: Sequence[str]
    items: tuple[list[str], Cursor] | None
    firsts: int
    first: Cursor | None
    last: Cursor
    front: Cursor | None


class PostgresFeed:
    """A feed, whose row is locked when the step writes: no other transaction then changes its items or log."""

    def __init__(
        self, transaction: LazyTransaction, feed: FeedName, feed_id: int, config: str, counters: tuple[Any, ...]
    ) -> None:
        self.feed = feed
        self.feed_id = feed_id
        self.config = read_config(config)
        self.counters = FeedCounters(*counters)
        self._transaction = transaction
        self._stored = (self.config, counters)
        self._items = FeedItems(transaction, feed_id, self.config.type == "sorted")
        self._log = PostgresFeedLog(transaction, feed_id, self.counters)
        self._prefetched: frozenset[str] = frozenset()

    def load(self, ids: Sequence[str]) -> None:
        if not self._transaction.writes:
            self._items.add_items(self._items.send_lookup(ids))
        elif not self._prefetched.issuperset(ids) or not ids:
            with self._transaction.pipeline():
                self.flush()
                reads = self.send_reads(ids)
            self.add_answers(reads)

    def send_reads(self, ids: Sequence[str]) -> FeedReads:
        """Send the reads that a step of these items usually needs; every change must be written before."""
        firsts, front = self._surplus(len(ids)), self._surplus_of_log(len(ids))
        return FeedReads(
            ids,
            self._items.send_lookup(ids),
            firsts,
            self._items.send_first(firsts) if firsts else None,
            self._items.send_last(1),
            self._log.send_front(front) if front else None,
        )

    def add_answers(self, reads: FeedReads) -> None:
        """Keep the rows of `send_reads`."""
        self._items.add_items(reads.items)
        if reads.first is not None:
            self._items.add_first(reads.first, reads.firsts)
        self._items.add_last(reads.last, 1)
        if reads.front is not None:
            self._log.add_front(reads.front)

    def add_prefetched(self, reads: FeedReads) -> None:
        """Keep the rows that were read together with the lock: `load` need not read them again."""
        self.add_answers(reads)
        self._prefetched = frozenset(reads.ids)

    def _surplus(self, count: int) -> int:
        """How many items at the front a step reads: those to evict if so many are added, and the next one, which may be
        too old; in a sorted feed the first one, since an item may be put before it."""
        if self.config.type != "feed":
            return int(self.config.type == "sorted")
        surplus = min(max(self.counters.items + count - self.config.items_max, 0), EVICT_PER_CALL_MAX)
        return surplus + 1 if surplus or self.config.items_keep_ms else 0

    def _surplus_of_log(self, count: int) -> int:
        """How many changes a step reads: those to drop for their number, and the next one; 0 when none are dropped."""
        kept = self.counters.seq - self.counters.first_seq + 1
        surplus = kept + count * CHANGES_PER_ITEM - self.config.changes_keep_max
        return min(surplus, kept) + 1 if surplus > 0 and self.config.type != "queue" else 0

    def row(self, id: str) -> ItemRow | None:
        return self._items.row(id)

    def put(self, row: ItemRow) -> None:
        self._items.put(row)

    def drop(self, row: ItemRow) -> None:
        self._items.drop(row)

    def first(self, limit: int, after_rank: str = "", bytes_max: int | None = None) -> list[ItemRow]:
        if self._transaction.writes and bytes_max is None:
            return self._items.first(limit, after_rank)
        return self._items.read(limit, after_rank, bytes_max)

    def last(self, limit: int, before_rank: str | None = None) -> list[ItemRow]:
        return self._items.last(limit, END if before_rank is None else before_rank)

    def append(self, changes: Sequence[Changed]) -> None:
        self._log.append(changes)

    def change(self, seq: int) -> Changed | None:
        found = self._log.read(seq - 1, 1, 1)
        return found[0] if found and found[0].seq == seq else None

    def changes(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        return self._log.read(after, limit, bytes_max)

    def oldest_changes(self, limit: int) -> Iterator[tuple[int, int, int]]:
        return self._log.oldest(limit)

    def drop_changes(self, upto: int) -> None:
        self._log.drop(upto)

    def flush(self) -> None:
        """Write the items and changes of the step so far; in one round trip inside `pipeline`."""
        self._items.flush()
        self._log.flush()

    def write_back(self) -> None:
        """Write all changes of the step; in one round trip inside `pipeline`."""
        self.flush()
        counters = counter_columns(self.counters)
        if (self.config, counters) != self._stored:
            self._transaction.run("feed_write", write_config(self.config), *counters, self.feed_id)
            self._stored = (self.config, counters)
