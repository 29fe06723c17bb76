"""Feeds: create, configure, delete, describe and sweep them, and read their logs."""

from collections.abc import Mapping

import msgspec

from headrace.model.feed import (
    DIRECTORY_CONFIG,
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
from headrace.stores.engine.feed_log import FeedLog, end_of, known_feed, status_of, trim
from headrace.stores.engine.feed_rows import FeedCounters, ItemRow
from headrace.stores.engine.items import evict
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.step import at
from headrace.stores.shared.validate import feed_exists, feed_version_changed

SWEEPER = "sweep"
"""The instance of evictions by a sweep."""


class EngineFeeds:
    """Feeds and their logs."""

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
            create(tx, feed, config, instance, now_ms)
            self._notify(feed)

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
            config = configure(tx, feed, changes, version, instance, now_ms)
            self._notify(feed)
            return config

        return await self._engine.write(at(now_ms, act))

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        check_writable(feed)
        check_instance(instance)

        def act(tx: Tx, now_ms: int) -> None:
            delete(tx, feed, instance, now_ms)
            self._notify(feed)

        await self._engine.write(at(now_ms, act))
        await self._erase()

    async def _erase(self) -> None:
        # The feed is unreachable already: after a crash here, the next delete or sweep erases the rest.
        while await self._engine.write(lambda tx: tx.erase_feeds(BATCH_MAX)) == BATCH_MAX:
            pass

    def _notify(self, feed: FeedName) -> None:
        self._engine.notify_changed(feed)
        self._engine.notify_changed(feed.directory)

    async def describe(self, feed: FeedName) -> FeedState | None:
        def query(tx: Tx) -> FeedState | None:
            rows = tx.feed(feed)
            if rows is None:
                return None
            counters = rows.counters
            return FeedState(
                feed,
                rows.config,
                end_of(rows),
                counters.items,
                counters.total,
                counters.first_seq,
                counters.changes_bytes,
                counters.created_at_ms,
                counters.at_ms,
            )

        return await self._engine.read(query)

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = PAGE_MAX) -> Changes:
        check_cursor(after)
        check_int("limit", limit, 1, PAGE_MAX)

        def query(tx: Tx) -> Changes:
            rows = tx.feed(feed)
            if rows is None:
                return Changes("gone", [], None)
            status = "kept" if after is None else status_of(rows, after)
            if status != "kept":
                return Changes(status, [], end_of(rows))
            counters = rows.counters
            seq = counters.first_seq - 1 if after is None else after.seq
            found = rows.changes(seq, limit, CHANGES_PAGE_BYTES)
            if not found:
                return Changes(status, [], after or end_of(rows))
            last = found[-1]
            return Changes(status, found, FeedCursor(counters.birth, last.epoch, last.seq), last.seq < counters.seq)

        return await self._engine.read(query)

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        def act(tx: Tx, now_ms: int) -> int:
            swept = sweep(tx, feed, SWEEPER, now_ms)
            if swept:
                self._engine.notify_changed(feed)
            return swept + tx.erase_feeds(BATCH_MAX)

        return await self._engine.write(at(now_ms, act))


encode_config = msgspec.json.Encoder().encode


def create(tx: Tx, feed: FeedName, config: FeedConfig, instance: str, now_ms: int) -> None:
    """Create a feed, and the directory of its tenant with the first one."""
    directory = tx.feed(feed.directory)
    if directory is None:
        directory = tx.make_feed(feed.directory, DIRECTORY_CONFIG, FeedCounters(f"{now_ms}.0", now_ms))
    if directory.row(feed.name) is not None:
        raise feed_exists(feed)
    text = encode_config(config)
    listing = FeedLog(directory, instance, now_ms)
    directory.put(ItemRow(feed.name, text, feed.name, listing.at_ms))
    directory.counters.items += 1
    directory.counters.total += 1
    seq = listing.note("created", feed.name, text)
    listing.close()
    rows = tx.make_feed(feed, config, FeedCounters(f"{listing.at_ms}.{seq}", listing.at_ms))
    log = FeedLog(rows, instance, listing.at_ms)
    log.note("created", item=text)
    log.close()


def configure(
    tx: Tx, feed: FeedName, changes: Mapping[str, object], version: int | None, instance: str, now_ms: int
) -> FeedConfig:
    """Change settings of a feed."""
    directory = tx.feed(feed.directory)  # always locked before the feed
    rows = known_feed(tx, feed)
    assert directory is not None  # it holds the feed
    if version is not None and version != rows.config.version:
        raise feed_version_changed(feed, rows.config, version)
    rows.config = config = rows.config.changed(changes)
    text = encode_config(config)
    listing = FeedLog(directory, instance, now_ms)
    directory.put(ItemRow(feed.name, text, feed.name, listing.at_ms))
    directory.counters.total += 1
    listing.note("configured", feed.name, text)
    listing.close()
    log = FeedLog(rows, instance, now_ms)
    log.note("configured", item=text)
    log.close()
    return config


def delete(tx: Tx, feed: FeedName, instance: str, now_ms: int) -> None:
    """Delete a feed, and write that to the log of the directory."""
    directory = tx.feed(feed.directory)
    rows = known_feed(tx, feed)
    assert directory is not None  # it holds the feed
    listed = directory.row(feed.name)
    assert listed is not None  # likewise
    listing = FeedLog(directory, instance, now_ms)
    directory.drop(listed)
    directory.counters.items -= 1
    listing.note("deleted", feed.name)
    listing.close()
    tx.forget_feed(rows)


def sweep(tx: Tx, feed: FeedName, instance: str, now_ms: int) -> int:
    """Evict items and drop changes beyond the bounds; returns how many."""
    rows = tx.feed(feed)
    if rows is None:
        return 0
    log, counters = FeedLog(rows, instance, now_ms), rows.counters
    first_seq = counters.first_seq
    evicted = evict(log) if rows.config.type == "feed" and not feed.is_directory else 0
    log.close()
    trim(rows, log.at_ms)
    swept = evicted + counters.first_seq - first_seq
    if feed.is_directory and not counters.items and counters.first_seq > counters.seq:
        tx.forget_feed(rows)
    return swept
