"""`headrace feeds list`: the feeds of a tenant, and how each stands."""

from msgspec import Struct
from msgspec.structs import asdict

from headrace.cli.feeds.options import Tenant
from headrace.cli.options import TENANT, Json, Url
from headrace.cli.output import Output, counted
from headrace.cli.parse import ago, instants
from headrace.cli.queue_lookup import look_at_each
from headrace.cli.store_access import with_store
from headrace.model.results import FeedState
from headrace.stores.catalog import all_feeds
from headrace.stores.contract.store import Store

COLUMNS = ("feed", "type", "items#", "total#", "kept changes#", "last change")


class Listed(Struct, frozen=True):
    """The feeds of a tenant, by the store's time."""

    states: list[FeedState]
    now_ms: int


def list_feeds(url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Show feeds with what they hold; `headrace feeds` does so, too.

    The total counts all that was ever published or edited. What is kept of the changes is what a reader that was away
    can still get.
    """
    output = Output(json=json)
    found = with_store(url, lambda store: _listed(store, tenant))
    output.document({"tenant": tenant, "feeds": [feed_dict(state) for state in found.states], "more": False})
    output.table(
        COLUMNS,
        [
            (
                *(state.feed.name, state.config.type, state.items, state.total, kept_changes(state)),
                ago(state.changed_at_ms, found.now_ms),
            )
            for state in found.states
        ],
        empty=f"tenant {tenant!r} has no feeds; make one with: headrace feeds create NAME",
        spare=("kept changes", "total", "type"),
    )
    if found.states:
        items = sum(state.items for state in found.states)
        output.say(f"{counted(len(found.states), 'feed')} with {counted(items, 'item')}")


def kept_changes(state: FeedState) -> int:
    """How many changes a reader that was away can still get."""
    return state.cursor.seq - state.first_seq + 1


def feed_dict(state: FeedState) -> dict[str, object]:
    """A feed for programs."""
    return {
        "feed": state.feed.name,
        "tenant": state.feed.tenant,
        "items": state.items,
        "total": state.total,
        "changes": kept_changes(state),
        "changes_bytes": state.changes_bytes,
        "cursor": str(state.cursor),
        **instants(created_at_ms=state.created_at_ms, changed_at_ms=state.changed_at_ms),
        **asdict(state.config),
    }


async def _listed(store: Store, tenant: str) -> Listed:
    feeds = await all_feeds(store, tenant)
    now_ms = await store.now_ms()
    states = [state async for _, state in look_at_each(feeds, store.feeds.describe)]
    return Listed([state for state in states if state is not None], now_ms)  # one may have gone meanwhile
