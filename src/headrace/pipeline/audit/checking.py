"""What the store itself says of its records: damage, counters, and jobs in a shard that is not theirs."""

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

_REPAIR = "headrace doctor --repair"
_BY_HAND = "no call finds it; delete it by hand, and find out who writes to the store besides Headrace"
_UNREAD = "what happened is not known: look at the store's disk, and restore it if there is a copy"
_OVERLAP = "readers of this journal miss events, so a job that seems to wait or run may be over; compare with its work"
_COUNTED = ("waiting", "active", "blocked")
"""States whose counters are exact; of the others, some may be over and not yet swept."""


async def check_records(store: Store, shard: Shard) -> AsyncIterator[Finding]:
    """Records that do not fit together, and counters that are off, each as it was at one instant."""
    cursor: str | None = None
    while True:
        found = await store.integrity.check(shard, cursor=cursor)
        for finding in _told(shard, found, is_first=cursor is None):
            yield finding
        cursor = found.cursor
        if cursor is None:
            return


def _told(shard: Shard, found: Findings, is_first: bool) -> list[Finding]:
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
            _finding(shard, "damage", None, "", _UNREAD),
            journal=f"a line that cannot be read: {each.why}",
            seq=each.seq,
        )
        for each in found.unreadable
    ]
    findings += [
        replace(_finding(shard, "doubled", None, "", _OVERLAP), journal=str(each), seq=each.seq)
        for each in found.breaks
        if each.is_overlap  # what is missing is found where the events are read
    ]
    if is_first:
        findings += [
            _finding(shard, "damage", each.id, f"quarantined: a call missed its {each.what} and went on without")
            for each in found.quarantine
        ]
    return findings


def _finding(shard: Shard, what: Any, id: str | None, store: str, hint: str = _REPAIR) -> Finding:
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
    """Ids that no job can have, as findings, and the others: a store refuses to be asked for what is no id."""
    findings: list[Finding] = []
    others: list[tuple[Shard, str]] = []
    for shard, id in ids:
        try:
            check_id(id, shard.queue)
        except Refused as refused:
            findings.append(_finding(shard, "damage", cut(id), f"a record under what is no id: {refused}", _BY_HAND))
        else:
            others.append((shard, id))
    return findings, others


async def check_counts(
    store: Store, queue: Queue, shown: Mapping[str, int], stood: Mapping[Shard, int]
) -> Finding | None:
    """Counters of a queue that differ from the rows that were shown; None if it moved since `stood`, the last seqs when
    the rows were asked for."""
    counts = await store.queues.counts(queue)
    bounds = await bounds_of(store.journal, queue.all_shards())
    if any(each.last_seq != stood.get(shard) for shard, each in bounds.items()):
        return None
    wrong = [
        f"{getattr(counts, state):,} {state} counted, {shown.get(state, 0):,} shown"
        for state in _COUNTED
        if getattr(counts, state) != shown.get(state, 0)
    ]
    return _finding(Shard(queue, 0), "count", None, "; ".join(wrong)) if wrong else None


async def check_misplaced(store: Store, queue: Queue, misplaced: Sequence[tuple[Shard, str]]) -> list[Finding]:
    """Jobs in a shard that their ids do not belong to, and whether their own shard has them as well."""
    findings, findable = check_ids(misplaced)
    for first in range(0, len(findable), BATCH_MAX):
        some = findable[first : first + BATCH_MAX]
        known = await store.reads.find(queue, [id for _, id in some])
        for (shard, id), found in zip(some, known, strict=True):
            own = queue.shard_of(id).index
            is_twice = found is not None and found.state in (State.WAITING, State.ACTIVE)
            also = f"; there it is {found.state} as well" if is_twice and found else ""
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
