"""Finds the queues of a tenant by name, and reads many queues concurrently within a bound."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.model.errors import Refused
from headrace.model.limits import LOOKS_AT_ONCE, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.catalog import all_queues, find_queue
from headrace.stores.contract.store import Store

A = TypeVar("A")
T = TypeVar("T")
NAMES_SHOWN = 10
"""Names in a hint."""


async def queues_of(store: Store, tenant: str, name: str | None = None) -> list[Queue]:
    """All queues of a tenant with their shards, fail queues included and in order of name; or the one of that name.

    Raises `Refused` for a name that no queue has, with the nearest names: reading never creates a queue.
    """
    if name is None:
        return await all_queues(store, tenant)
    return [await queue_of(store, tenant, name)]


async def queue_of(store: Store, tenant: str, name: str) -> Queue:
    """The queue of that name; raises `Refused` for a name that no queue has, with the nearest names."""
    queue = await find_queue(store, tenant, name)
    if queue is None:
        raise await _unknown(store, tenant, name)
    return queue


async def look_at_each(items: Sequence[A], look: Callable[[A], Awaitable[T]]) -> AsyncIterator[tuple[A, T]]:
    """Each item with the result of `look`, in order; a few calls run at once, none long before it is consumed."""
    for first in range(0, len(items), LOOKS_AT_ONCE):
        some = items[first : first + LOOKS_AT_ONCE]
        for pair in zip(some, await asyncio.gather(*map(look, some)), strict=True):
            yield pair


def names_text(names: Sequence[str]) -> str:
    """The first names of a list, for a hint."""
    return f"{', '.join(names[:NAMES_SHOWN])}{' and more' if len(names) > NAMES_SHOWN else ''}"


async def _unknown(store: Store, tenant: str, name: str) -> Refused:
    # The first names, and those with the same initial: a hint is worth two pages, not all.
    begin = name[:1] if re.match("[A-Za-z0-9]", name) else None
    pages = [await store.queues.names(tenant, cursor=cursor, limit=PAGE_MAX) for cursor in (None, begin)]
    known = list(dict.fromkeys(queue.full_name for page in pages for queue in page.rows))
    near = nearest(name, known)
    if near:
        hint = f"did you mean {near!r}?"
    elif known:
        hint = f"its queues: {names_text(known)}"
    else:
        hint = "it has none yet; the first job of a queue creates it"
    return Refused("unknown_queue", f"tenant {tenant!r} has no queue {bounded_repr(name)}; {hint}")
