"""Looks that several commands take: which queues there are, and where a job is."""

from headrace.model.answers import Found
from headrace.model.checks import bounded_repr, nearest
from headrace.model.errors import Refused
from headrace.model.limits import PAGE_MAX, QUEUES_SHOWN_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store


async def queues_of(store: Store, tenant: str, name: str | None = None) -> list[Queue]:
    """All queues of a tenant with their shards, companions included and in order of name; or the one that is named.

    Without a name at most `QUEUES_SHOWN_MAX`. Raises `Refused` for a name that no queue has, with the nearest names:
    asking after a queue never makes it.
    """
    found: list[Queue] = []
    cursor = None
    while name is not None or len(found) < QUEUES_SHOWN_MAX:
        page = await store.queues.names(tenant, cursor=cursor, limit=PAGE_MAX)
        if chosen := [queue for queue in page.rows if queue.full_name == name]:
            return chosen
        found += page.rows
        if (cursor := page.cursor) is None:
            break
    if name is not None:
        raise _unknown(name, tenant, [queue.full_name for queue in found])
    return found[:QUEUES_SHOWN_MAX]


async def tenants_of(store: Store) -> list[str]:
    """The tenants that have queues, in order of name; at most `PAGE_MAX`."""
    return (await store.queues.tenants(limit=PAGE_MAX)).rows


async def queue_of(store: Store, tenant: str, name: str) -> Queue:
    """The queue of that name; raises `Refused` when there is none."""
    [queue] = await queues_of(store, tenant, name)
    return queue


async def locate(store: Store, tenant: str, name: str | None, id: str) -> tuple[Queue, Found] | None:
    """A job by its id: in the queue that is named, else in the first of the tenant's queues that knows it."""
    for queue in await queues_of(store, tenant, name):
        [found] = await store.reads.find(queue, [id])
        if found is not None:
            return queue, found
    return None


def _unknown(name: str, tenant: str, known: list[str]) -> Refused:
    near = nearest(name, known)
    if near:
        hint = f"did you mean {near!r}?"
    elif known:
        hint = f"there are {', '.join(known[:10])}{' and more' if len(known) > 10 else ''}"
    else:
        hint = "it has none yet; a queue comes to be with its first job"
    return Refused("unknown_queue", f"tenant {tenant!r} has no queue {bounded_repr(name)}; {hint}")
