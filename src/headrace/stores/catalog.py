"""Lists the tenants, queues and feeds of a store page by page, and finds a queue by its name in one call."""

from headrace.model.errors import Refused
from headrace.model.feed import DIRECTORY, FeedName
from headrace.model.limits import PAGE_MAX
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.stores.contract.store import Store


async def all_tenants(store: Store) -> list[str]:
    """All tenants that have queues, by name."""
    page = await store.queues.tenants(limit=PAGE_MAX)
    tenants = list(page.rows)
    while page.cursor is not None:
        page = await store.queues.tenants(cursor=page.cursor, limit=PAGE_MAX)
        tenants += page.rows
    return tenants


async def all_queues(store: Store, tenant: str) -> list[Queue]:
    """All queues of a tenant by name, fail queues included."""
    page = await store.queues.names(tenant, limit=PAGE_MAX)
    queues = list(page.rows)
    while page.cursor is not None:
        page = await store.queues.names(tenant, cursor=page.cursor, limit=PAGE_MAX)
        queues += page.rows
    return queues


async def all_feeds(store: Store, tenant: str) -> list[FeedName]:
    """All feeds of a tenant by name: the items of its directory."""
    directory = FeedName(DIRECTORY, tenant)
    page = await store.items.list(directory, limit=PAGE_MAX)
    names = [item.id for item in page.rows]
    while page.cursor is not None:
        page = await store.items.list(directory, cursor=page.cursor, limit=PAGE_MAX)
        names += [item.id for item in page.rows]
    return [FeedName(name, tenant) for name in sorted(names)]


async def find_queue(store: Store, tenant: str, full_name: str) -> Queue | None:
    """The queue of that name with its shards, None when it is unknown; one call, however many queues there are."""
    try:
        Queue.parse(full_name, DEFAULT_TENANT, 1)
    except Refused:  # no queue can have this name
        return None
    page = await store.queues.names(tenant, cursor=_cursor_before(full_name), limit=1)
    return next((queue for queue in page.rows if queue.full_name == full_name), None)


def _cursor_before(full_name: str) -> str:
    """A cursor after every name that sorts before this one: the cursor of names is a name, and no character of a name
    sorts after DEL."""
    return f"{full_name[:-1]}{chr(ord(full_name[-1]) - 1)}\x7f"
