"""One transaction over the shards and feeds of a store: their rows, written back before it commits."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from psycopg import errors as pg

from headrace.model.feed import FeedConfig, FeedName
from headrace.model.limits import INBOX_PER_ROUND_MAX, NUMBER_BITS
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import Counts, QueueOverview
from headrace.stores.engine.feed_rows import FeedCounters, FeedRows
from headrace.stores.engine.row_codec import counter_columns, due_since, write_config
from headrace.stores.postgres.counters import Sequences
from headrace.stores.postgres.feed_rows import PostgresFeed
from headrace.stores.postgres.rows import PostgresRows
from headrace.stores.postgres.sql import LazyTransaction
from headrace.stores.shared.validate import wrong_shards

StoredQueue = tuple[int, int, str]
"""A queue: its id, its number of shards, and its configuration as it is stored."""
CachedFeed = tuple[int, str, tuple[Any, ...]]
"""A feed as it was read last: its id, its configuration as it is stored, its counters."""
FEEDS_MAX = 1_024
"""As many feeds as a busy process writes to; beyond it, the cache is emptied."""


class FeedCache:
    """The feeds that this process has written to, shared by its threads: enough to guess the reads of the next step.
    Rows of a wrong guess are not used: they are read under the lock, by the id that the lock finds."""

    def __init__(self) -> None:
        self._cache: dict[FeedName, CachedFeed] = {}

    def get(self, feed: FeedName) -> CachedFeed | None:
        """The feed as last read."""
        return self._cache.get(feed)

    def keep(self, feed: FeedName, cached: CachedFeed) -> None:
        """Cache the feed."""
        if len(self._cache) >= FEEDS_MAX and feed not in self._cache:
            self._cache = {}
        self._cache[feed] = cached


class OpenFeeds:
    """A feed is read at its first use, and locked then if the transaction writes."""

    def __init__(self, transaction: LazyTransaction, cache: FeedCache) -> None:
        self._transaction = transaction
        self._cache = cache
        self.now_ms: int | None = None
        """The store's clock when a feed was locked."""
        self._feeds: dict[FeedName, PostgresFeed | None] = {}

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def find(self, feed: FeedName) -> PostgresFeed | None:
        """The rows of a feed."""
        if feed not in self._feeds:
            if self._transaction.writes:
                self._lock(feed)
            else:
                self.read([feed])
        return self._feeds[feed]

    def lock_and_prefetch(self, feed: FeedName, ids: Sequence[str]) -> None:
        """Lock a feed and send the reads of a step that names these ids, in one round trip; only lock it where the feed
        is not in the cache."""
        cached = self._cache.get(feed)
        if cached is None:
            self._lock(feed)
            return
        guess = PostgresFeed(self._transaction, feed, *cached)
        with self._transaction.pipeline():
            locked = self._transaction.run("feed_lock", feed.tenant, feed.name)
            reads = guess.send_reads(ids)
        self._add_locked(feed, locked.fetchall())
        rows = self._feeds[feed]
        if rows is not None and (rows.feed_id, rows.config.type) == (guess.feed_id, guess.config.type):
            rows.add_prefetched(reads)

    def _lock(self, feed: FeedName) -> None:
        self._add_locked(feed, self._transaction.run("feed_lock", feed.tenant, feed.name).fetchall())

    def _add_locked(self, feed: FeedName, found: list[tuple[Any, ...]]) -> None:
        if found and feed.directory in self._feeds and self._feeds[feed.directory] is None:
            raise pg.SerializationFailure("another transaction has created the tenant's first feed meanwhile")
        self._feeds[feed] = None
        for self.now_ms, feed_id, config, *counters in found:
            self._feeds[feed] = PostgresFeed(self._transaction, feed, feed_id, config, tuple(counters))
            self._cache.keep(feed, (feed_id, config, tuple(counters)))

    def read(self, feeds: Sequence[FeedName]) -> None:
        """Read feeds in one statement."""
        found = self._transaction.run("feed_find", [each.tenant for each in feeds], [each.name for each in feeds])
        self._feeds |= dict.fromkeys(feeds)
        for tenant, name, feed_id, config, *counters in found.fetchall():
            feed = FeedName(name, tenant)
            self._feeds[feed] = PostgresFeed(self._transaction, feed, feed_id, config, tuple(counters))

    def make(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> PostgresFeed:
        """Create a feed that does not exist yet."""
        text, columns = write_config(config), counter_columns(counters)
        [(feed_id,)] = self._transaction.run("feed_create", feed.tenant, feed.name, text, *columns).fetchall()
        rows = self._feeds[feed] = PostgresFeed(self._transaction, feed, feed_id, text, columns)
        return rows

    def forget(self, rows: FeedRows) -> None:
        """Drop a feed, with the step's unwritten changes."""
        assert isinstance(rows, PostgresFeed)
        self._feeds[rows.feed] = None
        self._transaction.run("feed_forget", rows.feed_id)

    def erase(self, limit: int) -> int:
        """Erase items and changes of dropped feeds."""
        erased = 0
        while erased < limit and (found := self._transaction.run("feed_gone_find").fetchone()) is not None:
            [feed_id] = found
            for statement in ("feed_item_erase", "feed_change_erase"):
                if erased < limit:
                    erased += self._transaction.run(statement, feed_id, limit - erased).rowcount
            if erased < limit:
                self._transaction.run("feed_gone_drop", feed_id)
        return erased

    def write_back(self) -> None:
        """Write the changes of every feed, in one round trip inside `pipeline`."""
        for rows in self._feeds.values():
            if rows is not None:
                rows.write_back()
                if self._transaction.writes:
                    self._cache.keep(
                        rows.feed, (rows.feed_id, write_config(rows.config), counter_columns(rows.counters))
                    )


class PostgresTx:
    """Queues and shards are read at their first use, with the store's clock in the same round trip."""

    def __init__(self, transaction: LazyTransaction, feed_cache: FeedCache | None = None) -> None:
        self.transaction = transaction
        self._sequences = Sequences(self.transaction)
        self._now_ms: int | None = None
        self._queues: dict[tuple[str, str], StoredQueue | None] = {}
        self.awaited_queues: set[tuple[str, str]] = set()
        """Queues for the end of whose jobs a process waits."""
        self._rows: dict[tuple[int, int], PostgresRows] = {}
        self.feeds = OpenFeeds(transaction, FeedCache() if feed_cache is None else feed_cache)

    def inbox_sizes(self) -> dict[Shard, int]:
        """The number of calls in the inbox of each shard, as far as this transaction knows."""
        return {rows.shard: rows.unnumbered_calls + 1 for rows in self._rows.values()}

    def now_ms(self) -> int:
        if self._now_ms is None:
            self._now_ms = self.feeds.now_ms
        if self._now_ms is None:
            self._now_ms = int(self.transaction.run("now").fetchall()[0][0])
        return self._now_ms

    def read_queue(self, queue: Queue, indexes: list[int]) -> None:
        """Read a queue and some of its shards, unless they are known."""
        name = (queue.tenant, queue.full_name)
        known = self._queues.get(name)
        if known is not None:
            indexes = [index for index in indexes if (known[0], index) not in self._rows]
        if name in self._queues and (known is None or not indexes):
            return
        names = [queue.full_name, queue.paired_queue.full_name]
        found = self.transaction.run("queue_open", queue.full_name, indexes, queue.tenant, names).fetchall()
        self._queues |= {(queue.tenant, each): None for each in names}
        for now_ms, full_name, queue_id, shards, config, is_awaited, index, *stored in found:
            self._now_ms = now_ms if self._now_ms is None else self._now_ms
            if full_name is not None:
                self._queues[queue.tenant, full_name] = (queue_id, shards, config)
                if is_awaited:
                    self.awaited_queues.add((queue.tenant, full_name))
            if index is not None and shards == queue.shards:
                self._add_rows(Shard(queue, index), queue_id, tuple(stored), config)

    def _add_rows(self, shard: Shard, queue_id: int, stored: tuple[int, ...], config: str) -> None:
        self._rows[queue_id, shard.index] = PostgresRows(
            self.transaction, shard, stored, _config(config), self._sequences, lambda: self._fail_queue(shard)
        )

    def rows(self, shard: Shard, create: bool = False) -> PostgresRows | None:
        queue = shard.queue
        self.read_queue(queue, [shard.index])
        shards = self.shards_of(queue)
        if shards not in (None, queue.shards):
            raise wrong_shards(queue, shards)
        known = self._queues[queue.tenant, queue.full_name]
        if known is None:
            if not create:
                return None
            known = self._create(queue)
        return self._rows[known[0], shard.index]

    def _fail_queue(self, shard: Shard) -> PostgresRows:
        rows = self.rows(Shard(shard.queue.fail_queue, shard.index), create=True)
        assert rows is not None  # created when missing
        return rows

    def _create(self, queue: Queue) -> StoredQueue:
        config = msgspec.json.encode(first_config(queue)).decode()
        columns = (queue.tenant, queue.full_name, queue.shards, config)
        [(queue_id,)] = self.transaction.run("queue_create", *columns).fetchall()
        for index, *stored in self.transaction.run("shard_create", queue_id, queue.shards).fetchall():
            self._add_rows(Shard(queue, index), queue_id, tuple(stored), config)
        known = (int(queue_id), queue.shards, config)
        self._queues[queue.tenant, queue.full_name] = known
        return known

    def shards_of(self, queue: Queue) -> int | None:
        names = [(queue.tenant, queue.full_name), (queue.tenant, queue.paired_queue.full_name)]
        if any(name not in self._queues for name in names):
            self.read_queue(queue, [])
        known = self._queues[names[0]] or self._queues[names[1]]
        return None if known is None else known[1]

    def configure(self, queue: Queue, config: QueueConfig) -> None:
        known = self._queues[queue.tenant, queue.full_name]
        if known is not None:
            text = msgspec.json.encode(config).decode()
            if self.transaction.run("queue_configure", text, known[0], known[2]).rowcount != 1:
                raise pg.SerializationFailure("another transaction has configured the queue meanwhile")

    def names(self, tenant: str, after: str, limit: int) -> list[Queue]:
        found = self.transaction.run("queue_names", tenant, after, limit).fetchall()
        return [Queue.parse(name, tenant, shards) for name, shards in found]

    def overviews(
        self, tenant: str, names: Sequence[str] | None, after: str, limit: int, now_ms: int | None
    ) -> list[QueueOverview]:
        wanted = None if names is None else list(names)
        arguments = (tenant, wanted, after, now_ms, limit, NUMBER_BITS, NUMBER_BITS)
        return [
            _overview_of(tenant, *columns) for columns in self.transaction.run("queue_overview", *arguments).fetchall()
        ]

    def tenants(self, after: str, limit: int) -> list[str]:
        return [tenant for (tenant,) in self.transaction.run("queue_tenants", after, limit).fetchall()]

    def forget(self, queue: Queue) -> None:
        known = self._queues.get((queue.tenant, queue.full_name))
        if known is None:
            return
        deleted_rows = [rows for (queue_id, _), rows in self._rows.items() if queue_id == known[0]]
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] != known[0]}
        with self.transaction.pipeline():
            for rows in deleted_rows:
                rows.write_back()
            # A transaction that has read the queue may still write to it: wait for all of those, and let no other
            # read the queue before it is deleted.
            self.transaction.run("set_lock_timeout")
            self.transaction.run("queue_lock")
            ids = [rows.shard_id for rows in deleted_rows]
            left = self.transaction.run("queue_has_rows", ids, ids)
        if left.fetchall():
            raise pg.SerializationFailure("another transaction has used the queue meanwhile")
        with self.transaction.pipeline():
            self.transaction.run("shard_forget", known[0])
            self.transaction.run("queue_forget", known[0])

    def feed(self, feed: FeedName) -> PostgresFeed | None:
        return self.feeds.find(feed)

    def make_feed(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> PostgresFeed:
        return self.feeds.make(feed, config, counters)

    def forget_feed(self, rows: FeedRows) -> None:
        self.feeds.forget(rows)

    def erase_feeds(self, limit: int) -> int:
        return self.feeds.erase(limit)

    def lock(self, groups: list[tuple[Shard, list[str]]], new_numbers: int = 0) -> None:
        """Lock and read the rows of all ids of a call, in the order of shard and id, and draw numbers for new ones."""
        by_queue: dict[Queue, list[int]] = {}
        for shard, _ in groups:
            by_queue.setdefault(shard.queue, []).append(shard.index)
        for queue, indexes in by_queue.items():
            self.read_queue(queue, indexes)
        unread: dict[int, tuple[PostgresRows, list[str]]] = {}
        for shard, ids in groups:
            known = self._queues[shard.queue.tenant, shard.queue.full_name]
            rows = None if known is None else self._rows.get((known[0], shard.index))
            if rows is not None:
                unread[rows.shard_id] = (rows, rows.missing(ids))
        pairs = sorted((shard_id, id) for shard_id, (_, ids) in unread.items() for id in ids)
        with self.transaction.pipeline():
            found = self.transaction.run("job_lock", [shard_id for shard_id, _ in pairs], [id for _, id in pairs])
            drawn = self.transaction.run("next_numbers", "next_number", new_numbers)
        self._sequences.number.add([number for (number,) in drawn.fetchall()])
        by_shard = {shard_id: list(each) for shard_id, each in groupby(found.fetchall(), itemgetter(0))}
        for shard_id, (rows, ids) in unread.items():
            rows.add_found(ids, by_shard.get(shard_id, []))

    def read_for_claim(self, queues: list[Queue], worker: str) -> None:
        """Read the next times and the worker of every shard of a claim's queues."""
        for queue in queues:
            self.read_queue(queue, list(range(queue.shards)))
        shards = {rows.shard_id: rows for rows in self._rows.values()}
        with self.transaction.pipeline():
            for rows in shards.values():
                rows.flush()
            next_times = self.transaction.run("job_next_times", list(shards))
            workers = self.transaction.run(
                "worker_lock" if self.transaction.writes else "worker_find", list(shards), worker
            )
        known = {columns[0]: columns for columns in workers.fetchall()}
        for columns in next_times.fetchall():
            shards[columns[0]].set_next_due(columns)
            shards[columns[0]].add_worker(worker, known.get(columns[0]))

    def number_unlocked(self, shards: Mapping[int, Shard]) -> list[PostgresRows]:
        """Number the inboxes of shards, by their ids, in a few round trips; returns the rows of those that no other
        transaction was numbering."""
        known = set(self._rows)
        for shard_id, queue_id, config, *stored in self.transaction.run("shard_try_lock_many", list(shards)).fetchall():
            self._add_rows(shards[shard_id], queue_id, (shard_id, 0, *stored), config)
            self._rows[queue_id, shards[shard_id].index].use_locked_row(tuple(stored))
        free = [rows for key, rows in self._rows.items() if key not in known]
        left = {rows.shard_id: rows for rows in free}
        while left:
            left = self._number_round(left)
        for rows in free:
            rows.end_numbering()
        return free

    def _number_round(self, shards: dict[int, PostgresRows]) -> dict[int, PostgresRows]:
        """Number the first calls of each inbox; returns the shards that may have more of them."""
        limit = max(INBOX_PER_ROUND_MAX // len(shards), 1)
        found = self.transaction.run("inbox_read_many", list(shards), limit).fetchall()
        calls = {shard_id: [call for _, *call in each] for shard_id, each in groupby(found, itemgetter(0))}
        for shard_id, each in calls.items():
            shards[shard_id].fold(each)
        with self.transaction.pipeline():
            for shard_id in calls:
                shards[shard_id].flush_entries()
        return {shard_id: shards[shard_id] for shard_id, each in calls.items() if len(each) == limit}

    def write_back(self) -> None:
        """Write the changes of every shard; the inbox last, when this call holds all its locks."""
        shards = list(self._rows.values())
        if not shards:
            return
        inbox = [columns for rows in shards for columns in rows.take_inbox_columns()]
        with self.transaction.pipeline():
            for rows in shards:
                rows.write_back()
            if inbox:
                self.transaction.run("inbox_write", *map(list, zip(*inbox, strict=True)))


def _overview_of(tenant: str, name: str, shards: int, config: str, *columns: Any) -> QueueOverview:
    _, ready, later, blocked, active, done, cancelled, dead, events, run_at_ms, bodies = columns
    oldest_due_ms = min(map(due_since, run_at_ms or (), bodies or ()), default=None)
    counts = Counts(ready + later, later, blocked, active, done, cancelled, dead, oldest_due_ms)
    stored = _config(config)
    return QueueOverview(Queue.parse(name, tenant, shards), stored.version, stored.paused, counts, events)


@lru_cache(maxsize=1_024)  # as many queues as a busy store has, at one version each
def _config(text: str) -> QueueConfig:
    return msgspec.json.decode(text, type=QueueConfig)
