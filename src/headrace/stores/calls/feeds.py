"""The feeds protocol over an engine."""

from collections.abc import Mapping

from headrace.model.feed import (
    FeedConfig,
    FeedCursor,
    FeedName,
    FeedType,
    check_cursor,
    check_instance,
    check_writable,
    first_feed_config,
)
from headrace.model.limits import BATCH_MAX, CHANGES_PAGE_BYTES, PAGE_MAX
from headrace.model.results import Changes, FeedState
from headrace.model.validate import check_int, check_version_number
from headrace.stores.calls.jobs import at
from headrace.stores.transitions import feeds
from headrace.stores.transitions.changes import end_of, status_of
from headrace.stores.transitions.rows import Engine, Tx

SWEEPER = "sweep"
"""The instance of changes that nobody asked for."""


class EngineFeeds:
    """Makes and deletes feeds, and reads their logs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(
        self,
        feed: FeedName,
        type: FeedType = "feed",
        changes: Mapping[str, object] | None = None,
        *,
        instance: str,
        now_ms: int | None = None,
    ) -> FeedConfig:
        check_writable(feed)
        check_instance(instance)
        config = first_feed_config(type, changes)

        def act(tx: Tx, now_ms: int) -> None:
            feeds.create(tx, feed, config, instance, now_ms)
            self._tell(feed)

        await self._engine.write(at(now_ms, act))
        return config

    async def configure(
        self,
        feed: FeedName,
        changes: Mapping[str, object],
        *,
        instance: str,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> FeedConfig:
        check_writable(feed)
        check_version_number(version)
        check_instance(instance)

        def act(tx: Tx, now_ms: int) -> FeedConfig:
            config = feeds.configure(tx, feed, changes, version, instance, now_ms)
            self._tell(feed)
            return config

        return await self._engine.write(at(now_ms, act))

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        check_writable(feed)
        check_instance(instance)

        def act(tx: Tx, now_ms: int) -> None:
            feeds.delete(tx, feed, instance, now_ms)
            self._tell(feed)

        await self._engine.write(at(now_ms, act))
        await self._erase()

    async def _erase(self) -> None:
        # Nobody finds it any more; whoever dies here leaves the rest to the next who deletes or sweeps.
        while await self._engine.write(lambda tx: tx.erase_feeds(BATCH_MAX)) == BATCH_MAX:
            pass

    def _tell(self, feed: FeedName) -> None:
        self._engine.tell_changed(feed)
        self._engine.tell_changed(feed.directory)

    async def describe(self, feed: FeedName) -> FeedState | None:
        def look(tx: Tx) -> FeedState | None:
            rows = tx.feed(feed)
            if rows is None:
                return None
            head = rows.head
            return FeedState(
                feed,
                rows.config,
                end_of(rows),
                head.items,
                head.total,
                head.first_seq,
                head.changes_bytes,
                head.created_at_ms,
                head.at_ms,
            )

        return await self._engine.read(look)

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = PAGE_MAX) -> Changes:
        check_cursor(after)
        check_int("limit", limit, 1, PAGE_MAX)

        def look(tx: Tx) -> Changes:
            rows = tx.feed(feed)
            if rows is None:
                return Changes("gone", [], None)
            status = "kept" if after is None else status_of(rows, after)
            if status != "kept":
                return Changes(status, [], end_of(rows))
            head = rows.head
            seq = head.first_seq - 1 if after is None else after.seq
            found = rows.changes(seq, limit, CHANGES_PAGE_BYTES)
            if not found:
                return Changes(status, [], after or end_of(rows))
            last = found[-1]
            return Changes(status, found, FeedCursor(head.birth, last.epoch, last.seq), last.seq < head.seq)

        return await self._engine.read(look)

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        def act(tx: Tx, now_ms: int) -> int:
            swept = feeds.sweep(tx, feed, SWEEPER, now_ms)
            if swept:
                self._engine.tell_changed(feed)
            return swept + tx.erase_feeds(BATCH_MAX)

        return await self._engine.write(at(now_ms, act))
