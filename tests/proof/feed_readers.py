"""Readers of a feed in the process that runs the proof: a witness of the log, and a reader that was away for too
long."""

import asyncio
from collections.abc import Callable

from headrace.client.codec import JSON
from headrace.feeds.change import Change
from headrace.feeds.subscription import Subscription
from headrace.model.feed import Changed, FeedCursor, FeedName, Item
from headrace.stores.contract.store import Store
from tests.proof.feed_programs import GAP
from tests.proof.worker_runs import PATIENCE_SECONDS
from tests.support.feed_fold import FeedFold


class Witness:
    """Reads the log of a feed page by page, without a subscription, while it is being trimmed."""

    def __init__(self, store: Store, feed: FeedName, start: FeedCursor) -> None:
        self.log: dict[int, Changed] = {}
        self._store = store
        self._feed = feed
        self._cursor = start

    async def read(self) -> None:
        """Read on until cancelled."""
        while True:
            page = await self._store.feeds.changes(self._feed, self._cursor)
            assert (page.status, page.cursor is None) == ("kept", False), "the witness itself was too slow"
            self.log |= {change.seq: change for change in page.rows}
            self._cursor = page.cursor or self._cursor
            if not page.more:
                await self._store.signals.changed(self._feed, self._cursor, 1_000)

    async def reached(self, end: FeedCursor) -> None:
        """Wait until it has everything up to there."""
        await until(lambda: self._cursor.seq >= end.seq)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what others do."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - another process cannot set an event of ours
            await asyncio.sleep(0.005)


class Late:
    """A reader that was away for longer than changes are kept."""

    def __init__(self, store: Store, feed: FeedName, away: FeedCursor) -> None:
        self.gaps = 0
        self.feed = feed
        self._seq = 0
        self._store = store
        self._away = away
        self._fold = FeedFold(feed)

    async def read(self) -> None:
        """Read on until cancelled."""
        state = await self._store.feeds.describe(self.feed)
        assert state is not None, "the feed is gone"
        self._fold.config = {"type": state.config.type}
        async with Subscription(self._store, self.feed, JSON, cursor=str(self._away)) as changes:
            async for change in changes:
                self._take(change)

    def _take(self, change: Change) -> None:
        if change.event == GAP:
            self.gaps += 1
            self._fold.items.clear()
        elif change.event == "present":
            self._fold.items.append(Item(change.id, change.raw or b"", change.at_ms))
        elif change.event != "live":
            self._fold.add(changed_of(change))
        self._seq = change.seq or self._seq

    async def reached(self, end: FeedCursor) -> None:
        """Wait until it has everything up to there."""
        await until(lambda: self._seq >= end.seq)

    def holds(self, items: list[Item]) -> bool:
        """Whether it knows of these items, in their order."""
        return [(item.id, item.item) for item in self._fold.items] == [(item.id, item.item) for item in items]


def changed_of(change: Change) -> Changed:
    """A change that was changes, as the log has it."""
    return Changed(
        seq=change.seq,
        epoch=FeedCursor.parse(change.cursor).epoch,
        at_ms=change.at_ms,
        event=change.event,  # type: ignore[arg-type]
        instance=change.instance or "",
        id=change.id,
        item=change.raw or b"",
        position=change.position,
        reason=change.reason,  # type: ignore[arg-type]
    )
