"""Enqueue: adds jobs, merges known ids, and honours idempotency keys."""

from msgspec.structs import replace

from headrace.model.job import Job, Record, block, record_of, upsert
from headrace.model.limits import SWEEP_PER_CALL_MAX
from headrace.model.results import Enqueued
from headrace.stores.engine.rows import KeyRow
from headrace.stores.engine.step import Step, number_at, order_key_of
from headrace.stores.shared.lookup import Row


def enqueue(step: Step, jobs: list[Job]) -> list[Enqueued]:
    """Enqueue the jobs of one shard, in order."""
    step.rows.load([job.id for job in jobs])
    answers = [_enqueue_one(step, job) for job in jobs]
    if any(job.idempotency_key is not None for job in jobs):
        step.rows.sweep_keys(step.now_ms, SWEEP_PER_CALL_MAX)
    return answers


def _enqueue_one(step: Step, job: Job) -> Enqueued:
    rows, now_ms = step.rows, step.now_ms
    if job.idempotency_key is not None:
        used = rows.key(job.id, job.idempotency_key)
        if used is not None and now_ms < used.until_ms:
            if used.fingerprint == job.fingerprint:
                return Enqueued(job.id, "duplicate", used.until_ms)
            return Enqueued(job.id, "conflict")
    row = rows.job(job.id)
    blocked_job = None if row is None else rows.blocked_job(job.id)
    if (row is None or (row.delivery is not None and blocked_job is None)) and _is_full(step):
        return Enqueued(job.id, "full")
    if job.idempotency_key is not None:
        ttl_ms = rows.config.idempotency_ttl_ms if job.idempotency_ttl_ms is None else job.idempotency_ttl_ms
        rows.put_key(job.id, job.idempotency_key, KeyRow(job.fingerprint, now_ms + ttl_ms))
    if row is None:
        rows.drop_finished_job(job.id)
        step.note(step.line_of("enqueued", step.wait(record_of(job, now_ms))))
        return Enqueued(job.id, "created")
    if row.delivery is None:
        step.note(step.line_of("updated", _update(step, row.record, job)))
        return Enqueued(job.id, "updated")
    blocked_job = block(blocked_job, job, now_ms)
    rows.put_blocked_job(blocked_job)
    step.note(step.line_of("blocked", blocked_job.record))
    return Enqueued(job.id, "blocked")


def _update(step: Step, old: Record, job: Job) -> Record:
    record = upsert(old, job, step.now_ms)
    if record.run_at_ms > step.now_ms:
        order_key = None
    elif old.order_key is None:
        order_key = step.draw(record)
    else:
        # Still due: it keeps its number, under its present priority.
        order_key = order_key_of(step.rows.config.priority_of(record.policy), number_at(old.order_key))
    record = replace(record, order_key=order_key)
    step.rows.put(Row(record))
    step.woke = True
    return record


def _is_full(step: Step) -> bool:
    return step.rows.waiting_count() >= step.rows.config.waiting_max
