"""Claim: repair, promote, hand out."""

from collections.abc import Callable

from msgspec.structs import replace

from headrace.model.claim import Claim, ClaimRequest, Delivery, Lease
from headrace.model.decision import EXPIRED, decide_stall, is_expired
from headrace.model.event import EventRecord
from headrace.model.job import Record
from headrace.model.limits import (
    CLAIM_BYTES_MAX,
    EXPIRIES_PER_CALL_MAX,
    PROMOTIONS_PER_CALL_MAX,
    REPAIRS_PER_CALL_MAX,
    SWEEP_PER_CALL_MAX,
    WORKER_KEEP_MS,
    WORKER_SEEN_MS,
)
from headrace.model.results import Repaired
from headrace.stores.engine.journal import trim
from headrace.stores.engine.rows import Rows, WorkerRow
from headrace.stores.engine.settle import conclude, die, facts_of, sweep_dead_letters, sweep_finished_jobs
from headrace.stores.engine.step import Step
from headrace.stores.shared.lookup import Row

HandOut = Callable[[Step, ClaimRequest, int, int], list[Claim]]


def is_known(rows: Rows, request: ClaimRequest) -> bool:
    """Whether the shard has answered this claim before."""
    seen = rows.worker(request.worker)
    return seen is not None and seen.nonce == request.nonce


def known_claims(rows: Rows, request: ClaimRequest, now_ms: int) -> list[Claim]:
    """The claims of an earlier call with this nonce whose leases still hold."""
    return [
        claim_of(rows, row.record, row.delivery)
        for row in rows.of_nonce(request.nonce)
        if row.delivery is not None and row.delivery.worker == request.worker and now_ms < row.delivery.expires_at_ms
    ]


def claim(
    step: Step, request: ClaimRequest, limit: int, bytes_left: int, hand_out: HandOut | None = None
) -> list[Claim]:
    """Repair and promote on one shard, then hand out (a driver may pass a faster `hand_out`)."""
    repair(step, REPAIRS_PER_CALL_MAX)
    promote(step, PROMOTIONS_PER_CALL_MAX)
    claims = [] if step.rows.config.paused else (hand_out or hand_out_ready)(step, request, limit, bytes_left)
    seen = step.rows.worker(request.worker)
    if claims:
        step.rows.put_worker(request.worker, WorkerRow(request.nonce, step.now_ms))
    elif seen is None or seen.seen_at_ms <= step.now_ms - WORKER_SEEN_MS:
        step.rows.put_worker(request.worker, WorkerRow(seen.nonce if seen else "", step.now_ms))
    return claims


def hand_out_ready(step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
    """Hand out at most `limit` jobs and `bytes_left` bytes of bodies, in order; the first job of a call
    (`bytes_left == CLAIM_BYTES_MAX`) is always handed out."""
    rows, now_ms = step.rows, step.now_ms
    claims: list[Claim] = []
    expired, after_order_key = 0, -1
    # Ends: every round but the last hands out or expires a job, and both are bounded.
    while len(claims) < limit and expired < EXPIRIES_PER_CALL_MAX:
        batch = rows.ready(after_order_key, limit - len(claims))
        for row in batch:
            record = row.record
            after_order_key = record.order_key or 0
            if is_expired(record, now_ms):
                _expire(step, record)
                expired += 1
                if expired == EXPIRIES_PER_CALL_MAX:
                    break
                continue
            size = len(record.payload)
            if size > bytes_left and (claims or bytes_left < CLAIM_BYTES_MAX):
                return claims
            bytes_left -= size
            claims.append(_activate(step, record, request))
        if not batch:
            break
    return claims


def _activate(step: Step, record: Record, request: ClaimRequest) -> Claim:
    rows, now_ms = step.rows, step.now_ms
    rows.counters.fence += 1
    delivery = Delivery(rows.counters.fence, request.nonce, request.worker, now_ms, now_ms + request.lease_ms)
    record = replace(record, order_key=None)
    rows.put(Row(record, delivery))
    step.note(EventRecord("claimed", record.id, fence=delivery.fence))
    return claim_of(rows, record, delivery)


def claim_of(rows: Rows, record: Record, delivery: Delivery) -> Claim:
    """The claim of a delivery."""
    config, policy = rows.config, record.policy
    lease = Lease(rows.shard.queue, record.id, delivery.token, delivery.fence, delivery.expires_at_ms)
    priority, timeout_ms = config.priority_of(policy), config.timeout_of(policy)
    return Claim(lease, record, delivery.worker, priority, timeout_ms, delivery.claimed_at_ms)


def _expire(step: Step, record: Record) -> None:
    step.rows.drop(record.id)
    line = replace(step.line_of("dead", record), run_at_ms=None, enqueued_at_ms=record.enqueued_at_ms)
    die(step, record, "expired", EXPIRED, line)


def repair(step: Step, limit: int) -> int:
    """Repair expired leases, at most `limit`; returns how many."""
    overdue = step.rows.overdue(step.now_ms, limit)
    for row in overdue:
        if row.delivery is not None:
            decision = decide_stall(row.record, row.delivery.cancel_asked, step.rows.config, step.now_ms)
            conclude(step, decision, row.delivery, facts_of(step, row.record, row.delivery))
    if overdue:
        sweep_finished_jobs(step)
    return len(overdue)


def promote(step: Step, limit: int) -> int:
    """Make due later jobs ready, at most `limit`; returns how many."""
    due = step.rows.due(step.now_ms, limit)
    for row in due:
        step.rows.put(Row(replace(row.record, order_key=step.draw(row.record))))
    return len(due)


def is_idle(rows: Rows, request: ClaimRequest, now_ms: int) -> bool:
    """Whether a claim would change nothing on this shard, not even the time at which the worker was seen."""
    seen = rows.worker(request.worker)
    times = (rows.next_lease_end_ms(), rows.next_later_ms())
    return (
        seen is not None
        and seen.nonce != request.nonce
        and seen.seen_at_ms > now_ms - WORKER_SEEN_MS
        and all(each is None or each > now_ms for each in times)
        and (rows.config.paused or not rows.ready(-1, 1))
    )


def next_at(rows: Rows, now_ms: int) -> int | None:
    """When to claim from this shard again; a paused queue needs claims for repair only."""
    times = [rows.next_lease_end_ms()]
    if not rows.config.paused:
        times.append(rows.next_later_ms())
        if rows.ready(-1, 1):
            return now_ms
    known = [each for each in times if each is not None]
    return max(min(known), now_ms) if known else None


def sweep(step: Step, limit: int) -> Repaired:
    """The background sweep of one shard: expired leases, and rows past their retention."""
    rows, now_ms = step.rows, step.now_ms
    rows.number()
    stalled = repair(step, limit)
    swept = (
        sweep_finished_jobs(step),
        rows.sweep_keys(now_ms, SWEEP_PER_CALL_MAX),
        sweep_dead_letters(step, SWEEP_PER_CALL_MAX),
        rows.sweep_workers(now_ms - WORKER_KEEP_MS, SWEEP_PER_CALL_MAX),
        trim(rows, now_ms, SWEEP_PER_CALL_MAX),
    )
    return Repaired(stalled, sum(swept), stalled == limit or max(swept) >= SWEEP_PER_CALL_MAX)
