"""Looks that several commands take: which queues there are, and where a job is."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.model.errors import Refused
from headrace.model.limits import LOOKS_AT_ONCE, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.results import Found
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.catalog import all_queues, find_queue
from headrace.stores.contract.store import Store

A = TypeVar("A")
T = TypeVar("T")


async def queues_of(store: Store, tenant: str, name: str | None = None) -> list[Queue]:
    """All queues of a tenant with their shards, fail queues included and in order of name; or the one that is named.

    Raises `Refused` for a name that no queue has, with the nearest names: asking after a queue never makes it.
    """
    if name is None:
        return await all_queues(store, tenant)
    found = await find_queue(store, tenant, name)
    if found is None:
        raise await _unknown(store, name, tenant)
    return [found]


async def queue_of(store: Store, tenant: str, name: str) -> Queue:
    """The queue of that name; raises `Refused` when there is none."""
    [queue] = await queues_of(store, tenant, name)
    return queue


async def look_at_each(items: Sequence[A], look: Callable[[A], Awaitable[T]]) -> AsyncIterator[tuple[A, T]]:
    """Each item with what its look found, in their order; several looks at once, none begun long before it is read."""
    for first in range(0, len(items), LOOKS_AT_ONCE):
        some = items[first : first + LOOKS_AT_ONCE]
        for pair in zip(some, await asyncio.gather(*map(look, some)), strict=True):
            yield pair


async def locate(store: Store, queues: Sequence[Queue], id: str) -> tuple[Queue, Found] | None:
    """A job by its id, in the first of the queues that knows it."""
    async for queue, [found] in look_at_each(queues, lambda queue: store.reads.find(queue, [id])):
        if found is not None:
            return queue, found
    return None


async def _unknown(store: Store, name: str, tenant: str) -> Refused:
    # The first names, and those that begin alike: a hint is worth two pages, not all.
    begin = name[:1] if re.match("[A-Za-z0-9]", name) else None
    pages = [await store.queues.names(tenant, cursor=cursor, limit=PAGE_MAX) for cursor in (None, begin)]
    known = list(dict.fromkeys(queue.full_name for page in pages for queue in page.rows))
    near = nearest(name, known)
    if near:
        hint = f"did you mean {near!r}?"
    elif known:
        hint = f"there are {', '.join(known[:10])}{' and more' if len(known) > 10 else ''}"
    else:
        hint = "it has none yet; a queue comes to be with its first job"
    return Refused("unknown_queue", f"tenant {tenant!r} has no queue {bounded_repr(name)}; {hint}")
