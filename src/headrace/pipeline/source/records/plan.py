"""Plans a read of records: which groups of which shards one task goes through."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from headrace.model.job import State
from headrace.model.limits import LOOKS_AT_ONCE
from headrace.model.names import Queue, Shard
from headrace.model.results import Counts, Group
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.packing import pack
from headrace.pipeline.source.targets import find_queues
from headrace.stores.contract.store import Store

STATES: dict[Group, tuple[State, ...]] = {
    "alive": (State.WAITING, State.ACTIVE, State.BLOCKED),
    "ended": (State.DONE, State.CANCELLED),
    "dead": (State.DEAD,),
}
"""What the rows of a group can be, by groups in the order in which they are gone through: what ends in between is shown
twice rather than not at all."""


class ShardGroups(Struct, frozen=True):
    """Groups of one shard, to be gone through in this order."""

    shard: Shard
    groups: tuple[Group, ...]


async def plan(store: Store, options: SourceOptions, filters: Filters) -> list[tuple[ShardGroups, ...]]:
    """What each task goes through, about equal counts of rows.

    A shard stays in one task, so that its groups are gone through in order; only when more tasks are asked for than
    there are shards is each group a task of its own, and what ends meanwhile may then be missing.
    """
    groups = wanted(options, filters)
    queues = [
        queue
        for queue in await find_queues(store, options)
        if filters.allows("tenant", queue.tenant) and filters.allows("queue", queue.full_name)
    ]
    counted = zip(queues, await _counts(store, queues), strict=True) if groups else ()
    # Who names this column compares rows with the journal, as the audit does: a queue that is empty by its counters may
    # hold what was put there past the store.
    is_check = "as_of_seq" in options.columns
    sizes = {
        shard: {group: _size(counts, group, queue) for group in groups}
        for queue, counts in counted
        if is_check or any(_size(counts, group, queue) for group in STATES)
        for shard in queue.all_shards()
        if filters.allows("shard", shard.index)
    }
    if options.partitions_min <= len(sizes):
        return pack(
            ((ShardGroups(shard, groups), sum(held.values())) for shard, held in sizes.items()), options.partitions_min
        )
    pairs = [(ShardGroups(shard, (group,)), size) for shard, held in sizes.items() for group, size in held.items()]
    return pack(pairs, options.partitions_min)


def wanted(options: SourceOptions, filters: Filters) -> tuple[Group, ...]:
    """The groups that can have rows that are asked for."""
    if options.what == "dead":
        return ("dead",)
    if options.what == "results":
        is_asked = any(filters.allows("outcome", state.value) for state in STATES["ended"])
        return ("ended",) if is_asked and filters.allows("kept", True) else ()
    return tuple(
        group for group, states in STATES.items() if any(filters.allows("state", state.value) for state in states)
    )


async def _counts(store: Store, queues: Sequence[Queue]) -> list[Counts]:
    found: list[Counts] = []
    for first in range(0, len(queues), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(store.queues.counts, queues[first : first + LOOKS_AT_ONCE]))
    return found


def _size(counts: Counts, group: Group, queue: Queue) -> int:
    """How many rows a shard has of a group, about: ids are spread evenly."""
    total: int = sum(getattr(counts, state.value) for state in STATES[group])
    return -(-total // queue.shards)
