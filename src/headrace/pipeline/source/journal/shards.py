"""Finds the shards that a stream follows, verifies that their journals are the same, and compacts their offsets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.event import Bounds, Entry
from headrace.model.names import Shard
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.journal.idle import IDLE_MS, LISTED_IDLE_MAX, Comparison, IdleShards
from headrace.pipeline.source.journal.offset import (
    Loss,
    LossKind,
    Mark,
    Offset,
    ResumedJournal,
    find_loss,
    resume_after,
)
from headrace.pipeline.source.journal.ranges import bounds_of, reached
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.partitioning import span_of
from headrace.pipeline.source.stream_reader import FIND_EVERY_MS
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.store import Store

EVENTS_AT_ONCE = 16
"""Single events to read concurrently: enough for a pipeline, below the size of a connection pool."""
_NONE = Bounds(0, 1, 0, None, None, 0)
"""The bounds of a missing journal."""


class FollowedShards:
    """The shards of a stream by name, looked up every second, with the bounds of their journals."""

    def __init__(self, store: Store, options: SourceOptions, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._options = options
        self._now_ms = now_ms
        self._found_at_ms: int | None = None
        self._everything = replace(options, names=(), pattern=None)
        self.shards: dict[str, Shard] = {}
        """The shards that the options select."""
        self._existing: set[str] = set()

    async def require(self, start: Offset | None) -> None:
        """Refuse a named queue that neither exists nor existed when `start` was written."""
        had = {name.split("/")[1] for name in start.shards} if start else set()
        if start and start.idle:
            had |= set(start.idle.names)
        names = tuple(name for name in self._options.names if name not in had)
        if names:
            await find_queues(self._store, replace(self._options, names=names))

    async def find(self, *, now: bool = False) -> None:
        """Look the queues up, at most every second unless `now`."""
        now_ms = self._now_ms()
        if not now and self._found_at_ms is not None and now_ms < self._found_at_ms + FIND_EVERY_MS:
            return
        queues = await find_queues(self._store, self._everything)
        self._existing = {str(shard) for queue in queues for shard in queue.all_shards()}
        self.shards = {
            str(shard): shard
            for queue in queues
            if self._options.selects(queue.full_name)
            for shard in queue.all_shards()
        }
        self._found_at_ms = now_ms

    async def selected_by(self, idle: IdleShards) -> dict[str, Shard]:
        """The shards of a stream with the options of `idle`."""
        options = replace(self._options, tenant=idle.tenant, names=idle.names, pattern=idle.pattern)
        if options == self._options:
            return self.shards
        queues = await find_queues(self._store, replace(options, names=(), pattern=None))
        return {
            str(shard): shard for queue in queues if options.selects(queue.full_name) for shard in queue.all_shards()
        }

    def is_gone(self, name: str) -> bool:
        """Whether a selected shard no longer exists."""
        tenant, queue, _ = name.split("/")
        is_read = self._options.tenant in (ALL, tenant) and self._options.selects(queue)
        return is_read and name not in self._existing

    async def bounds(self) -> dict[str, Bounds]:
        """The bounds of the journals, by shard."""
        try:
            found = await bounds_of(self._store.journal, list(self.shards.values()))
        except Refused:
            # A queue was created again with another number of shards since the last look.
            await self.find(now=True)
            found = await bounds_of(self._store.journal, list(self.shards.values()))
        return {str(shard): bounds for shard, bounds in found.items()}

    async def events(self, seqs: Mapping[str, int]) -> dict[str, Sequence[Entry]]:
        """The event of each shard at its seq; empty if it was dropped."""
        room = asyncio.Semaphore(EVENTS_AT_ONCE)

        async def event(name: str, seq: int) -> Sequence[Entry]:
            if seq <= 0 or name not in self.shards:
                return ()
            async with room:
                return await self._store.journal.read(self.shards[name], seq - 1, seq)

        found = await asyncio.gather(*(event(name, seq) for name, seq in seqs.items()))
        return dict(zip(seqs, found, strict=True))

    async def marks(self, seqs: Mapping[str, int]) -> dict[str, Mark]:
        """The marks of shards at these seqs."""
        return {name: Mark.of(seqs[name], entries) for name, entries in (await self.events(seqs)).items()}

    async def cut(self, name: str, bounds: Bounds, epoch: int, at_ms: int | None = None) -> int:
        """The last kept seq of at most `epoch` and `at_ms`; one before the first kept seq if there is none."""
        kept = span_of(self.shards[name], bounds)
        low, high = kept.after, kept.upto
        if at_ms is not None and low < high:
            [high] = await reached(self._store.journal, [kept], at_ms)
        while low < high:
            middle = (low + high + 1) // 2
            entries = (await self.events({name: middle}))[name]
            # A dropped event is older than the kept ones.
            if not entries or entries[0].epoch <= epoch:
                low = middle
            else:
                high = middle - 1
        return low


class JournalIdentity:
    """Verifies that journals are those that were read: remembers their bounds, and checks events where they differ."""

    def __init__(self, shards: FollowedShards) -> None:
        self._shards = shards
        self.bounds: dict[str, Bounds] = {}
        """The remembered bounds."""
        self._checked: dict[str, Mark] = {}

    def remember(self, bounds: dict[str, Bounds]) -> None:
        """Remember these bounds."""
        self.bounds = bounds

    def trust(self, marks: Mapping[str, Mark]) -> None:
        """Accept marks that were just read."""
        self._checked |= marks

    async def look(self, start: Offset, *, is_first: bool) -> tuple[dict[str, Bounds], list[Loss]]:
        """The bounds of the journals, and the losses before `start`; `is_first` if nothing was read yet."""
        await self._shards.find()
        bounds = await self._shards.bounds()
        doubted = {name: mark for name, mark in start.shards.items() if self._is_doubted(name, mark, bounds)}
        if not doubted:
            return bounds, []
        if any(name not in bounds or bounds[name].last_seq == 0 for name in doubted):
            # The queue may have been deleted, or created again, since the last look.
            await self._shards.find(now=True)
            bounds = await self._shards.bounds()
        now = await self._shards.marks({name: mark.seq for name, mark in doubted.items()})
        losses = []
        for name, mark in doubted.items():
            found = self._missing(name, mark, bounds.get(name), now[name], is_first=is_first)
            if found is None:
                self._checked[name] = mark
            else:
                losses.append(found)
        return bounds, losses

    async def resume(self, found: Loss) -> ResumedJournal:
        """Where to continue after a loss."""
        mark = found.mark
        cut = await self._shards.cut(found.name, found.bounds, mark.epoch, mark.at_ms) if found.is_other else 0
        return resume_after(found, cut)

    def _is_doubted(self, name: str, mark: Mark, bounds: Mapping[str, Bounds]) -> bool:
        """Whether an event must be read to identify the journal. Mostly its bounds suffice: a queue that was created
        again has another first event, and a store that lost its tail another epoch."""
        now, seen = bounds.get(name), self.bounds.get(name)
        if now is None or seen is None or self._checked.get(name) != mark:
            return True
        if now.epoch != seen.epoch or now.last_seq < seen.last_seq or now.first_seq > mark.seq + 1:
            return True
        return now.first_seq < seen.first_seq or (
            now.first_seq == seen.first_seq <= seen.last_seq and now.first_at_ms != seen.first_at_ms
        )

    def _missing(self, name: str, mark: Mark, bounds: Bounds | None, now: Mark, *, is_first: bool) -> Loss | None:
        if bounds is None:
            return Loss(name, "gone", mark, _NONE) if mark.seq and self._shards.is_gone(name) else None
        found = find_loss(name, mark, bounds, now)
        if found is not None and found.kind == "trimmed" and is_first and not mark.digest:
            # Nothing was read yet, and `earliest` moves with retention.
            return None
        return found


def compact(
    full: Offset,
    before: Offset,
    begins: Mapping[str, int],
    bounds: Mapping[str, Bounds],
    options: SourceOptions,
    now_ms: int,
) -> Offset:
    """The compact form of an offset that lists every shard; `before` is the last stored one.

    A shard is folded if the batch reads nothing of it, nothing is left to read, and its last event is at least
    `IDLE_MS` older than the newest event, so that later events are later than that instant."""
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
    """The losses of folded shards."""
    comparison: Comparison | None = None


async def expand(journal: Journal, shards: FollowedShards, identity: JournalIdentity, stored: Offset) -> ExpandedOffset:
    """The offset with the shards that `compact` has folded; `identity` remembers the unchanged ones."""
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
