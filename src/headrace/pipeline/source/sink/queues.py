"""Finds the queues that rows name, each with its number of shards if it exists."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from headrace.model.errors import Refused
from headrace.model.names import Queue
from headrace.pipeline.source.options import WriteOptions
from headrace.stores.catalog import all_queues
from headrace.stores.contract.store import Store

QueueRef = tuple[str | None, str | None]
"""A tenant and a queue as a row says them."""


def queue_refs(
    options: WriteOptions, count: int, tenants: list[Any] | None, queues: list[Any] | None
) -> Iterable[QueueRef]:
    """Where the rows go, each by its own columns, else by the options."""
    return zip(
        repeat(options.tenant, count) if tenants is None else (tenant or options.tenant for tenant in tenants),
        repeat(options.name, count) if queues is None else (queue or options.name for queue in queues),
        strict=True,
    )


class TargetQueues:
    """What is known of queues, asked once for each tenant."""

    def __init__(self, shards: int | None) -> None:
        self._shards = shards
        """Of queues that are not there; None refuses those."""
        self._tenants: set[str] = set()
        self._known: dict[QueueRef, Queue | Refused] = {}

    async def learn(self, store: Store, refs: Iterable[QueueRef]) -> None:
        """Look up queues that are not known yet."""
        for ref in set(refs) - self._known.keys():
            tenant, name = ref
            if tenant is not None and tenant not in self._tenants:
                for queue in await _queues_of(store, tenant):
                    self._known[tenant, queue.full_name] = queue
                self._tenants.add(tenant)
            if ref not in self._known:
                self._known[ref] = self._new(tenant, name)

    def get(self, ref: QueueRef) -> Queue:
        """The queue of a place that was learnt; raises its refusal."""
        found = self._known[ref]
        if isinstance(found, Refused):
            raise found.with_traceback(None)  # it is raised for every row, and would keep where each time
        return found

    def _new(self, tenant: str | None, name: str | None) -> Queue | Refused:
        if name is None:
            return Refused("bad_queue", "the row names no queue; fill column 'queue', or give option queue")
        try:
            queue = Queue.parse(name, tenant or "", self._shards or 1)
        except Refused as refused:
            return refused
        if self._shards is None:
            return Refused("unknown_queue", f"there is no queue {name!r} of tenant {tenant!r}; check column 'queue'")
        return queue


async def _queues_of(store: Store, tenant: str) -> list[Queue]:
    try:
        return await all_queues(store, tenant)
    except Refused:  # what is no tenant has no queues; the row is refused with the words of its queue
        return []
