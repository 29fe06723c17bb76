"""Reports: the counts of writes as items of a feed, where programs and people find them."""

import msgspec
from msgspec import Struct

from headrace.client.retry import retry
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Publication
from headrace.pipeline.source.write.counts import Written
from headrace.pipeline.source.write.run import Run
from headrace.stores.contract.store import Store

_encode = msgspec.json.Encoder().encode
_INSTANCE = "spark"


class _Begun(Struct):
    """As much of a report as says when its write began, whether it has ended or not."""

    started_at_ms: int


_decode_begun = msgspec.json.Decoder(_Begun).decode


async def publish_report(store: Store, feed: FeedName, written: Written) -> None:
    """Make the counts an item of a feed, which is made if it is missing."""
    await retry(lambda: _publish(store, feed, written.run, _encode(written)))


async def first_start(store: Store, feed: FeedName, run: Run) -> int:
    """When a write was first begun that may have been begun before, as a batch of a stream that is run again: what an
    attempt that failed has put in counts as put in by that batch."""
    [item] = await retry(lambda: store.items.find(feed, [run.id]))
    if item is not None:
        return _decode_begun(item.item).started_at_ms
    begun = _encode({"run": run.id, "what": "", "started_at_ms": run.started_at_ms})
    await retry(lambda: _publish(store, feed, run.id, begun))
    return run.started_at_ms


async def _publish(store: Store, feed: FeedName, id: str, item: bytes) -> None:
    try:
        await store.items.publish(feed, [Publication(item, id)], instance=_INSTANCE)
    except Refused as refused:
        if refused.reason != "unknown_feed":
            raise
        await make_feed(store, feed, _INSTANCE)
        await store.items.publish(feed, [Publication(item, id)], instance=_INSTANCE)


async def make_feed(store: Store, feed: FeedName, instance: str) -> None:
    """Make a feed unless it is there."""
    try:
        await store.feeds.create(feed, instance=instance)
    except Refused as refused:
        if refused.reason != "feed_exists":  # somebody else was faster
            raise
