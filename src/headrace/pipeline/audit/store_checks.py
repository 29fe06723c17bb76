"""Checks the store by itself: damaged records, wrong counters, and jobs in a shard that is not theirs."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.integrity import FLAWS, Findings
from headrace.model.job import State, check_id
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.validate import cut
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.stores.contract.store import Store

_REPAIR_HINT = "headrace doctor --repair"
_DELETE_HINT = "no call finds it; delete it by hand, and find out who writes to the store besides Headrace"
_UNREADABLE_HINT = "the event is unknown: check the disk of the store, and restore a copy if there is one"
_OVERLAP_HINT = "readers of this journal miss events: a job that seems to wait or run may be finished; check its work"
_EXACT_COUNTERS = ("waiting", "active", "blocked")
"""The other counters include jobs that have expired and are not swept yet."""


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
