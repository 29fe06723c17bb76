"""The items of a feed in PostgreSQL: read for a whole batch, kept while the step lasts, written at once."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.stores.engine.feed_rows import ItemRow
from headrace.stores.postgres.arrays import Array, blobs, numbers, texts
from headrace.stores.postgres.sql import Cursor, LazyTransaction

START = ""
"""The bound before the first item: every rank is greater."""
END = "~"
"""The bound after the last item: every character of a rank or of a feed's name is smaller."""


class KnownOrder:
    """Ranks with their ids, and which of them are known to be neighbours in the feed."""

    def __init__(self) -> None:
        self._ranks: list[str] = [START, END]
        self._ids: dict[str, str] = {}
        self._adjacent: set[str] = set()
        """Ranks whose next rank here is also the next one in the feed."""

    def add(self, run: Sequence[tuple[str, str]], after: str | None = None, before: str | None = None) -> None:
        """Add ranks and ids that are neighbours, in order, and follow the rank `after` and precede `before`; None where
        other items may stand between."""
        for rank, id in run:
            if rank not in self._ids:
                insort(self._ranks, rank)
            self._ids[rank] = id
        ranks = [rank for rank, _ in run]
        if after is not None and self._is_known(after):
            ranks.insert(0, after)
        if before is not None and self._is_known(before):
            ranks.append(before)
        self._adjacent.update(ranks[:-1])

    def _is_known(self, rank: str) -> bool:
        return rank in self._ids or rank in (START, END)

    def put(self, rank: str, id: str) -> None:
        """Put an item at a rank; known neighbours around it stay known."""
        if rank not in self._ids:
            rank_index = bisect_left(self._ranks, rank)
            if self._ranks[rank_index - 1] in self._adjacent:
                self._adjacent.add(rank)
            self._ranks.insert(rank_index, rank)
        self._ids[rank] = id

    def drop(self, rank: str) -> None:
        """Drop the item at a rank."""
        if self._ids.pop(rank, None) is None:
            return
        rank_index = bisect_left(self._ranks, rank)
        del self._ranks[rank_index]
        if rank in self._adjacent:
            self._adjacent.discard(rank)
        else:
            self._adjacent.discard(self._ranks[rank_index - 1])

    def first(self, limit: int, after: str) -> list[str] | None:
        """The ids after a rank, None when not all of them are known."""
        rank_index = bisect_right(self._ranks, after) - 1
        found: list[str] = []
        while len(found) < limit:
            if self._ranks[rank_index] not in self._adjacent:
                return None
            rank_index += 1
            if self._ranks[rank_index] == END:
                break
            found.append(self._ids[self._ranks[rank_index]])
        return found

    def last(self, limit: int, before: str) -> list[str] | None:
        """The ids before a rank, backwards; None when not all of them are known."""
        rank_index = bisect_left(self._ranks, before) - 1
        found: list[str] = []
        while len(found) < limit:
            if self._ranks[rank_index] not in self._adjacent:
                return None
            if self._ranks[rank_index] == START:
                break
            found.append(self._ids[self._ranks[rank_index]])
            rank_index -= 1
        return found


EVERYTHING = 2**62
"""No bound of bytes."""


class Unread(bytes):
    """Stands for the bytes of an item of which only the rank was read."""

    __slots__ = ()


UNREAD = Unread()


class FeedItems:
    """A step that writes reads ranks without the bytes of the items, which may be large and many."""

    def __init__(self, transaction: LazyTransaction, feed_id: int, is_sorted: bool) -> None:
        self._transaction = transaction
        self._feed_id = feed_id
        self._is_sorted = is_sorted
        self._known: dict[str, ItemRow | None] = {}
        self._absent: set[str] = set()
        """Ids that were looked up and are not stored."""
        self._changed: dict[str, None] = {}
        self._order = KnownOrder()

    def send_lookup(self, ids: Iterable[str]) -> tuple[list[str], Cursor] | None:
        """Send a lookup of items that are not known yet, for `add_items`; every change must be written before."""
        wanted = [id for id in dict.fromkeys(ids) if id not in self._known or _is_unread(self._known[id])]
        if not wanted:
            return None
        packed = blobs([id.encode() for id in wanted])
        # A step that names an item of a sorted feed may put another one next to it.
        if self._is_sorted and self._transaction.writes:
            return wanted, self._transaction.run("feed_item_load_around", self._feed_id, packed)
        return wanted, self._transaction.run("feed_item_load", packed, self._feed_id)

    def add_items(self, lookup: tuple[list[str], Cursor] | None) -> None:
        """Keep the rows of `send_lookup`."""
        if lookup is None:
            return
        wanted, found = lookup
        self._known |= {id: self._known.get(id) for id in wanted}
        self._absent.update(wanted)
        for packed, rank, at_ms, item, *around in found.fetchall():
            id = packed.decode()
            self._known[id] = ItemRow(id, item, rank, at_ms)
            self._absent.discard(id)
            if around:
                before, behind = self._unread([around[:3]]), self._unread([around[3:]])
                run = [*before, (rank, id), *behind]
                self._order.add(run, None if before else START, None if behind else END)

    def _unread(self, found: Iterable[Sequence[Any]]) -> list[tuple[str, str]]:
        """Keep ranks without the bytes of their items; returns ranks and ids."""
        run: list[tuple[str, str]] = []
        for packed, rank, at_ms in found:
            if packed is not None:
                id = packed.decode()
                run.append((rank, id))
                if self._known.get(id) is None:
                    self._known[id] = ItemRow(id, UNREAD, rank, at_ms)
        return run

    def row(self, id: str) -> ItemRow | None:
        """An item with its bytes."""
        if id not in self._known or _is_unread(self._known[id]):
            with self._transaction.pipeline():
                self.flush()
                lookup = self.send_lookup([id])
            self.add_items(lookup)
        return self._known[id]

    def put(self, row: ItemRow) -> None:
        """Keep an item."""
        known = self._known.get(row.id)
        if known is not None and known.rank != row.rank:
            self._order.drop(known.rank)
        self._order.put(row.rank, row.id)
        self._known[row.id] = row
        self._changed[row.id] = None

    def drop(self, row: ItemRow) -> None:
        """Drop an item."""
        self._order.drop(row.rank)
        self._known[row.id] = None
        self._changed[row.id] = None

    def first(self, limit: int, after_rank: str) -> list[ItemRow]:
        """Rows in order of rank, without their bytes."""
        ids = self._order.first(limit, after_rank)
        if ids is None:
            with self._transaction.pipeline():
                self.flush()
                found = self.send_first(limit, after_rank)
            return self._rows(self.add_first(found, limit, after_rank))
        return self._rows(ids)

    def send_first(self, limit: int, after_rank: str = START) -> Cursor:
        """Send a read of rows in order; every change must be written before."""
        return self._transaction.run("feed_item_first", self._feed_id, after_rank, limit)

    def add_first(self, found: Cursor, limit: int, after_rank: str = START) -> list[str]:
        """Keep the rows of `send_first`."""
        run = self._unread(found.fetchall())
        self._order.add(run, after_rank, END if len(run) < limit else None)
        return [id for _, id in run]

    def last(self, limit: int, before_rank: str) -> list[ItemRow]:
        """Rows backwards, without their bytes."""
        ids = self._order.last(limit, before_rank)
        if ids is None:
            with self._transaction.pipeline():
                self.flush()
                found = self.send_last(limit, before_rank)
            return self._rows(self.add_last(found, limit, before_rank))
        return self._rows(ids)

    def send_last(self, limit: int, before_rank: str = END) -> Cursor:
        """Send a read of rows backwards; every change must be written before."""
        return self._transaction.run("feed_item_last", self._feed_id, before_rank, limit)

    def add_last(self, found: Cursor, limit: int, before_rank: str = END) -> list[str]:
        """Keep the rows of `send_last`."""
        run = self._unread(found.fetchall())
        self._order.add(run[::-1], START if len(run) < limit else None, before_rank)
        return [id for _, id in run]

    def _rows(self, ids: list[str]) -> list[ItemRow]:
        return [row for row in map(self._known.get, ids) if row is not None]

    def read(self, limit: int, after_rank: str, bytes_max: int | None) -> list[ItemRow]:
        """Items in order, with their bytes."""
        with self._transaction.pipeline():
            self.flush()
            bound = EVERYTHING if bytes_max is None else bytes_max
            found = self._transaction.run("feed_item_read", self._feed_id, after_rank, limit, bound)
        return [ItemRow(id.decode(), item, rank, at_ms) for id, rank, at_ms, item in found.fetchall()]

    def flush(self) -> None:
        """Write what the step has changed so far; in one round trip inside `pipeline`."""
        dropped: list[bytes] = []
        moved: list[ItemRow] = []
        new: list[ItemRow] = []
        kept: list[ItemRow] = []
        for id in self._changed:
            row = self._known[id]
            if row is None:
                if id not in self._absent:
                    dropped.append(id.encode())
            elif row.item is UNREAD:
                moved.append(row)
            else:
                (new if id in self._absent else kept).append(row)
                self._absent.discard(id)
        self._changed = {}
        if dropped:
            self._transaction.run("feed_item_drop", self._feed_id, blobs(dropped))
        if moved:
            self._transaction.run("feed_item_rank", self._feed_id, *_columns(moved)[:2])
        if kept:
            self._transaction.run("feed_item_write", self._feed_id, *_columns(kept))
        if new:
            self._transaction.run("feed_item_insert", self._feed_id, *_columns(new))


def _columns(rows: list[ItemRow]) -> tuple[Array, Array, Array, Array]:
    return (
        blobs([row.id.encode() for row in rows]),
        texts([row.rank for row in rows]),
        numbers([row.at_ms for row in rows]),
        blobs([row.item for row in rows]),
    )


def _is_unread(row: ItemRow | None) -> bool:
    return row is not None and row.item is UNREAD
