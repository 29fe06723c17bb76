"""Finds the queues and feeds that the options of a read name."""

from collections.abc import Iterable

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.pipeline.source.options import ALL, Options
from headrace.stores.contract.store import Store


async def find_queues(store: Store, options: Options) -> list[Queue]:
    """The queues that are meant, by tenant and name; refuses a name that no tenant in question has."""
    tenants = await all_tenants(store) if options.tenant == ALL else [options.tenant]
    known = [queue for tenant in tenants for queue in await all_queues(store, tenant)]
    if not options.names:
        return known
    _check_known("queue", {queue.full_name for queue in known}, options)
    return [queue for queue in known if queue.full_name in options.names]


async def find_feeds(store: Store, options: Options) -> list[FeedName]:
    """The feeds that are meant, by tenant and name; refuses a name that no tenant in question has."""
    if options.tenant == ALL:
        raise BadConfig("feeds are read of one tenant at a time; name it with option tenant")
    known = await all_feeds(store, options.tenant)
    if not options.names:
        return known
    _check_known("feed", {feed.name for feed in known}, options)
    return [feed for feed in known if feed.name in options.names]


async def all_tenants(store: Store) -> list[str]:
    """All tenants that have queues."""
    page = await store.queues.tenants()
    tenants = list(page.rows)
    while page.cursor is not None:
        page = await store.queues.tenants(cursor=page.cursor)
        tenants += page.rows
    return tenants


async def all_queues(store: Store, tenant: str) -> list[Queue]:
    """All queues of a tenant, companions included."""
    page = await store.queues.names(tenant, limit=1_000)
    queues = list(page.rows)
    while page.cursor is not None:
        page = await store.queues.names(tenant, cursor=page.cursor, limit=1_000)
        queues += page.rows
    return queues


async def all_feeds(store: Store, tenant: str) -> list[FeedName]:
    """All feeds of a tenant: the items of its directory."""
    directory = FeedName("*", tenant)
    page = await store.items.list(directory)
    feeds = [FeedName(item.id, tenant) for item in page.rows]
    while page.cursor is not None:
        page = await store.items.list(directory, cursor=page.cursor)
        feeds += [FeedName(item.id, tenant) for item in page.rows]
    return sorted(feeds)


def _check_known(thing: str, known: Iterable[str], options: Options) -> None:
    names = sorted(set(known))
    missing = [name for name in options.names if name not in names]
    if missing:
        whose = "any tenant" if options.tenant == ALL else f"tenant {options.tenant!r}"
        raise BadConfig(f"there is no {thing} {', '.join(map(repr, missing))} of {whose}; {_hint(thing, names)}")


def _hint(thing: str, names: list[str]) -> str:
    if not names:
        return f"there are no {thing}s at all; check option tenant and the url"
    return f"known {thing}s: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
