"""Asking a fleet to stop, through the store: the one thing that its driver and all its workers can reach."""

from headrace.client.retry import retry
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Publication
from headrace.pipeline.flows.fleet.orders import FEED
from headrace.pipeline.source.sink.result import make_feed
from headrace.stores.contract.store import Store

_INSTANCE = "spark"


async def ask_to_stop(store: Store, tenant: str, fleet: str) -> None:
    """Let all workers of a fleet find that it is to stop; asking twice is fine."""
    feed = FeedName(FEED, tenant)
    asking = [Publication(b'{"stop":true}', fleet)]
    try:
        await retry(lambda: store.items.publish(feed, asking, instance=_INSTANCE))
    except Refused as refused:
        if refused.reason != "unknown_feed":
            raise
        await make_feed(store, feed, _INSTANCE)
        await retry(lambda: store.items.publish(feed, asking, instance=_INSTANCE))


async def is_asked(store: Store, tenant: str, fleet: str) -> bool:
    """Whether a fleet is to stop."""
    [found] = await store.items.find(FeedName(FEED, tenant), [fleet])
    return found is not None


async def forget(store: Store, tenant: str, fleet: str) -> None:
    """Take back what nobody looks for any more."""
    await store.items.retract(FeedName(FEED, tenant), [fleet], instance=_INSTANCE)
