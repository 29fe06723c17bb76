"""Settle and extend: ends deliveries and jobs, or extends leases, each only while its lease holds."""

import base64
import json

from msgspec.structs import replace

from headrace.model.claim import Delivery, Facts, Lease, Settlement
from headrace.model.decision import Decision, Finish, Kill, Reason, Requeue, decide
from headrace.model.event import EventName, EventRecord
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import Record
from headrace.model.limits import SWEEP_PER_CALL_MAX
from headrace.model.names import FAIL_KIND
from headrace.model.outcome import JobError
from headrace.model.results import Extended, LeaseRefusal, Settled
from headrace.stores.engine.step import Step
from headrace.stores.shared.lookup import Row


def refusal(row: Row | None, lease: Lease, now_ms: int) -> LeaseRefusal | None:
    """Why a lease does not hold, in the order not active, expired, mismatch; None when it holds."""
    if row is None or row.delivery is None:
        return "not_active"
    if row.delivery.expires_at_ms <= now_ms:
        return "lease_expired"
    if row.delivery.token != lease.token:
        return "lease_mismatch"
    return None


def settle(step: Step, settlements: list[Settlement]) -> list[Settled]:
    """End the deliveries of one shard, in order."""
    step.rows.load([each.lease.id for each in settlements])
    if step.worker is None and settlements:
        step.worker = settlements[0].facts.worker
    answers = [_settle_one(step, each) for each in settlements]
    if any(answer.status in ("done", "cancelled") for answer in answers):
        sweep_finished_jobs(step)
    return answers


def _settle_one(step: Step, settlement: Settlement) -> Settled:
    lease = settlement.lease
    row = step.rows.job(lease.id)
    refused = refusal(row, lease, step.now_ms)
    if row is None or row.delivery is None or refused is not None:
        return Settled(lease.id, refused or "not_active")
    decision = decide(row.record, settlement.outcome, row.delivery.cancel_asked, step.rows.config, step.now_ms)
    record, dead_letter = conclude(step, decision, row.delivery, settlement.facts)
    if isinstance(decision, Requeue):
        return Settled(lease.id, "retried" if decision.event == "retried" else "released", record.run_at_ms)
    if isinstance(decision, Kill):
        return Settled(lease.id, "dead", dead_letter=dead_letter)
    return Settled(lease.id, decision.event)


def extend(step: Step, leases: list[Lease], lease_ms: int) -> list[Extended]:
    """Extend the leases of one shard, in order."""
    step.rows.load([lease.id for lease in leases])
    return [_extend_one(step, lease, lease_ms) for lease in leases]


def _extend_one(step: Step, lease: Lease, lease_ms: int) -> Extended:
    row = step.rows.job(lease.id)
    refused = refusal(row, lease, step.now_ms)
    if row is None or row.delivery is None or refused is not None:
        return Extended(lease.id, refused or "not_active")
    delivery = replace(row.delivery, expires_at_ms=step.now_ms + lease_ms)
    step.rows.put(Row(row.record, delivery))
    longer = Lease(lease.queue, lease.id, delivery.token, delivery.fence, delivery.expires_at_ms)
    return Extended(lease.id, "extended", longer, delivery.cancel_asked)


def facts_of(step: Step, record: Record, delivery: Delivery) -> Facts:
    """The facts of a delivery that no worker has settled."""
    return Facts(
        record.kind,
        record.tag,
        step.rows.config.priority_of(record.policy),
        delivery.worker,
        record.enqueued_at_ms,
        max(delivery.claimed_at_ms - record.due_since_ms, 0),
        len(record.payload),
        max(step.now_ms - delivery.claimed_at_ms, 0),
    )


def conclude(step: Step, decision: Decision, delivery: Delivery, facts: Facts) -> tuple[Record, DeadLetterKey | None]:
    """Apply the decision on a delivery; returns the record and, if it died, its dead letter."""
    match decision:
        case Requeue(record, event):
            return _wait_again(step, record, event, delivery, facts), None
        case Finish(record, event, result):
            step.rows.drop(record.id)
            end(step, record, event, result)
            step.note(delivered(event, record, delivery, facts, step.worker))
            free_blocked_job(step, record.id)
            return record, None
        case Kill(record, reason, error):
            step.rows.drop(record.id)
            key = die(step, record, reason, error, delivered("dead", record, delivery, facts, step.worker))
            free_blocked_job(step, record.id)
            return record, key


def delivered(event: EventName, record: Record, delivery: Delivery, facts: Facts, worker: str | None) -> EventRecord:
    """The line of an event that ends a delivery."""
    waits = event in ("retried", "released", "stalled")
    error = record.error if event in ("retried", "dead") else None
    return EventRecord(
        event,
        record.id,
        facts.kind,
        facts.tag,
        facts.priority,
        record.attempts,
        record.stalls,
        delivery.fence,
        None if facts.worker == worker else facts.worker,
        record.run_at_ms if waits else None,
        facts.enqueued_at_ms,
        facts.wait_ms,
        facts.run_ms,
        error_class=None if error is None else error.cls,
        error_message=None if error is None else error.message,
        payload_bytes=facts.payload_bytes,
    )


def _wait_again(step: Step, record: Record, event: EventName, delivery: Delivery, facts: Facts) -> Record:
    blocked_job = step.rows.blocked_job(record.id)
    step.note(delivered(event, record, delivery, facts, step.worker))
    if blocked_job is not None:
        step.rows.drop_blocked_job(record.id)
        record = blocked_job.applied(record)
    record = step.wait(record)
    if blocked_job is not None:
        step.note(step.line_of("merged", record))
    return record


def free_blocked_job(step: Step, id: str) -> None:
    """Turn the blocked job of an ended job into a waiting one."""
    blocked_job = step.rows.blocked_job(id)
    if blocked_job is not None:
        step.rows.drop_blocked_job(id)
        step.note(step.line_of("unblocked", step.wait(blocked_job.freed())))


def end(step: Step, record: Record, state: str, result: bytes | None = None) -> None:
    """Store a finished job for as long as the queue or the job sets."""
    config, now_ms = step.rows.config, step.now_ms
    pin_ms = config.result_ttl_of(record.policy)
    keep_ms = pin_ms or (config.keep_done_ms if config.keep_done_max else 0)
    if keep_ms:
        step.rows.put_finished_job(
            FinishedJob(
                record.id,
                "done" if state == "done" else "cancelled",
                record.kind,
                record.tag,
                record.enqueued_at_ms,
                now_ms,
                now_ms + keep_ms,
                pin_ms > 0,
                record.attempts,
                record.stalls,
                result,
            )
        )
    else:
        # A finished job of the same id may be left from before the blocked job.
        step.rows.drop_finished_job(record.id)


def sweep_finished_jobs(step: Step) -> int:
    """Drop finished jobs beyond the queue's bounds."""
    return step.rows.sweep_finished_jobs(step.now_ms, step.rows.config.keep_done_max, SWEEP_PER_CALL_MAX)


def die(step: Step, record: Record, reason: Reason, error: JobError, line: EventRecord) -> DeadLetterKey:
    """Write the dead letter of a dropped job, and a job for the fail handler, if there is one."""
    rows, config, now_ms = step.rows, step.rows.config, step.now_ms
    rows.counters.dead_letter += 1
    key = DeadLetterKey(rows.shard.index, rows.counters.dead_letter)
    record = replace(record, order_key=None)
    rows.put_dead_letter(DeadLetter(key, record, reason, error, now_ms, now_ms + config.keep_dead_ms))
    step.note(replace(line, reason=reason, dead_letter=key.number, error_class=error.cls, error_message=error.message))
    sweep_dead_letters(step, 2)
    if config.fail_handler and not rows.shard.queue.is_fail_queue:
        fail_queue = step.fail_queue()
        failed = Record(
            id=f"{record.id}#{key.number}",
            kind=FAIL_KIND,
            payload=fail_payload(record, reason, error),
            run_at_ms=now_ms,
            enqueued_at_ms=now_ms,
            tag=record.tag,
            headers=record.headers,
        )
        fail_queue.note(fail_queue.line_of("enqueued", fail_queue.wait(failed)))
    return key


def sweep_dead_letters(step: Step, limit: int) -> int:
    """Drop dead letters beyond the queue's bounds, each with its event; returns how many."""
    over = step.rows.dead_letters_over(step.now_ms, step.rows.config.keep_dead_max, limit)
    for dead_letter in over:
        purge_dead_letter(step, dead_letter)
    return len(over)


def purge_dead_letter(step: Step, dead_letter: DeadLetter) -> None:
    """Drop one dead letter, with its event."""
    step.rows.drop_dead_letter(dead_letter.key.number)
    step.note(
        EventRecord(
            "purged",
            dead_letter.record.id,
            dead_letter.record.kind,
            dead_letter.record.tag,
            dead_letter=dead_letter.key.number,
        )
    )


def fail_payload(record: Record, reason: str, error: JobError) -> bytes:
    """The payload of a fail job: `[id, payload, error]`. A payload that is not JSON becomes `{"base64": …}`."""
    text = json.dumps({"class": error.cls, "message": error.message, "reason": reason}, ensure_ascii=False)
    payload = record.payload
    if not _is_json(payload):
        payload = json.dumps({"base64": base64.b64encode(payload).decode()}).encode()
    return b"[%s,%s,%s]" % (json.dumps(record.id, ensure_ascii=False).encode(), payload, text.encode())


def _is_json(payload: bytes) -> bool:
    # Strict UTF-8 without NaN, which only Python accepts; numbers of any size stay unconverted. Nesting too deep to
    # check must not keep a job from dying.
    try:
        json.loads(payload.decode(), parse_int=str, parse_float=str, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(name)
