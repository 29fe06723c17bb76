"""The second look: jobs that differ are asked for again, and judged only if their journal stood still meanwhile."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Struct

from headrace.model.event import Bounds, Event
from headrace.model.limits import AUDIT_ROUNDS, BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Found
from headrace.pipeline.audit.checking import check_ids
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.audit.job_history import Story
from headrace.pipeline.audit.judge import judge
from headrace.stores.contract.store import Store

Stories = dict[str, Story | None]
"""Of the jobs of a shard; None for one without events."""


class Looked(Struct, frozen=True):
    """What a second look found."""

    findings: list[Finding]
    moving: int
    """Jobs that moved at every look."""


class Tail:
    """The end of a shard's journal, behind what Spark has read of it: goes on with the stories of some of its jobs."""

    def __init__(self, store: Store, shard: Shard, bounds: Bounds, seq: int, stories: Stories) -> None:
        self._store, self._shard, self._first = store, shard, bounds
        self.seq = seq
        """How far the stories have got."""
        self.stories = stories
        self.is_torn = False
        """Whether events were dropped before they were read, or the queue was made anew: nothing can be said then."""

    @property
    def is_whole(self) -> bool:
        """Whether the journal had its beginning when it was read."""
        return self._first.first_seq == 1

    async def go_on(self) -> set[str]:
        """Read on to the end; says which of the jobs have moved."""
        bounds = await self._store.journal.bounds(self._shard)
        if bounds.last_seq < self.seq or is_another(self._first, bounds):
            self.is_torn = True
            return set()
        moved: set[str] = set()
        async for event in self._events(bounds.last_seq):
            id = event.line.id
            if id is not None and id in self.stories:
                moved.add(id)
                story = self.stories[id] = self.stories[id] or Story()
                story.add(event)
        return moved

    async def _events(self, upto: int) -> AsyncIterator[Event]:
        while self.seq < upto:
            entries = await self._store.journal.read(self._shard, self.seq, upto)
            if not entries or entries[0].first_seq > self.seq + 1:
                # Retention was faster, or numbers are missing, which is told of elsewhere.
                self.is_torn = True
                return
            for entry in entries:
                for event in entry.events(self._shard):
                    yield event
            self.seq = entries[-1].last_seq


def is_another(before: Bounds, after: Bounds) -> bool:
    """Whether a journal is not the one that it was: its queue was deleted and made anew, or has lost its end."""
    if before.last_seq < before.first_seq:
        return after.last_seq < before.last_seq
    return (
        after.last_seq < before.last_seq
        or after.first_seq < before.first_seq
        or (after.first_seq == before.first_seq and after.first_at_ms != before.first_at_ms)
    )


async def look_again(store: Store, queue: Queue, tails: Mapping[Shard, Tail]) -> Looked:
    """Judge the jobs of a queue that the tails have stories of, each as soon as it stood still for a look.

    What moves meanwhile is asked for again, in smaller and smaller batches, `AUDIT_ROUNDS` times.
    """
    findings, left = check_ids([(shard, id) for shard, tail in tails.items() for id in tail.stories])
    size = BATCH_MAX
    for _ in range(AUDIT_ROUNDS):
        again: list[tuple[Shard, str]] = []
        for first in range(0, len(left), size):
            some = left[first : first + size]
            found, moved = await _look(store, queue, tails, some)
            findings += found
            again += moved
        left, size = again, max(size // 5, 1)
        if not left:
            break
    return Looked(findings, len(left))


async def _look(
    store: Store, queue: Queue, tails: Mapping[Shard, Tail], some: Sequence[tuple[Shard, str]]
) -> tuple[list[Finding], list[tuple[Shard, str]]]:
    """Findings, and those that moved while they were looked at."""
    shards = list(dict.fromkeys(shard for shard, _ in some))
    for shard in shards:
        await tails[shard].go_on()
    # At the first of all instants nothing is over yet: so what is not swept is shown, and nothing seems to be missing.
    found = await store.reads.find(queue, [id for _, id in some], now_ms=0)
    strangers: dict[Shard, set[str]] = defaultdict(set)
    for (shard, id), known in zip(some, found, strict=True):
        if known is None and tails[shard].stories[id] is None:
            strangers[shard].add(id)
    hidden = {shard: await _scan_for(store, shard, ids) for shard, ids in strangers.items()}
    moved = {shard: await tails[shard].go_on() for shard in shards}
    findings: list[Finding] = []
    again: list[tuple[Shard, str]] = []
    for (shard, id), given in zip(some, found, strict=True):
        tail, known = tails[shard], given or hidden.get(shard, {}).get(id)
        if tail.is_torn or id in moved[shard]:
            again.append((shard, id))
        else:
            findings += judge(shard, id, tail.stories[id], known, tail.is_whole)
    return findings, again


async def _scan_for(store: Store, shard: Shard, ids: set[str]) -> dict[str, Found]:
    """What a scan shows of these jobs, which nobody enqueued: a store does not look for a job where its counters say
    that there is none."""
    seen: dict[str, Found] = {}
    cursor: str | None = None
    while len(seen) < len(ids):
        part = await store.reads.scan(shard, "alive", cursor=cursor)
        seen |= {each.id: each for each in part.rows if each.id in ids}
        cursor = part.cursor
        if cursor is None:
            break
    return seen
