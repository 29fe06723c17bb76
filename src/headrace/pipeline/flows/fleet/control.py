"""Decides when the workers of a fleet end: on a stop request, or when their queues are drained."""

from collections.abc import Sequence

from headrace.client.tasks import retry
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Publication
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.pipeline.source.sink.result import make_feed
from headrace.stores.contract.store import Store

STOP_FEED = "spark.fleets"
"""Holds a stop request under the id of its fleet: only the store is in reach of the driver and all workers."""
_INSTANCE = "spark"


async def request_stop(store: Store, tenant: str, fleet: str) -> None:
    """Ask all workers of a fleet to stop; may be repeated."""
    feed = FeedName(STOP_FEED, tenant)
    requests = [Publication(b'{"stop":true}', fleet)]
    try:
        await retry(lambda: store.items.publish(feed, requests, instance=_INSTANCE))
    except Refused as refused:
        if refused.reason != "unknown_feed":
            raise
        await make_feed(store, feed, _INSTANCE)
        await retry(lambda: store.items.publish(feed, requests, instance=_INSTANCE))


async def is_stop_requested(store: Store, tenant: str, fleet: str) -> bool:
    """Whether a fleet was asked to stop."""
    [request] = await store.items.find(FeedName(STOP_FEED, tenant), [fleet])
    return request is not None


async def clear_stop_request(store: Store, tenant: str, fleet: str) -> None:
    """Delete the stop request of a fleet that has ended."""
    await store.items.retract(FeedName(STOP_FEED, tenant), [fleet], instance=_INSTANCE)


async def total_counts(store: Store, queues: Sequence[Queue]) -> Counts:
    """The counts of several queues added up, each read at its own instant."""
    total = Counts()
    for queue in queues:
        total += await store.queues.counts(queue)
    return total


async def is_drained(store: Store, queues: Sequence[Queue]) -> bool:
    """Whether all queues were empty at one instant: nothing waiting, scheduled, running or blocked.

    A handler may enqueue into a queue that was already counted, and end before its own queue is counted. So the ends of
    the journals are compared before and after: where none has moved, all counts describe one state.
    """
    if (await total_counts(store, queues)).open:
        return False
    before = await _journal_ends(store, queues)
    if (await total_counts(store, queues)).open:
        return False
    return await _journal_ends(store, queues) == before


async def _journal_ends(store: Store, queues: Sequence[Queue]) -> list[tuple[int, int]]:
    bounds = await bounds_of(store.journal, [shard for queue in queues for shard in queue.all_shards()])
    return [(each.epoch, each.last_seq) for each in bounds.values()]
