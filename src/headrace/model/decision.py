"""Decides what follows when a delivery ends, from the record, the queue's configuration and the outcome alone."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.job import Record
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import QueueConfig, backoff

Reason = Literal["attempts", "stalls", "failed", "expired"]
STALLED = JobError("Stalled", "the lease ran out before the delivery was settled")
EXPIRED = JobError("Expired", "the job was not started before its expires_at_ms")


class Requeue(Struct, frozen=True, gc=False):
    """The job waits again; `record` has its new time and counters."""

    record: Record
    event: Literal["retried", "released", "stalled"]


class Finish(Struct, frozen=True, gc=False):
    """The job has ended, done or cancelled."""

    record: Record
    event: Literal["done", "cancelled"]
    result: bytes | None = None


class Kill(Struct, frozen=True, gc=False):
    """The job becomes a dead letter."""

    record: Record
    reason: Reason
    error: JobError


Decision = Requeue | Finish | Kill


def decide(record: Record, outcome: Outcome, cancel_asked: bool, config: QueueConfig, now_ms: int) -> Decision:
    """What follows a settlement. Done and Fail win over a requested cancel; the cancel wins over the retry budget."""
    match outcome:
        case Done(result):
            return Finish(record, "done", result)
        case Cancelled():
            return Finish(record, "cancelled")
        case Failed(error):
            return Kill(_failed(record, error, now_ms), "failed", error)
        case Retried(error, delay_ms, jitter_ppm):
            failed = _failed(record, error, now_ms)
            if cancel_asked:
                return Finish(failed, "cancelled")
            rules = config.effective(record.policy)
            if failed.attempts >= rules.max_attempts:
                return Kill(failed, "attempts", error)
            if delay_ms is None:
                delay_ms = backoff(failed.attempts, rules.backoff_ms, rules.backoff_ms_max, jitter_ppm)
            return Requeue(replace(failed, run_at_ms=now_ms + delay_ms), "retried")
        case Released(delay_ms):
            if cancel_asked:
                return Finish(record, "cancelled")
            return Requeue(replace(record, run_at_ms=now_ms + delay_ms), "released")


def decide_stall(record: Record, cancel_asked: bool, config: QueueConfig, now_ms: int) -> Decision:
    """What follows an expired lease: the job is due again at once, or has ended."""
    stalled = replace(record, stalls=record.stalls + 1, error=STALLED, failed_at_ms=now_ms)
    if cancel_asked:
        return Finish(stalled, "cancelled")
    if stalled.stalls >= config.effective(record.policy).max_stalls:
        return Kill(stalled, "stalls", STALLED)
    return Requeue(replace(stalled, run_at_ms=now_ms), "stalled")


def is_expired(record: Record, now_ms: int) -> bool:
    """Whether it is too late to start: a job may start while `now_ms <= expires_at_ms`."""
    return record.policy.expires_at_ms is not None and now_ms > record.policy.expires_at_ms


def _failed(record: Record, error: JobError, now_ms: int) -> Record:
    return replace(record, attempts=record.attempts + 1, error=error, failed_at_ms=now_ms)
