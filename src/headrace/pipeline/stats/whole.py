"""Which windows the journals of queues still hold whole."""

from collections.abc import Iterable

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.event import Bounds
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.stores.catalog import all_queues
from headrace.stores.contract.store import Store

QueueKey = tuple[str, str]
"""Tenant and name, fail queues with their `.fail`."""


class WholeWindows(Struct, frozen=True):
    """What the journals of some queues held when they were looked at."""

    bounds: dict[str, Bounds]
    """By shard."""
    since_ms: dict[QueueKey, int]
    """What happened in a queue after this instant is there; -1 when nothing was ever dropped."""

    def is_whole(self, queue: QueueKey, start_ms: int) -> bool:
        """Whether a window is there whole; not of a queue that is gone. Of one instant, some may be dropped."""
        since_ms = self.since_ms.get(queue)
        return since_ms is not None and since_ms < start_ms

    def holds(self, shard: str, epoch: int, seq: int) -> bool:
        """Whether an event was there already."""
        return seq <= self.last_seq(shard, epoch)

    def last_seq(self, shard: str, epoch: int) -> int:
        """The last event of an epoch that was there; 0 when it was another epoch."""
        bounds = self.bounds.get(shard)
        return bounds.last_seq if bounds is not None and bounds.epoch == epoch else 0


class Looking:
    """Looks at the journals of queues by their names, and remembers into how many shards they are cut."""

    def __init__(self) -> None:
        self._known: dict[QueueKey, Queue] = {}

    async def look(self, store: Store, shards: Iterable[tuple[str, str, int]]) -> WholeWindows:
        """At the journals of all queues that these shards belong to."""
        wanted = {(tenant, queue): 0 for tenant, queue, _ in shards}
        for tenant, queue, index in shards:
            wanted[tenant, queue] = max(wanted[tenant, queue], index)
        await self._find(store, {name[0] for name, index in wanted.items() if not self._knows(name, index)})
        try:
            return await self._look(store, wanted)
        except Refused:
            # A queue was made anew with another number of shards since it was found.
            await self._find(store, {tenant for tenant, _ in wanted})
            return await self._look(store, wanted)

    async def _find(self, store: Store, tenants: Iterable[str]) -> None:
        for tenant in sorted(tenants):
            self._known = {name: queue for name, queue in self._known.items() if name[0] != tenant}
            self._known |= {(tenant, queue.full_name): queue for queue in await all_queues(store, tenant)}

    async def _look(self, store: Store, wanted: Iterable[QueueKey]) -> WholeWindows:
        queues = {name: self._known[name] for name in wanted if name in self._known}
        every = [shard for queue in queues.values() for shard in queue.all_shards()]
        found: dict[Shard, Bounds] = {}
        for begin in range(0, len(every), BATCH_MAX):
            some = every[begin : begin + BATCH_MAX]
            found.update(zip(some, await store.journal.all_bounds(some), strict=True))
        since_ms = {
            name: max([await _since(store, each, found[each]) for each in queue.all_shards()])
            for name, queue in queues.items()
        }
        return WholeWindows({str(shard): bounds for shard, bounds in found.items()}, since_ms)

    def _knows(self, name: QueueKey, index: int) -> bool:
        return name in self._known and index < self._known[name].shards


async def _since(store: Store, shard: Shard, bounds: Bounds) -> int:
    """The latest instant at which something can have happened that a journal has dropped; -1 when it has dropped
    nothing."""
    if bounds.first_seq <= 1:
        return -1
    if bounds.first_at_ms is not None:
        return bounds.first_at_ms
    # Nothing is left, which only age can do.
    keep_ms = (await store.queues.configuration(shard.queue)).journal_keep_ms
    return await store.now_ms() - keep_ms
