"""Opens the rows of shards and feeds in one transaction of a SQLite file, and writes them back before it commits."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headrace.model.clock import Clock
from headrace.model.feed import FeedConfig, FeedName
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import QueueOverview
from headrace.stores.engine.feed_rows import FeedCounters, FeedRows
from headrace.stores.engine.queues import overviews_of
from headrace.stores.engine.row_codec import counter_columns, read_config, write_config
from headrace.stores.shared.validate import wrong_shards
from headrace.stores.sqlite.feed_rows import SqliteFeed
from headrace.stores.sqlite.job_rows import SqliteRows
from headrace.stores.sqlite.sql import sql


class SqliteTx:
    """Each shard and feed of the transaction has one rows object, which collects its changes."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, fast: bool = False) -> None:
        self._connection = connection
        self._clock = clock
        self._fast = fast
        self._queues: dict[tuple[str, str], tuple[int, int, QueueConfig] | None] = {}
        self._rows: dict[tuple[int, int], SqliteRows] = {}
        self._feeds: dict[FeedName, SqliteFeed | None] = {}

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _queue(self, queue: Queue) -> tuple[int, int, QueueConfig] | None:
        name = (queue.tenant, queue.full_name)
        if name not in self._queues:
            found = self._connection.execute(sql("queue_find"), name).fetchone()
            self._queues[name] = None if found is None else (found[0], found[1], _config(found[2]))
        return self._queues[name]

    def rows(self, shard: Shard, create: bool = False) -> SqliteRows | None:
        queue = shard.queue
        known = self._queue(queue)
        shards = self.shards_of(queue)
        if shards not in (None, queue.shards):
            raise wrong_shards(queue, shards)
        if known is None:
            if not create:
                return None
            known = self._create(queue)
        queue_id, _, config = known
        key = (queue_id, shard.index)
        if key not in self._rows:
            shard_id, *stored = self._connection.execute(sql("shard_read"), key).fetchone()
            self._rows[key] = SqliteRows(
                self._connection, shard, shard_id, tuple(stored), config, lambda: self._fail_queue(shard), self._fast
            )
        return self._rows[key]

    def _fail_queue(self, shard: Shard) -> SqliteRows:
        rows = self.rows(Shard(shard.queue.fail_queue, shard.index), create=True)
        assert rows is not None  # create=True
        return rows

    def _create(self, queue: Queue) -> tuple[int, int, QueueConfig]:
        config = first_config(queue)
        columns = (queue.tenant, queue.full_name, queue.shards, msgspec.json.encode(config).decode())
        queue_id = self._connection.execute(sql("queue_create"), columns).lastrowid or 0
        self._connection.executemany(sql("shard_create"), [(queue_id, index) for index in range(queue.shards)])
        known = (queue_id, queue.shards, config)
        self._queues[queue.tenant, queue.full_name] = known
        return known

    def shards_of(self, queue: Queue) -> int | None:
        known = self._queue(queue) or self._queue(queue.paired_queue)
        return None if known is None else known[1]

    def configure(self, queue: Queue, config: QueueConfig) -> None:
        known = self._queue(queue)
        if known is not None:
            self._connection.execute(sql("queue_configure"), (msgspec.json.encode(config).decode(), known[0]))

    def names(self, tenant: str, after: str, limit: int) -> list[Queue]:
        found = self._connection.execute(sql("queue_names"), (tenant, after, limit))
        return [Queue.parse(name, tenant, shards) for name, shards in found]

    def overviews(
        self, tenant: str, names: Sequence[str] | None, after: str, limit: int, now_ms: int | None
    ) -> list[QueueOverview]:
        return overviews_of(self, tenant, names, after, limit, now_ms)

    def tenants(self, after: str, limit: int) -> list[str]:
        return [tenant for (tenant,) in self._connection.execute(sql("queue_tenants"), (after, limit))]

    def forget(self, queue: Queue) -> None:
        known = self._queue(queue)
        if known is not None:
            self._rows = {key: rows for key, rows in self._rows.items() if key[0] != known[0]}
            self._connection.execute(sql("shard_forget"), (known[0],))
            self._connection.execute(sql("queue_forget"), (known[0],))

    def feed(self, feed: FeedName) -> SqliteFeed | None:
        if feed not in self._feeds:
            found = self._connection.execute(sql("feed_find"), (feed.tenant, feed.name)).fetchone()
            self._feeds[feed] = None if found is None else self._feed(feed, *found)
        return self._feeds[feed]

    def _feed(self, feed: FeedName, feed_id: int, config: str, *counters: Any) -> SqliteFeed:
        return SqliteFeed(self._connection, feed, feed_id, read_config(config), FeedCounters(*counters))

    def make_feed(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> SqliteFeed:
        columns = (feed.tenant, feed.name, write_config(config), *counter_columns(counters))
        feed_id = self._connection.execute(sql("feed_create"), columns).lastrowid or 0
        rows = self._feeds[feed] = SqliteFeed(self._connection, feed, feed_id, config, counters)
        return rows

    def forget_feed(self, rows: FeedRows) -> None:
        known = self.feed(rows.feed)
        if known is not None:
            self._feeds[rows.feed] = None
            self._connection.execute(sql("feed_forget"), (known.feed_id,))
            self._connection.execute(sql("feed_gone_add"), (known.feed_id,))

    def erase_feeds(self, limit: int) -> int:
        erased, feed_id = 0, 0
        while erased < limit:
            found = self._connection.execute(sql("feed_gone_next"), (feed_id,)).fetchone()
            if found is None:
                break
            [feed_id] = found
            for name in ("feed_item_erase", "feed_change_erase"):
                erased += self._connection.execute(sql(name), (feed_id, limit - erased)).rowcount
            if erased < limit:
                self._connection.execute(sql("feed_gone_drop"), (feed_id,))
        return erased

    def write_back(self) -> None:
        """Write the changes of all shards and feeds."""
        for rows in self._rows.values():
            rows.write_back()
        for feed in self._feeds.values():
            if feed is not None:
                feed.write_back()


@lru_cache(maxsize=1_024)  # the queues of a busy file, at one version of their configuration each
def _config(text: str) -> QueueConfig:
    return msgspec.json.decode(text, type=QueueConfig)
