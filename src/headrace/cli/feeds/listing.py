"""`headrace feeds list`: the feeds of a tenant, and how each stands."""

import asyncio

from msgspec import Struct
from msgspec.structs import asdict

from headrace.cli.feeds.finding import Tenant, names_of
from headrace.cli.instants import ago, instants, store_now_ms
from headrace.cli.opening import with_store
from headrace.cli.options import TENANT, Json, Url
from headrace.cli.output import Output
from headrace.cli.stepping import counted
from headrace.model.feed import FeedName
from headrace.model.feed_answers import FeedState
from headrace.model.limits import FEEDS_SHOWN_MAX, LOOKS_AT_ONCE
from headrace.stores.contract.store import Store

COLUMNS = ("feed", "type", "items#", "total#", "kept changes#", "last change")


class Listed(Struct, frozen=True):
    """The feeds that were found, by the store's time, and whether there are more."""

    states: list[FeedState]
    now_ms: int
    more: bool


def list_feeds(url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> None:
    """Show feeds with what they hold; `headrace feeds` does so, too.

    The total counts all that was ever published or edited. What is kept of the changes is what a reader that was away
    can still get.
    """
    output = Output(json=json)
    found = with_store(url, lambda store: _listed(store, tenant))
    output.document({"tenant": tenant, "feeds": [feed_dict(state) for state in found.states], "more": found.more})
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
    )
    if found.states:
        items = sum(state.items for state in found.states)
        output.say(f"{counted(len(found.states), 'feed')} with {counted(items, 'item')}")
    if found.more:
        output.hint(f"only the first {FEEDS_SHOWN_MAX:,} feeds are shown; see others with: headrace feeds items NAME")


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
    names, more = await names_of(store, tenant)
    now_ms = await store_now_ms(store)
    states: list[FeedState] = []
    for first in range(0, len(names), LOOKS_AT_ONCE):
        some = [FeedName(name, tenant) for name in names[first : first + LOOKS_AT_ONCE]]
        found = await asyncio.gather(*map(store.feeds.describe, some))
        states += [state for state in found if state is not None]  # one may have gone meanwhile
    return Listed(states, now_ms, more)
