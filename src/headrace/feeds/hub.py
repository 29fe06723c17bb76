"""Reads the log of a feed once for all its subscribers on an event loop."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Literal

from headrace.client.codec import Codec
from headrace.client.tasks import retry_forever
from headrace.feeds.change import Change, live, of_item, of_log
from headrace.feeds.context import snapshot
from headrace.feeds.log_hub import Key, LogHub, shared_hub
from headrace.model.feed import Changed, FeedCursor, FeedName
from headrace.model.limits import FEED_LOOK_MS, HUB_BYTES_MAX, HUB_CHANGES_MAX
from headrace.model.results import ItemsSnapshot
from headrace.stores.contract.store import Store
from headrace.stores.shared.waiters import SingleFlight, retrieve_error


class DecodedPage:
    """Decodes its changes once per codec and type, when a subscriber first needs them."""

    def __init__(self, decode: Callable[[Codec, Any], list[Change]]) -> None:
        self._decode = decode
        self._decoded: dict[tuple[Codec, Any], list[Change]] = {}

    def changes(self, codec: Codec, type: Any) -> list[Change]:
        """All changes; shared, so do not modify them."""
        key = codec, type
        try:
            decoded = self._decoded.get(key)
            if decoded is None:
                decoded = self._decoded[key] = self._decode(codec, type)
        except TypeError:  # the codec or type is unhashable
            return self._decode(codec, type)
        return decoded


class LogPage(DecodedPage):
    """Changes of a log without a gap, after `after` up to `end`."""

    def __init__(self, feed: FeedName, after: FeedCursor, rows: list[Changed], end: FeedCursor) -> None:
        super().__init__(lambda codec, type: [of_log(feed, end.birth, row, codec, type) for row in rows])
        self.after = after
        self.rows = rows
        self.end = end

    @property
    def size(self) -> int:
        """The bytes it counts for."""
        return sum(row.size for row in self.rows)

    def follows(self, cursor: FeedCursor) -> bool:
        """Whether the reader of `cursor`, which is in this page, has read the same changes up to it."""
        index = cursor.seq - self.after.seq
        epoch = self.rows[index - 1].epoch if index else self.after.epoch
        return cursor.epoch == epoch or cursor.seq == 0  # nothing comes before the first change


class PresentItems(DecodedPage):
    """All items of a feed, then `live`."""

    def __init__(self, feed: FeedName, items: ItemsSnapshot) -> None:
        self.as_of = items.as_of
        super().__init__(
            lambda codec, type: [*(of_item(feed, item, codec, type) for item in items.rows), live(feed, items.as_of)]
        )


class ChangeWindow:
    """Keeps the latest pages of a log, bounded by changes and bytes."""

    def __init__(self) -> None:
        self._pages: list[LogPage] = []
        self._starts: list[int] = []
        self._changes = 0
        self._bytes = 0

    def add(self, page: LogPage) -> None:
        """Keep a page that follows the last one."""
        self._pages.append(page)
        self._starts.append(page.after.seq)
        self._changes += len(page.rows)
        self._bytes += page.size
        while len(self._pages) > 1 and (self._changes > HUB_CHANGES_MAX or self._bytes > HUB_BYTES_MAX):
            oldest = self._pages.pop(0)
            self._starts.pop(0)
            self._changes -= len(oldest.rows)
            self._bytes -= oldest.size

    def page_behind(self, cursor: FeedCursor) -> LogPage | None:
        """The page with the change after a cursor, if its reader has read the same changes up to it."""
        at = bisect_right(self._starts, cursor.seq) - 1
        if at < 0:
            return None
        page = self._pages[at]
        fits = cursor.birth == page.end.birth and cursor.seq < page.end.seq and page.follows(cursor)
        return page if fits else None


def hub_of(store: Store, feed: FeedName) -> "Hub":
    """The hub of a feed on the running event loop."""
    return shared_hub(store, feed, lambda key: Hub(store, feed, key))


class Hub(LogHub[FeedCursor]):
    """Follows the log of a feed."""

    def __init__(self, store: Store, feed: FeedName, key: Key) -> None:
        super().__init__(key)
        self.lost: tuple[FeedCursor, Literal["gap", "gone"]] | None = None
        """The position where it could not continue, and the reason."""
        self._store = store
        self._feed = feed
        self._window = ChangeWindow()
        self._swept_at = self.loop.time()
        self._presents = SingleFlight(self._read_present)
        self._births = SingleFlight(self._wait_for_birth)
        self._deletion: tuple[str, asyncio.Task[Changed | None]] | None = None

    def page_behind(self, cursor: FeedCursor) -> LogPage | None:
        """The page with the change after a cursor, if it was read lately."""
        return self._window.page_behind(cursor)

    async def present(self) -> PresentItems:
        """All items."""
        return await self._presents.run()

    async def birth(self) -> FeedCursor:
        """The cursor before the first change of a feed; waits until the feed exists."""
        return await self._births.run()

    async def deletion(self, birth: str) -> Changed | None:
        """The deletion of the feed with this birth, if the tenant's directory still has it."""
        if self._deletion is None or self._deletion[0] != birth:
            task = self.loop.create_task(retry_forever(lambda: deletion_of(self._store, self._feed, birth)))
            task.add_done_callback(retrieve_error)
            self._deletion = birth, task
        return await asyncio.shield(self._deletion[1])

    def stop(self) -> None:
        self._presents.close()
        self._births.close()
        super().stop()

    def _drop_window(self) -> None:
        self._window = ChangeWindow()

    async def _advance(self) -> bool:
        woken = await self._store.signals.changed(self._feed, self.end, FEED_LOOK_MS)
        has_changes = await self._catch_up()
        if self.end is not None:
            await self._sweep_if_due()
        return woken and not has_changes

    async def _catch_up(self) -> bool:
        """Read the new changes; whether there were any."""
        has_changes = False
        more = True
        while more and self.end is not None:
            answer = await self._store.feeds.changes(self._feed, self.end)
            more = answer.more
            if answer.status != "kept":
                self.lost = self.end, answer.status
                self.end = None
                self._drop_window()
            elif answer.rows:
                assert answer.cursor is not None  # there are rows
                self._window.add(LogPage(self._feed, self.end, answer.rows, answer.cursor))
                self.end = answer.cursor
            else:
                return has_changes
            has_changes = True
            self._wake_waiters()
        return has_changes

    async def _sweep_if_due(self) -> None:
        """Evict expired items, once in a while."""
        if self._feed.is_directory or self.loop.time() < self._swept_at + FEED_LOOK_MS / 1_000:
            return
        self._swept_at = self.loop.time()
        state = await self._store.feeds.describe(self._feed)
        if state is not None and state.config.items_keep_ms:
            await self._store.feeds.sweep(self._feed)

    async def _read_present(self) -> PresentItems:
        return PresentItems(self._feed, await retry_forever(lambda: snapshot(self._store, self._feed)))

    async def _wait_for_birth(self) -> FeedCursor:
        while True:
            await retry_forever(lambda: self._store.signals.changed(self._feed, None, FEED_LOOK_MS))
            state = await retry_forever(lambda: self._store.feeds.describe(self._feed))
            if state is not None:
                return FeedCursor(state.cursor.birth, 0, 0)


async def deletion_of(store: Store, feed: FeedName, birth: str) -> Changed | None:
    """The deletion of a feed, from the log of its directory; None if it is no longer kept."""
    created_at_ms, _, created_seq = birth.partition(".")
    after: FeedCursor | None = None
    while True:
        answer = await store.feeds.changes(feed.directory, after)
        for row in answer.rows:
            is_it = row.event == "deleted" and row.id == feed.name
            if is_it and row.seq > int(created_seq) and row.at_ms >= int(created_at_ms):
                return row
        if not answer.more:
            return None
        after = answer.cursor
