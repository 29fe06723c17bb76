"""All items of a feed at one instant of its log."""

from headrace.model.feed import FeedName
from headrace.model.limits import SNAPSHOT_TRIES
from headrace.model.results import Items
from headrace.stores.contract.store import Store


async def snapshot(store: Store, feed: FeedName) -> Items:
    """Read page by page, which holds up nobody; a feed that never rests is read in one step in the end."""
    for _ in range(SNAPSHOT_TRIES):
        page = await store.items.list(feed)
        rows, as_of = [*page.rows], page.as_of
        while page.cursor is not None and page.as_of == as_of:
            page = await store.items.list(feed, cursor=page.cursor)
            rows += page.rows
        if page.as_of == as_of:
            return Items(rows, as_of)
    return await store.items.snapshot(feed)
