"""Folds the log of a feed into the items it describes, knowing nothing but the changes: an independent witness."""

import json
from bisect import bisect_left

import msgspec

from headrace.model.feed import Changed, FeedCursor, FeedName, Item
from headrace.model.limits import PAGE_MAX
from headrace.model.results import Changes, FeedState
from headrace.stores.contract.store import Store


class FeedFold:
    """What a feed must hold if its log, read from the beginning, is true. Impossible changes fail at once."""

    def __init__(self, feed: FeedName) -> None:
        self._is_directory = feed.is_directory
        self.config: dict[str, int | str] = {}
        self.items: list[Item] = []

    def add(self, change: Changed) -> None:
        """Take one change."""
        if self._is_directory:
            self._list(change)
            return
        match change.event:
            case "created" | "configured":
                assert (change.event == "created") == (change.seq == 1), f"{change.event} is change {change.seq}"
                self.config = json.loads(change.item)
            case "published":
                assert self._at(change.id) is None, f"published {change.id!r} which is there"
                self._put(Item(change.id, change.item, change.at_ms), change)
            case "edited":
                at = self._known(change)
                edited = Item(change.id, change.item, change.at_ms)
                self.items[at : at + 1] = [edited] if self.config["type"] == "sorted" else []
                if self.config["type"] == "feed":
                    self.items.append(edited)
            case "retracted":
                del self.items[self._known(change)]
            case "moved":
                item = self.items.pop(self._known(change))
                assert item.item == change.item, f"moved {change.id!r} with another item"
                self._put(item, change)
            case "deleted":
                raise AssertionError("a feed tells of its own end")

    def _list(self, change: Changed) -> None:
        at = bisect_left([item.id for item in self.items], change.id)
        is_there = self.items[at : at + 1] != [] and self.items[at].id == change.id
        assert is_there == (change.event != "created"), f"{change.event} {change.id!r}, there: {is_there}"
        item = Item(change.id, change.item, change.at_ms)
        self.items[at : at + is_there] = [item] if change.event != "deleted" else []

    def _at(self, id: str | None) -> int | None:
        return next((at for at, item in enumerate(self.items) if item.id == id), None)

    def _known(self, change: Changed) -> int:
        at = self._at(change.id)
        assert at is not None, f"{change.event} {change.id!r} which is not there"
        return at

    def _put(self, item: Item, change: Changed) -> None:
        position = change.position
        assert (position is not None) == (self.config["type"] == "sorted"), "positions are for sorted feeds"
        beside = None if position is None else self._at(position.id)
        match None if position is None else position.where:
            case None | "last":
                self.items.append(item)
            case "first":
                self.items.insert(0, item)
            case where:
                assert beside is not None, f"{change.event} {change.id!r} next to nothing"
                self.items.insert(beside + (where == "after"), item)


class Follower:
    """Follows one feed from its first change, and starts again from its items after a gap, as a subscriber does."""

    def __init__(self, feed: FeedName) -> None:
        self._feed = feed
        self._fold = FeedFold(feed)
        self._cursor: FeedCursor | None = None
        self._at_ms = 0
        self.gaps = 0
        self.changes = 0

    async def look(self, store: Store, now_ms: int) -> None:
        """Read what is new, and fail if it contradicts itself or the items."""
        state = await store.feeds.describe(self._feed)
        if state is None:
            assert await store.feeds.changes(self._feed, self._cursor) == Changes("gone", [], None)
            self._cursor = None
            return
        if self._cursor is None or self._cursor.birth != state.cursor.birth:
            self._fold, self._at_ms = FeedFold(self._feed), 0
            self._cursor = FeedCursor(state.cursor.birth, 1, 0)
        page = await self._read(store)
        if page.status == "gap":
            self.gaps += 1
            there = await store.items.snapshot(self._feed, now_ms=0)
            if len(there.rows) != state.items:
                self._cursor = None  # some are over their age: they can be followed once these are gone
                return
            self._fold.config = json.loads(msgspec.json.encode(state.config))
            self._fold.items, self._cursor = list(there.rows), there.as_of
            page = await self._read(store)
        assert (page.status, page.cursor) == ("kept", state.cursor)
        await self._check(store, state, now_ms)

    async def _read(self, store: Store) -> Changes:
        while True:
            page = await store.feeds.changes(self._feed, self._cursor, limit=5)
            for change in page.rows:
                assert self._cursor is not None
                assert change.seq == self._cursor.seq + 1, "the log has a hole"
                assert change.at_ms >= self._at_ms, "the log's time goes back"
                self._fold.add(change)
                self._at_ms, self._cursor = change.at_ms, FeedCursor(self._cursor.birth, change.epoch, change.seq)
            self.changes += len(page.rows)
            if not page.more:
                return page

    async def _check(self, store: Store, state: FeedState, now_ms: int) -> None:
        page = await store.items.list(self._feed, now_ms=now_ms)
        rows = list(page.rows)
        while page.cursor is not None:
            page = await store.items.list(self._feed, cursor=page.cursor, now_ms=now_ms)
            rows += page.rows
        assert page.as_of == state.cursor
        kept = (await store.feeds.changes(self._feed)).rows
        assert [each.seq for each in kept] == [*range(state.first_seq, state.cursor.seq + 1)][:PAGE_MAX]
        assert sum(each.size for each in kept) == state.changes_bytes or len(kept) == PAGE_MAX
        if state.config.type == "queue":
            assert len(rows) == state.items
            return
        assert len(self._fold.items) == state.items
        keep_ms = state.config.items_keep_ms
        over_ms = max(now_ms, state.changed_at_ms) - keep_ms if keep_ms else -1
        assert rows == [item for item in self._fold.items if item.at_ms > over_ms]
