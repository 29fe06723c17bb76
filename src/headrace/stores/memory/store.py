"""Keeps jobs and feeds in the memory of this process, for tests, simulations and comparisons."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from headrace.model.clock import Clock, SystemClock
from headrace.model.errors import StoreUnavailable
from headrace.model.feed import FeedConfig, FeedCursor, FeedName
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import Health, QueueOverview
from headrace.stores.engine.dead_letters import EngineDeadLetters
from headrace.stores.engine.feed_rows import FeedCounters, FeedRows
from headrace.stores.engine.feeds import EngineFeeds
from headrace.stores.engine.integrity import EngineIntegrity
from headrace.stores.engine.items import EngineItems
from headrace.stores.engine.jobs import EngineJobs
from headrace.stores.engine.journal import EngineJournal
from headrace.stores.engine.queues import EngineQueues, overviews_of
from headrace.stores.engine.reads import EngineReads
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.signals import has_changed, has_ended, has_work
from headrace.stores.memory.feed_rows import MemoryFeed
from headrace.stores.memory.rows import MemoryRows
from headrace.stores.shared.validate import wrong_shards
from headrace.stores.shared.waiters import (
    JobName,
    Name,
    Waiters,
    check_changed,
    check_ended,
    check_wait,
    is_set_within,
    name_of,
    names_of,
)

T = TypeVar("T")
PROMISE = "nothing survives the end of the process"
NOTE = "every job is gone with this process; use sqlite:///headrace.db to keep them"


class MemoryTx:
    """The rows of all shards and feeds. A step never awaits, so it is atomic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[tuple[str, str], list[MemoryRows]] = {}
        self._feeds: dict[FeedName, MemoryFeed] = {}

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def rows(self, shard: Shard, create: bool = False) -> MemoryRows | None:
        queue = shard.queue
        name = (queue.tenant, queue.full_name)
        shards = self.shards_of(queue)
        if shards not in (None, queue.shards):
            raise wrong_shards(queue, shards)
        if name not in self._queues:
            if not create:
                return None
            config = first_config(queue)
            self._queues[name] = [self._new_rows(each, config) for each in queue.all_shards()]
        return self._queues[name][shard.index]

    def _new_rows(self, shard: Shard, config: QueueConfig) -> MemoryRows:
        def fail_queue() -> MemoryRows:
            rows = self.rows(Shard(shard.queue.fail_queue, shard.index), create=True)
            assert rows is not None  # create=True
            return rows

        return MemoryRows(shard, config, fail_queue)

    def shards_of(self, queue: Queue) -> int | None:
        known = self._queues.get((queue.tenant, queue.full_name))
        if known is None:
            known = self._queues.get((queue.tenant, queue.paired_queue.full_name))
        return None if known is None else len(known)

    def configure(self, queue: Queue, config: QueueConfig) -> None:
        for rows in self._queues[queue.tenant, queue.full_name]:
            rows.config = config

    def names(self, tenant: str, after: str, limit: int) -> list[Queue]:
        found = sorted(name for each, name in self._queues if each == tenant and name > after)
        return [Queue.parse(name, tenant, len(self._queues[tenant, name])) for name in found[:limit]]

    def overviews(
        self, tenant: str, names: Sequence[str] | None, after: str, limit: int, now_ms: int | None
    ) -> list[QueueOverview]:
        return overviews_of(self, tenant, names, after, limit, now_ms)

    def tenants(self, after: str, limit: int) -> list[str]:
        return sorted({tenant for tenant, _ in self._queues if tenant > after})[:limit]

    def forget(self, queue: Queue) -> None:
        self._queues.pop((queue.tenant, queue.full_name), None)

    def feed(self, feed: FeedName) -> MemoryFeed | None:
        return self._feeds.get(feed)

    def make_feed(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> MemoryFeed:
        rows = self._feeds[feed] = MemoryFeed(feed, config, counters)
        return rows

    def forget_feed(self, rows: FeedRows) -> None:
        del self._feeds[rows.feed]

    def erase_feeds(self, limit: int) -> int:  # noqa: ARG002 - they are dropped whole
        return 0


class MemoryEngine:
    """Runs each step at once and wakes waiters through events."""

    def __init__(self, clock: Clock) -> None:
        self.tx = MemoryTx(clock)
        self.closed = False
        self._waiters = Waiters[Name]()
        self._ends = Waiters[JobName]()
        self._followers = Waiters[FeedName]()

    async def read(self, query: Callable[[Tx], T]) -> T:
        if self.closed:
            raise StoreUnavailable("the memory store was closed; open a new one")
        return query(self.tx)

    async def write(self, act: Callable[[Tx], T]) -> T:
        return await self.read(act)

    def wake(self, queues: Iterable[Queue]) -> None:
        self._waiters.wake(map(name_of, queues))

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        """Return True when there may be work, False after the timeout."""
        with self._waiters.watching(check_wait(queues, timeout_ms)) as event:
            if await self.read(lambda tx: has_work(tx, queues)):
                return True
            return await is_set_within(event, timeout_ms / 1000)

    def notify_ended(self, queue: Queue, ids: list[str]) -> None:
        if len(self._ends):
            self._ends.wake(names_of(queue, ids))

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        """Return True when one of the jobs may have ended, False after the timeout."""
        check_ended(queue, ids, timeout_ms)
        with self._ends.watching(names_of(queue, ids)) as event:
            if await self.read(lambda tx: has_ended(tx, queue, ids)):
                return True
            return await is_set_within(event, timeout_ms / 1000)

    def notify_changed(self, feed: FeedName) -> None:
        self._followers.wake([feed])

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        """Return True when a feed may have changed, False after the timeout."""
        with self._followers.watching([check_changed(feed, after, timeout_ms)]) as event:
            if await self.read(lambda tx: has_changed(tx, feed, after)):
                return True
            return await is_set_within(event, timeout_ms / 1000)


class MemoryStore:
    """A store that ends with its process."""

    is_remote = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._engine = MemoryEngine(clock or SystemClock())
        self.jobs = EngineJobs(self._engine)
        self.dead = EngineDeadLetters(self._engine)
        self.queues = EngineQueues(self._engine)
        self.reads = EngineReads(self._engine)
        self.journal = EngineJournal(self._engine)
        self.feeds = EngineFeeds(self._engine)
        self.items = EngineItems(self._engine)
        self.signals = self._engine
        self.integrity = EngineIntegrity(self._engine)

    async def now_ms(self) -> int:
        return await self._engine.read(lambda tx: tx.now_ms())

    async def health(self) -> Health:
        epoch = await self._engine.read(lambda _: 1)
        return Health("memory", "volatile", PROMISE, "1", 0, epoch, "this process", None, (NOTE,))

    async def close(self) -> None:
        self._engine.closed = True
