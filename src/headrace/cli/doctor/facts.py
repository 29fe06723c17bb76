"""Gathers the facts for the doctor: of the store, and of every queue with its shards and journal readers."""

from msgspec import Struct

from headrace.inspect.lookup import look_at_each
from headrace.model.clock import monotonic_ms
from headrace.model.event import Consumer
from headrace.model.integrity import CountMismatch, Findings, Problem
from headrace.model.limits import INSPECT_PARTS_MAX, LATE_MS
from headrace.model.names import DEFAULT_TENANT, Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, Health
from headrace.stores.catalog import all_queues, all_tenants
from headrace.stores.contract.store import Store

PINGS = 5


class Reader(Struct, frozen=True):
    """A consumer of one shard's journal, and its lag in events."""

    consumer: Consumer
    lag: int


class QueueFacts(Struct, frozen=True):
    """The facts of one queue."""

    queue: Queue
    config: QueueConfig
    counts: Counts
    seen_at_ms: int | None
    """When a worker last claimed from the queue."""
    shards: list[list[Findings]]
    """The checked parts of each shard; facts about the whole shard are the same in all of them."""
    readers: list[Reader]

    @property
    def is_whole(self) -> bool:
        """Whether every record was checked."""
        return all(parts[-1].cursor is None for parts in self.shards)

    @property
    def problems(self) -> list[Problem]:
        """The problems, each once: a scan may find one twice."""
        each_shard = (dict.fromkeys(each for part in parts for each in part.problems) for parts in self.shards)
        return [each for found in each_shard for each in found]

    @property
    def count_mismatches(self) -> list[CountMismatch]:
        """The wrong counters."""
        return [each for parts in self.shards for part in parts for each in part.count_mismatches]

    @property
    def name(self) -> str:
        """The name to show, with the tenant unless that is the default."""
        queue = self.queue
        return queue.full_name if queue.tenant == DEFAULT_TENANT else f"{queue.tenant}/{queue.full_name}"


class StoreFacts(Struct, frozen=True):
    """The facts of a store."""

    health: Health
    round_trip_ms: int
    now_ms: int
    """By the store's clock."""
    queues: list[QueueFacts]


async def gather(store: Store, *, full: bool) -> StoreFacts:
    """Gather the facts of a store; with `full`, look at every record."""
    times_ms: list[int] = []
    for _ in range(PINGS):
        before_ms = monotonic_ms()
        await store.queues.tenants(limit=1)
        times_ms.append(monotonic_ms() - before_ms)
    health = await store.health()
    now_ms = await store.now_ms()
    queues = await queues_of_all(store)
    looks = look_at_each(queues, lambda queue: _look_at(store, queue, now_ms, full=full))
    return StoreFacts(health, sorted(times_ms)[PINGS // 2], now_ms, [facts async for _, facts in looks])


async def queues_of_all(store: Store) -> list[Queue]:
    """The queues of all tenants, by tenant and name."""
    return [queue for tenant in await all_tenants(store) for queue in await all_queues(store, tenant)]


async def _look_at(store: Store, queue: Queue, now_ms: int, *, full: bool) -> QueueFacts:
    shards: list[list[Findings]] = []
    readers: list[Reader] = []
    for shard in queue.all_shards():
        parts = await _inspect(store, shard, now_ms, full=full)
        shards.append(parts)
        last_seq = parts[0].journal.last_seq
        consumers = await store.journal.consumers(shard)
        readers += [Reader(each, max(last_seq - each.seq, 0)) for each in consumers]
    seen = [each.seen_at_ms for each in await store.reads.workers(queue)]
    config, counts = await store.queues.configuration(queue), await store.queues.counts(queue)
    return QueueFacts(queue, config, counts, max(seen, default=None), shards, readers)


async def _inspect(store: Store, shard: Shard, now_ms: int, *, full: bool) -> list[Findings]:
    # A lease that expired a moment ago is fine: the next claim releases it.
    late_ms = max(now_ms - LATE_MS, 0)
    parts = [await store.integrity.check(shard, now_ms=late_ms)]
    while (cursor := parts[-1].cursor) is not None and (full or len(parts) < INSPECT_PARTS_MAX):
        parts.append(await store.integrity.check(shard, cursor=cursor, now_ms=late_ms))
    return parts
