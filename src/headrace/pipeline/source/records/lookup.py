"""Finds the records of the ids that a query names, instead of going through all records of its queues."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.event import Bounds
from headrace.model.job import check_id
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Found
from headrace.pipeline.source.filters import Filters
from headrace.stores.contract.store import Store

TRIES_MAX = 10
"""How often records are found again whose journals have moved meanwhile."""


class RecordLookup(Struct, frozen=True):
    """Ids of one queue to find in one call."""

    queue: Queue
    ids: tuple[str, ...]


def plan_lookups(queues: Sequence[Queue], filters: Filters) -> list[RecordLookup] | None:
    """What to look up; None when the filters do not say which ids they want."""
    values = filters.values("id")
    if values is None:
        return None
    ids = sorted(value for value in values if isinstance(value, str))
    found = []
    for queue in queues:
        own = [id for id in ids if _is_id(id, queue) and filters.allows("shard", queue.index_of(id))]
        found += [RecordLookup(queue, tuple(own[start : start + BATCH_MAX])) for start in range(0, len(own), BATCH_MAX)]
    return found


def _is_id(id: str, queue: Queue) -> bool:
    try:
        check_id(id, queue)
    except Refused:
        return False
    return True


class ShardRecords(Struct, frozen=True):
    """What was found in a shard, and where its journal stood."""

    shard: Shard
    found: list[Found]
    epoch: int
    seq: int


async def look_up(store: Store, lookup: RecordLookup, *, with_seq: bool) -> list[ShardRecords]:
    """The records of the ids, by shard; `with_seq` says of which seq of the journal they are."""
    queue = lookup.queue
    shards = sorted({queue.shard_of(id) for id in lookup.ids})
    bounds: dict[Shard, Bounds] = {}
    found: Sequence[Found | None] = ()
    latest = await _bounds(store, shards) if with_seq else {}
    # Records that never rest are as of the last look before them, or newer.
    for _ in range(TRIES_MAX):
        bounds, found = latest, await store.reads.find(queue, lookup.ids)
        latest = await _bounds(store, shards) if with_seq else {}
        if not await _has_moved(store, bounds, latest, lookup.ids):
            bounds = latest
            break
    by_shard: dict[Shard, list[Found]] = {}
    for each in found:
        if each is not None:
            by_shard.setdefault(queue.shard_of(each.id), []).append(each)
    none = Bounds(0, 1, 0, None, None, 0)
    return [
        ShardRecords(shard, some, bounds.get(shard, none).epoch, bounds.get(shard, none).last_seq)
        for shard, some in sorted(by_shard.items())
    ]


async def _bounds(store: Store, shards: Sequence[Shard]) -> dict[Shard, Bounds]:
    return dict(zip(shards, await store.journal.all_bounds(shards), strict=True))


async def _has_moved(store: Store, before: dict[Shard, Bounds], after: dict[Shard, Bounds], ids: Sequence[str]) -> bool:
    """Whether something has happened to one of the ids between two looks at the journals."""
    for shard, now in after.items():
        seq = before[shard].last_seq
        if now.epoch != before[shard].epoch or now.last_seq < seq:
            return True
        while seq < now.last_seq:
            entries = await store.journal.read(shard, seq, now.last_seq)
            if not entries or entries[0].first_seq > seq + 1:
                return True  # dropped already
            if any(event.line.id in ids for entry in entries for event in entry.events(shard)):
                return True
            seq = entries[-1].last_seq
    return False
