"""The feeds of one transaction: found, made, forgotten, and erased some rows at a time."""

from collections.abc import Sequence
from typing import Any

from psycopg import errors as pg

from headrace.model.feed import FeedConfig, FeedName
from headrace.stores.engine.feed_rows import FeedCounters, FeedRows
from headrace.stores.engine.row_codec import counter_columns, write_config
from headrace.stores.postgres.feed_rows import PostgresFeed
from headrace.stores.postgres.lazy_transaction import LazyTransaction

Seen = tuple[int, str, tuple[Any, ...]]
"""A feed as it was seen last: its id, its configuration as it is stored, its counters."""
FEEDS_MAX = 1_024
"""As many feeds as a busy process writes to; then all are forgotten and read again."""


class SeenFeeds:
    """The feeds that this process has written to, shared by its threads: enough to guess what the next step will need.
    Whatever is guessed is asked for under the lock and by the id that the lock has found, or not used."""

    def __init__(self) -> None:
        self._seen: dict[FeedName, Seen] = {}

    def get(self, feed: FeedName) -> Seen | None:
        """How the feed was seen last."""
        return self._seen.get(feed)

    def keep(self, feed: FeedName, seen: Seen) -> None:
        """Remember how it is seen now."""
        if len(self._seen) >= FEEDS_MAX and feed not in self._seen:
            self._seen = {}
        self._seen[feed] = seen


class OpenFeeds:
    """A feed is read when it is first asked for, and locked then if the transaction writes."""

    def __init__(self, link: LazyTransaction, seen: SeenFeeds) -> None:
        self._link = link
        self._seen = seen
        self.now_ms: int | None = None
        """The store's clock when a feed was locked."""
        self._feeds: dict[FeedName, PostgresFeed | None] = {}

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def find(self, feed: FeedName) -> PostgresFeed | None:
        """The rows of a feed."""
        if feed not in self._feeds:
            if self._link.writes:
                self._lock(feed)
            else:
                self.read([feed])
        return self._feeds[feed]

    def lock_ahead(self, feed: FeedName, ids: Sequence[str]) -> None:
        """Lock a feed and ask for what a step that names these ids will need, in one round trip; only the lock where
        the feed was not seen before."""
        seen = self._seen.get(feed)
        if seen is None:
            self._lock(feed)
            return
        guess = PostgresFeed(self._link, feed, *seen)
        with self._link.together():
            locked = self._link.run("feed_lock", feed.tenant, feed.name)
            asked = guess.ask(ids)
        self._keep_locked(feed, locked.fetchall())
        rows = self._feeds[feed]
        if rows is not None and (rows.feed_id, rows.config.type) == (guess.feed_id, guess.config.type):
            rows.read_ahead(asked)

    def _lock(self, feed: FeedName) -> None:
        self._keep_locked(feed, self._link.run("feed_lock", feed.tenant, feed.name).fetchall())

    def _keep_locked(self, feed: FeedName, found: list[tuple[Any, ...]]) -> None:
        if found and feed.directory in self._feeds and self._feeds[feed.directory] is None:
            raise pg.SerializationFailure("the tenant's first feed was made by somebody else meanwhile")
        self._feeds[feed] = None
        for self.now_ms, feed_id, config, *counters in found:
            self._feeds[feed] = PostgresFeed(self._link, feed, feed_id, config, tuple(counters))
            self._seen.keep(feed, (feed_id, config, tuple(counters)))

    def read(self, feeds: Sequence[FeedName]) -> None:
        """Read feeds in one go."""
        found = self._link.run("feed_find", [each.tenant for each in feeds], [each.name for each in feeds])
        self._feeds |= dict.fromkeys(feeds)
        for tenant, name, feed_id, config, *counters in found.fetchall():
            feed = FeedName(name, tenant)
            self._feeds[feed] = PostgresFeed(self._link, feed, feed_id, config, tuple(counters))

    def make(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> PostgresFeed:
        """The rows of a feed that is not there yet."""
        text, columns = write_config(config), counter_columns(counters)
        [(feed_id,)] = self._link.run("feed_create", feed.tenant, feed.name, text, *columns).fetchall()
        rows = self._feeds[feed] = PostgresFeed(self._link, feed, feed_id, text, columns)
        return rows

    def forget(self, rows: FeedRows) -> None:
        """Drop a feed; what the step has not written of it need not be."""
        assert isinstance(rows, PostgresFeed)
        self._feeds[rows.feed] = None
        self._link.run("feed_forget", rows.feed_id)

    def erase(self, limit: int) -> int:
        """Erase what is left of dropped feeds."""
        erased = 0
        while erased < limit and (found := self._link.run("feed_gone_find").fetchone()) is not None:
            [feed_id] = found
            for statement in ("erase_feed_item", "erase_feed_change"):
                if erased < limit:
                    erased += self._link.run(statement, feed_id, limit - erased).rowcount
            if erased < limit:
                self._link.run("feed_gone_drop", feed_id)
        return erased

    def write_back(self) -> None:
        """Write what was changed in any feed; all in one go inside `together`."""
        for rows in self._feeds.values():
            if rows is not None:
                rows.write_back()
                if self._link.writes:
                    self._seen.keep(
                        rows.feed, (rows.feed_id, write_config(rows.config), counter_columns(rows.counters))
                    )
