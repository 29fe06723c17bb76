"""Rechecks jobs that differ: reads them again, and judges those without an event in between."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Struct

from headrace.model.event import Bounds, Event
from headrace.model.limits import AUDIT_ROUNDS, BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Found
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.audit.job_history import JobHistory
from headrace.pipeline.audit.judge import judge
from headrace.pipeline.audit.store_checks import check_ids
from headrace.stores.contract.store import Store

Histories = dict[str, JobHistory | None]
"""Histories of the jobs of a shard by id; None for a job without events."""


class RecheckResult(Struct, frozen=True):
    """The result of a recheck."""

    findings: list[Finding]
    moving: int
    """Jobs that moved during every round."""


class JournalTail:
    """The events of a shard behind those that Spark has read, which continue the histories of some of its jobs."""

    def __init__(self, store: Store, shard: Shard, bounds: Bounds, seq: int, histories: Histories) -> None:
        self._store, self._shard, self._first = store, shard, bounds
        self.seq = seq
        """Of the last event in the histories."""
        self.histories = histories
        self.is_incomplete = False
        """Whether events were dropped before they were read, or the queue was created again: then no job is judged."""

    @property
    def is_whole(self) -> bool:
        """Whether the journal had its first event when Spark read it."""
        return self._first.first_seq == 1

    async def read_on(self) -> set[str]:
        """Apply the events up to the end; return the ids of the jobs that have moved."""
        bounds = await self._store.journal.bounds(self._shard)
        if bounds.last_seq < self.seq or was_replaced(self._first, bounds):
            self.is_incomplete = True
            return set()
        moved: set[str] = set()
        async for event in self._events(bounds.last_seq):
            id = event.line.id
            if id is not None and id in self.histories:
                moved.add(id)
                history = self.histories[id] = self.histories[id] or JobHistory()
                history.add(event)
        return moved

    async def _events(self, upto: int) -> AsyncIterator[Event]:
        while self.seq < upto:
            entries = await self._store.journal.read(self._shard, self.seq, upto)
            if not entries or entries[0].first_seq > self.seq + 1:
                # Dropped by retention, or missing, which is a finding of its own.
                self.is_incomplete = True
                return
            for entry in entries:
                for event in entry.events(self._shard):
                    yield event
            self.seq = entries[-1].last_seq


def was_replaced(before: Bounds, after: Bounds) -> bool:
    """Whether a journal is another one than before: its queue was deleted and created again, or it lost its end."""
    if before.last_seq < before.first_seq:
        return after.last_seq < before.last_seq
    return (
        after.last_seq < before.last_seq
        or after.first_seq < before.first_seq
        or (after.first_seq == before.first_seq and after.first_at_ms != before.first_at_ms)
    )


async def recheck_jobs(store: Store, queue: Queue, tails: Mapping[Shard, JournalTail]) -> RecheckResult:
    """Judge the jobs of a queue that the tails have histories of, each in the first round in which it does not move.

    There are `AUDIT_ROUNDS` rounds, in smaller and smaller batches.
    """
    findings, remaining = check_ids([(shard, id) for shard, tail in tails.items() for id in tail.histories])
    size = BATCH_MAX
    for _ in range(AUDIT_ROUNDS):
        moved: list[tuple[Shard, str]] = []
        for first in range(0, len(remaining), size):
            batch = remaining[first : first + size]
            found, moved_in_batch = await _recheck_batch(store, queue, tails, batch)
            findings += found
            moved += moved_in_batch
        remaining, size = moved, max(size // 5, 1)
        if not remaining:
            break
    return RecheckResult(findings, len(remaining))


async def _recheck_batch(
    store: Store, queue: Queue, tails: Mapping[Shard, JournalTail], batch: Sequence[tuple[Shard, str]]
) -> tuple[list[Finding], list[tuple[Shard, str]]]:
    """Findings, and the jobs that moved meanwhile."""
    shards = list(dict.fromkeys(shard for shard, _ in batch))
    for shard in shards:
        await tails[shard].read_on()
    # At time 0 nothing has expired: a record that is not swept yet must not seem to be missing.
    found = await store.reads.find(queue, [id for _, id in batch], now_ms=0)
    without_events: dict[Shard, set[str]] = defaultdict(set)
    for (shard, id), record in zip(batch, found, strict=True):
        if record is None and tails[shard].histories[id] is None:
            without_events[shard].add(id)
    scanned = {shard: await _scan_for(store, shard, ids) for shard, ids in without_events.items()}
    moved = {shard: await tails[shard].read_on() for shard in shards}
    findings: list[Finding] = []
    again: list[tuple[Shard, str]] = []
    for (shard, id), answer in zip(batch, found, strict=True):
        tail, record = tails[shard], answer or scanned.get(shard, {}).get(id)
        if tail.is_incomplete or id in moved[shard]:
            again.append((shard, id))
        else:
            findings += judge(shard, id, tail.histories[id], record, tail.is_whole)
    return findings, again


async def _scan_for(store: Store, shard: Shard, ids: set[str]) -> dict[str, Found]:
    """Records of these jobs without events from a scan: a store does not look up a job where its counters are zero."""
    records: dict[str, Found] = {}
    cursor: str | None = None
    while len(records) < len(ids):
        page = await store.reads.scan(shard, "alive", cursor=cursor)
        records |= {each.id: each for each in page.rows if each.id in ids}
        cursor = page.cursor
        if cursor is None:
            break
    return records
