"""Whether queues are drained: nothing waits, now or later, nothing runs, and nothing is blocked."""

from collections.abc import Sequence

from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.stores.contract.store import Store


async def counts_of(store: Store, queues: Sequence[Queue]) -> Counts:
    """How many jobs of these queues stand where; each queue is a look of its own."""
    total = Counts()
    for queue in queues:
        total += await store.queues.counts(queue)
    return total


async def is_drained(store: Store, queues: Sequence[Queue]) -> bool:
    """Whether nothing was left in any of the queues at one and the same instant.

    A handler may send a job to a queue that was looked at before, and end before its own queue is looked at. So the
    journals are asked before and after: where none has moved, all looks were of one state.
    """
    if not _is_empty(await counts_of(store, queues)):
        return False
    before = await _ends(store, queues)
    if not _is_empty(await counts_of(store, queues)):
        return False
    return await _ends(store, queues) == before


def _is_empty(counts: Counts) -> bool:
    return not (counts.waiting or counts.active or counts.blocked)


async def _ends(store: Store, queues: Sequence[Queue]) -> list[tuple[int, int]]:
    bounds = await bounds_of(store.journal, [shard for queue in queues for shard in queue.all_shards()])
    return [(each.epoch, each.last_seq) for each in bounds.values()]
