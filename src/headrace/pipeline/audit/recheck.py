"""Reads differing jobs again and judges those at rest; checks counters, damage and misplaced ids of the store."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.event import Bounds, Event
from headrace.model.integrity import FLAWS, Findings
from headrace.model.job import State, check_id
from headrace.model.limits import AUDIT_ROUNDS, BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Found
from headrace.model.validate import cut
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.audit.judge import JobHistory, judge
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.stores.contract.store import Store

_REPAIR_HINT = "headrace doctor --repair"
_DELETE_HINT = "no call finds it; delete it by hand, and find out who writes to the store besides Headrace"
_UNREADABLE_HINT = "the event is unknown: check the disk of the store, and restore a copy if there is one"
_OVERLAP_HINT = "readers of this journal miss events: a job that seems to wait or run may be finished; check its work"
_EXACT_COUNTERS = ("waiting", "active", "blocked")
"""The other counters include jobs that have expired and are not swept yet."""

Histories = dict[str, JobHistory | None]
"""Histories of the jobs of a shard by id; None for a job without events."""


class RecheckResult(Struct, frozen=True):
    """The result of a recheck."""

    findings: list[Finding]
    moving: int
    """Jobs that moved during every round."""


class JournalTail:
    """The events of a shard after those that Spark has read, which continue the histories of its jobs."""

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
                # Dropped by retention, or missing, which is a separate finding.
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


async def check_records(store: Store, shard: Shard) -> AsyncIterator[Finding]:
    """Findings of damaged records and wrong counters, each from one consistent read."""
    cursor: str | None = None
    while True:
        found = await store.integrity.check(shard, cursor=cursor)
        for finding in _integrity_findings(shard, found, is_first=cursor is None):
            yield finding
        cursor = found.cursor
        if cursor is None:
            return


def _integrity_findings(shard: Shard, found: Findings, is_first: bool) -> list[Finding]:
    findings = [
        _finding(shard, "damage", each.id, f"{each.flaw}: {FLAWS[each.flaw].partition(';')[0]}")
        for each in found.problems
    ]
    findings += [
        _finding(shard, "count", None, f"{each.counter} is kept as {each.kept:,}, counted {each.counted:,}")
        for each in found.count_mismatches
    ]
    findings += [
        replace(
            _finding(shard, "damage", None, "", _UNREADABLE_HINT),
            journal=f"a line that cannot be read: {each.why}",
            seq=each.seq,
        )
        for each in found.unreadable
    ]
    findings += [
        replace(_finding(shard, "duplicate", None, "", _OVERLAP_HINT), journal=str(each), seq=each.seq)
        for each in found.breaks
        if each.is_overlap  # gaps are found where the events are read
    ]
    if is_first:
        findings += [
            _finding(shard, "damage", each.id, f"quarantined: a call did not find its {each.what} and went on")
            for each in found.quarantine
        ]
    return findings


def _finding(shard: Shard, what: Any, id: str | None, store: str, hint: str = _REPAIR_HINT) -> Finding:
    queue = shard.queue
    return Finding(
        what=what,
        tenant=queue.tenant,
        queue=queue.full_name,
        shard=shard.index,
        id=id,
        journal="",
        store=store,
        hint=hint,
    )


def check_ids(ids: Sequence[tuple[Shard, str]]) -> tuple[list[Finding], list[tuple[Shard, str]]]:
    """Findings of invalid ids, and the valid ids: a store refuses to look up an invalid one."""
    findings: list[Finding] = []
    valid: list[tuple[Shard, str]] = []
    for shard, id in ids:
        try:
            check_id(id, shard.queue)
        except Refused as refused:
            findings.append(
                _finding(shard, "damage", cut(id), f"a record under an invalid id: {refused}", _DELETE_HINT)
            )
        else:
            valid.append((shard, id))
    return findings, valid


async def check_counts(
    store: Store, queue: Queue, row_counts: Mapping[str, int], last_seqs: Mapping[Shard, int]
) -> Finding | None:
    """A finding of counters that differ from the rows that were read; None if there are events behind `last_seqs`, from
    before the read."""
    counts = await store.queues.counts(queue)
    bounds = await bounds_of(store.journal, queue.all_shards())
    if any(each.last_seq != last_seqs.get(shard) for shard, each in bounds.items()):
        return None
    differences = [
        f"{getattr(counts, state):,} {state} counted, {row_counts.get(state, 0):,} read"
        for state in _EXACT_COUNTERS
        if getattr(counts, state) != row_counts.get(state, 0)
    ]
    return _finding(Shard(queue, 0), "count", None, "; ".join(differences)) if differences else None


async def check_misplaced(store: Store, queue: Queue, misplaced: Sequence[tuple[Shard, str]]) -> list[Finding]:
    """Findings of jobs in a shard that their ids do not belong to, and whether their own shard has them as well."""
    findings, valid = check_ids(misplaced)
    for first in range(0, len(valid), BATCH_MAX):
        batch = valid[first : first + BATCH_MAX]
        answers = await store.reads.find(queue, [id for _, id in batch])
        for (shard, id), found in zip(batch, answers, strict=True):
            own = queue.shard_of(id).index
            is_twice = found is not None and found.state in (State.WAITING, State.ACTIVE)
            also = f", where it is {found.state} as well" if is_twice and found else ""
            findings.append(
                Finding(
                    what="twice" if is_twice else "misplaced",
                    tenant=queue.tenant,
                    queue=queue.full_name,
                    shard=shard.index,
                    id=id,
                    journal="",
                    store=f"in shard {shard.index}; its id belongs to shard {own}{also}",
                    hint="no call finds it there; delete it by hand, or restore the queue with the shards it had",
                )
            )
    return findings
