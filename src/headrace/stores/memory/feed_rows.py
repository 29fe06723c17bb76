"""The rows of one feed in dictionaries and sorted lists."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import islice

from headrace.model.feed import Changed, FeedConfig, FeedName
from headrace.stores.engine.feed_rows import FeedCounters, ItemRow


class MemoryFeed:
    """A dict of items with a sorted list of their ranks."""

    def __init__(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> None:
        self.feed = feed
        self.config = config
        self.counters = counters
        self._items: dict[str, ItemRow] = {}
        self._ranks: list[str] = []
        self._by_rank: dict[str, str] = {}
        self._changes: list[Changed] = []

    def load(self, ids: Sequence[str]) -> None:
        """Nothing to do: the items are in memory."""

    def row(self, id: str) -> ItemRow | None:
        return self._items.get(id)

    def put(self, row: ItemRow) -> None:
        known = self._items.get(row.id)
        if known is not None and known.rank != row.rank:
            self.drop(known)
        if row.rank not in self._by_rank:
            insort(self._ranks, row.rank)
        self._by_rank[row.rank] = row.id
        self._items[row.id] = row

    def drop(self, row: ItemRow) -> None:
        del self._items[row.id]
        del self._by_rank[row.rank]
        del self._ranks[bisect_left(self._ranks, row.rank)]

    def first(self, limit: int, after_rank: str = "", bytes_max: int | None = None) -> list[ItemRow]:
        start = bisect_right(self._ranks, after_rank)
        found: list[ItemRow] = []
        size = 0
        for rank in islice(self._ranks, start, start + limit):
            row = self._items[self._by_rank[rank]]
            found.append(row)
            size += len(row.id.encode()) + len(row.item)
            if bytes_max is not None and size >= bytes_max:
                break
        return found

    def last(self, limit: int, before_rank: str | None = None) -> list[ItemRow]:
        end = len(self._ranks) if before_rank is None else bisect_left(self._ranks, before_rank)
        ranks = self._ranks[max(end - limit, 0) : end]
        return [self._items[self._by_rank[rank]] for rank in reversed(ranks)]

    def append(self, changes: Sequence[Changed]) -> None:
        self._changes += changes

    def change(self, seq: int) -> Changed | None:
        found = self.changes(seq - 1, 1, 1)
        return found[0] if found and found[0].seq == seq else None

    def changes(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        start = bisect_right(self._changes, after, key=lambda change: change.seq)
        found: list[Changed] = []
        size = 0
        for change in islice(self._changes, start, start + limit):
            found.append(change)
            size += change.size
            if size >= bytes_max:
                break
        return found

    def oldest_changes(self, limit: int) -> list[tuple[int, int, int]]:
        return [(change.seq, change.at_ms, change.size) for change in self._changes[:limit]]

    def drop_changes(self, upto: int) -> None:
        del self._changes[: bisect_right(self._changes, upto, key=lambda change: change.seq)]
