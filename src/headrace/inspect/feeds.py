"""Lists the feeds of a tenant, and finds one by its name."""

from msgspec import Struct
from msgspec.structs import asdict

from headrace.inspect.lookup import look_at_each, names_text
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, FeedType
from headrace.model.results import FeedState
from headrace.model.times import instant_text
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.catalog import all_feeds
from headrace.stores.contract.store import Store


class FeedRow(Struct, frozen=True, kw_only=True):
    """A feed with its counts and its configuration."""

    feed: str
    tenant: str
    items: int
    total: int
    """Items that were ever published or edited."""
    changes: int
    """Changes that a disconnected reader can still get."""
    changes_bytes: int
    cursor: str
    created_at: str
    created_at_ms: int
    changed_at: str
    changed_at_ms: int
    type: FeedType
    version: int
    items_max: int
    items_keep_ms: int
    changes_keep_max: int
    changes_keep_ms: int
    changes_bytes_max: int


class FeedList(Struct, frozen=True):
    """The feeds of a tenant."""

    tenant: str
    feeds: list[FeedRow]
    more: bool = False


async def list_feeds(store: Store, tenant: str) -> FeedList:
    """The feeds of a tenant, in order of name."""
    states = [state async for _, state in look_at_each(await all_feeds(store, tenant), store.feeds.describe)]
    return FeedList(tenant, [feed_row(state) for state in states if state is not None])  # one may be gone meanwhile


async def feed_of(store: Store, tenant: str, name: str) -> FeedState:
    """The feed of that name; raises `Refused` with the nearest names if there is none."""
    state = await store.feeds.describe(FeedName(name, tenant))
    if state is not None:
        return state
    known = [feed.name for feed in await all_feeds(store, tenant)]
    near = nearest(name, known)
    if near:
        hint = f"did you mean {near!r}?"
    elif known:
        hint = f"its feeds: {names_text(known)}"
    else:
        hint = "it has none yet; create one with: headrace feeds create NAME"
    raise Refused("unknown_feed", f"tenant {tenant!r} has no feed {bounded_repr(name)}; {hint}")


def feed_row(state: FeedState) -> FeedRow:
    """The JSON of a feed."""
    return FeedRow(
        feed=state.feed.name,
        tenant=state.feed.tenant,
        items=state.items,
        total=state.total,
        changes=state.cursor.seq - state.first_seq + 1,
        changes_bytes=state.changes_bytes,
        cursor=str(state.cursor),
        created_at=instant_text(state.created_at_ms),
        created_at_ms=state.created_at_ms,
        changed_at=instant_text(state.changed_at_ms),
        changed_at_ms=state.changed_at_ms,
        **asdict(state.config),
    )
