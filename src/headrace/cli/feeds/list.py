"""`headrace feeds list`: the feeds of a tenant with their counts."""

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output, counted
from headrace.cli.store_access import with_store
from headrace.inspect.feeds import FeedList, list_feeds
from headrace.model.times import ago_text
from headrace.stores.contract.store import Store

COLUMNS = ("feed", "type", "items#", "total#", "kept changes#", "last change")
SPARE = ("kept changes", "total", "type")
"""Columns to drop in a narrow terminal, the least needed first."""


def list_command(url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """List feeds with their counts; `headrace feeds` does the same.

    The total counts all items ever published or edited. Kept changes are available to
    disconnected readers.

    Example: headrace feeds list --tenant acme
    """
    output = Output(json=json)

    async def look(store: Store) -> tuple[FeedList, int]:
        return await list_feeds(store, tenant), await store.now_ms()

    found, now_ms = with_store(url, look)
    output.document(found)
    output.table(
        COLUMNS,
        [
            (row.feed, row.type, row.items, row.total, row.changes, ago_text(row.changed_at_ms, now_ms))
            for row in found.feeds
        ],
        empty=f"tenant {tenant!r} has no feeds; create one with: headrace feeds create NAME",
        spare=SPARE,
    )
    if found.feeds:
        items = sum(row.items for row in found.feeds)
        output.say(f"{counted(len(found.feeds), 'feed')} with {counted(items, 'item')}")
