"""Compacts offsets of many shards for the checkpoint, and expands them again by what the journals hold."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.event import Bounds
from headrace.pipeline.source.journal.idle import IDLE_MS, LISTED_IDLE_MAX, Comparison, IdleShards
from headrace.pipeline.source.journal.offset import Loss, LossKind, Mark, Offset
from headrace.pipeline.source.journal.ranges import bounds_of, reached
from headrace.pipeline.source.journal.shards import FollowedShards, JournalIdentity
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import span_of
from headrace.stores.contract.journal import Journal


def compact(
    full: Offset,
    before: Offset,
    begins: Mapping[str, int],
    bounds: Mapping[str, Bounds],
    options: SourceOptions,
    now_ms: int,
) -> Offset:
    """The offset to keep of one that lists every shard, where the last one that was kept is `before`.

    A shard is left out when the batch reads nothing of it, nothing is left to read, and its last event is no later than
    an instant that lies `IDLE_MS` before the newest event: what comes after it is later than that instant.
    """
    newest_ms = max((mark.at_ms for mark in full.shards.values()), default=0)
    at_ms = max(min(newest_ms, now_ms) - IDLE_MS, before.idle.at_ms if before.idle else 0)
    idle = {
        name: mark
        for name, mark in full.shards.items()
        if mark.at_ms <= at_ms
        and mark.seq == bounds[name].last_seq
        and begins[name] == mark.seq
        and name not in full.jumps
    }
    if len(idle) <= LISTED_IDLE_MAX:
        idle = {}
    listed = {name: mark for name, mark in full.shards.items() if name not in idle}
    jumps = {name: begins[name] for name in listed if name in full.jumps or name not in before.shards}
    if not idle:
        return replace(full, jumps=jumps)
    seqs = {name: mark.seq for name, mark in idle.items()}
    epoch = max(mark.epoch for mark in idle.values())
    return replace(full, shards=listed, idle=IdleShards.fold(seqs, at_ms, epoch, options), jumps=jumps)


class ExpandedOffset(Struct, frozen=True):
    """An offset that lists every shard."""

    offset: Offset
    losses: Sequence[Loss] = ()
    """Of shards that were left out, and whose journals are others now."""
    comparison: Comparison | None = None


async def expand(journal: Journal, shards: FollowedShards, identity: JournalIdentity, stored: Offset) -> ExpandedOffset:
    """The offset with the shards that `compact` has left out; `identity` takes those as seen that are as they were."""
    idle = stored.idle
    if idle is None:
        return ExpandedOffset(stored)
    left_out = {name: shard for name, shard in (await shards.selected_by(idle)).items() if name not in stored.shards}
    found = await bounds_of(journal, list(left_out.values()))
    bounds = {name: found[shard] for name, shard in left_out.items()}
    spans = [span_of(shard, found[shard]) for shard in left_out.values()]
    seqs = dict(zip(left_out, await reached(journal, spans, idle.at_ms), strict=True))
    comparison = idle.compare(seqs)
    marks = await shards.marks(seqs | comparison.differing)
    losses = []
    for name, seq in comparison.differing.items():
        if seq > seqs[name]:
            marks[name] = Mark(idle.epoch, seq, "", idle.at_ms)
            kind: LossKind = "shorter" if seq > bounds[name].last_seq else "changed"
            losses.append(Loss(name, kind, marks[name], bounds[name]))
    identity.remember(bounds)
    identity.trust(marks)
    full = replace(
        stored,
        shards=stored.shards | marks,
        idle=None,
        skipped=stored.skipped + comparison.skipped,
        lost=stored.lost + comparison.lost,
    )
    return ExpandedOffset(full, losses, comparison)
