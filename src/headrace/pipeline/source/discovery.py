"""Finds the queues and feeds that options name, and the queues that rows name."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedName
from headrace.model.limits import LOOKS_AT_ONCE
from headrace.model.names import Queue
from headrace.model.results import FeedState
from headrace.pipeline.source.options import ALL, SourceOptions, WriteOptions
from headrace.stores.catalog import all_feeds, all_queues, all_tenants, find_queue
from headrace.stores.contract.store import Store

QueueRef = tuple[str | None, str | None]
"""Tenant and queue of a row."""


async def find_queues(store: Store, options: SourceOptions) -> list[Queue]:
    """The queues to read, by tenant and name; refuses a name that none of the tenants has."""
    tenants = await all_tenants(store) if options.tenant == ALL else [options.tenant]
    if not options.names:
        queues = [queue for tenant in tenants for queue in await all_queues(store, tenant)]
        return [queue for queue in queues if options.selects(queue.full_name)]
    names = sorted(set(options.names))
    answers = [await find_queue(store, tenant, name) for tenant in tenants for name in names]
    found = [queue for queue in answers if queue is not None]
    if missing := set(names) - {queue.full_name for queue in found}:
        known = {queue.full_name for tenant in tenants for queue in await all_queues(store, tenant)}
        _check_missing("queue", known - missing, options)
    return found


async def find_feeds(store: Store, options: SourceOptions) -> list[FeedName]:
    """The feeds to read, by tenant and name; refuses an unknown name."""
    if options.tenant == ALL:
        raise BadConfig("feeds are read for one tenant at a time; name it with option tenant")
    known = await all_feeds(store, options.tenant)
    if not options.names:
        return known
    _check_missing("feed", {feed.name for feed in known}, options)
    return [feed for feed in known if feed.name in options.names]


def _check_missing(thing: str, known: Iterable[str], options: SourceOptions) -> None:
    names = sorted(set(known))
    missing = [name for name in options.names if name not in names]
    if missing:
        owner = "any tenant" if options.tenant == ALL else f"tenant {options.tenant!r}"
        raise BadConfig(f"there is no {thing} {', '.join(map(repr, missing))} of {owner}; {_hint(thing, names)}")


def _hint(thing: str, names: list[str]) -> str:
    if not names:
        return f"there are no {thing}s yet; check option tenant and the URL"
    return f"known {thing}s: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"


async def feed_states(store: Store, feeds: Sequence[FeedName]) -> list[FeedState | None]:
    """The state of each feed in order; None for a feed that does not exist."""
    found: list[FeedState | None] = []
    for first in range(0, len(feeds), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(store.feeds.describe, feeds[first : first + LOOKS_AT_ONCE]))
    return found


def queue_refs(
    options: WriteOptions, count: int, tenants: list[Any] | None, queues: list[Any] | None
) -> Iterable[QueueRef]:
    """The queue of each row, from its columns, else from the options."""
    return zip(
        repeat(options.tenant, count) if tenants is None else (tenant or options.tenant for tenant in tenants),
        repeat(options.name, count) if queues is None else (queue or options.name for queue in queues),
        strict=True,
    )


class TargetQueues:
    """Looks queues up, once for each tenant."""

    def __init__(self, shards: int | None) -> None:
        self._shards = shards
        """Shards of new queues; None refuses unknown queues."""
        self._tenants: set[str] = set()
        self._known: dict[QueueRef, Queue | Refused] = {}

    async def learn(self, store: Store, refs: Iterable[QueueRef]) -> None:
        """Look up the queues that were not looked up yet."""
        for ref in set(refs) - self._known.keys():
            tenant, name = ref
            if tenant is not None and tenant not in self._tenants:
                for queue in await _queues_of(store, tenant):
                    self._known[tenant, queue.full_name] = queue
                self._tenants.add(tenant)
            if ref not in self._known:
                self._known[ref] = self._new(tenant, name)

    def get(self, ref: QueueRef) -> Queue:
        """The queue that was looked up; raises its refusal."""
        found = self._known[ref]
        if isinstance(found, Refused):
            raise found.with_traceback(None)  # raised for every row, the traceback would grow each time
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
    except Refused:  # an invalid tenant has no queues; the row is refused because of its queue
        return []
