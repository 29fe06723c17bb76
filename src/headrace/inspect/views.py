"""The JSON of records, policies, leases, finished jobs and dead letters."""

import base64

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import asdict

from headrace.inspect.jobs import ErrorView, instant_or_none
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import Record
from headrace.model.names import Queue
from headrace.model.policy import Policy, QueueConfig
from headrace.model.results import Found
from headrace.model.times import instant_text


class RecordView(Struct, frozen=True, kw_only=True):
    """The record of a live or dead job."""

    id: str
    kind: str
    tag: str | None
    headers: dict[str, str]
    attempts: int
    stalls: int
    enqueued_at: str
    enqueued_at_ms: int
    run_at: str
    run_at_ms: int
    failed_at: str | None
    failed_at_ms: int | None
    error: ErrorView | None
    payload_bytes: int
    payload: Raw | UnsetType = UNSET


class PolicySetting(Struct, frozen=True):
    """A setting of a policy, and whether the job or its queue sets it."""

    value: int | None
    source: str = field(name="from")


class LeaseView(Struct, frozen=True, kw_only=True):
    """The lease of an active job, without its token."""

    worker: str
    fence: int | None
    expires_at: str | None
    expires_at_ms: int | None
    cancel_asked: bool


class FinishedJobView(Struct, frozen=True, kw_only=True):
    """A job that is done or cancelled."""

    state: str
    kind: str
    tag: str | None
    attempts: int
    stalls: int
    enqueued_at: str
    enqueued_at_ms: int
    ended_at: str
    ended_at_ms: int
    kept_until_at: str
    kept_until_at_ms: int
    pinned: bool
    result: Raw | UnsetType = UNSET


class DeadLetterRow(RecordView, frozen=True, kw_only=True):
    """A dead letter: the record of its job, with the error that killed it, its key, its queue and the reason."""

    dead_letter: str
    queue: str
    reason: str
    died_at: str
    died_at_ms: int
    kept_until_at: str
    kept_until_at_ms: int


def encoded_view(encoded: bytes | None) -> Raw:
    """A payload or result as JSON; other bytes become {"base64": …}."""
    if encoded is None:
        return Raw(b"null")
    try:
        msgspec.json.decode(encoded)
    except (ValueError, RecursionError):
        return Raw(msgspec.json.encode({"base64": base64.b64encode(encoded).decode()}))
    return Raw(encoded)


def record_view(record: Record, *, payload: bool) -> RecordView:
    """The JSON of a record, with or without its payload."""
    return RecordView(
        id=record.id,
        kind=record.kind,
        tag=record.tag,
        headers=record.headers,
        attempts=record.attempts,
        stalls=record.stalls,
        enqueued_at=instant_text(record.enqueued_at_ms),
        enqueued_at_ms=record.enqueued_at_ms,
        run_at=instant_text(record.run_at_ms),
        run_at_ms=record.run_at_ms,
        failed_at=instant_or_none(record.failed_at_ms),
        failed_at_ms=record.failed_at_ms,
        error=ErrorView.of(record.error),
        payload_bytes=len(record.payload),
        payload=encoded_view(record.payload) if payload else UNSET,
    )


def policy_view(policy: Policy, config: QueueConfig) -> dict[str, PolicySetting]:
    """The policy of a job, setting by setting: its own first, else that of its queue."""
    own = {name: value for name, value in asdict(policy).items() if value is not None}
    rules = config.effective(policy)
    return {
        name: PolicySetting(own[name], "job") if name in own else PolicySetting(getattr(rules, name, None), "queue")
        for name in Policy.__struct_fields__
        if name in own or name != "expires_at_ms"
    }


def lease_view(found: Found) -> LeaseView | None:
    """The JSON of a lease, if the job is active."""
    if found.worker is None:
        return None
    return LeaseView(
        worker=found.worker,
        fence=found.fence,
        expires_at=instant_or_none(found.lease_expires_at_ms),
        expires_at_ms=found.lease_expires_at_ms,
        cancel_asked=found.cancel_asked,
    )


def finished_job_view(finished: FinishedJob, *, result: bool) -> FinishedJobView:
    """The JSON of a finished job, with or without its result."""
    return FinishedJobView(
        state=finished.state,
        kind=finished.kind,
        tag=finished.tag,
        attempts=finished.attempts,
        stalls=finished.stalls,
        enqueued_at=instant_text(finished.enqueued_at_ms),
        enqueued_at_ms=finished.enqueued_at_ms,
        ended_at=instant_text(finished.ended_at_ms),
        ended_at_ms=finished.ended_at_ms,
        kept_until_at=instant_text(finished.until_ms),
        kept_until_at_ms=finished.until_ms,
        pinned=finished.pinned,
        result=encoded_view(finished.result) if result else UNSET,
    )


def dead_letter_row(queue: Queue, dead_letter: DeadLetter, *, payload: bool) -> DeadLetterRow:
    """The JSON of a dead letter, with or without the payload of its job."""
    record = asdict(record_view(dead_letter.record, payload=payload))
    return DeadLetterRow(
        **record
        | {
            "dead_letter": str(dead_letter.key),
            "queue": queue.full_name,
            "reason": dead_letter.reason,
            "error": ErrorView.of(dead_letter.error),
            "died_at": instant_text(dead_letter.died_at_ms),
            "died_at_ms": dead_letter.died_at_ms,
            "kept_until_at": instant_text(dead_letter.until_ms),
            "kept_until_at_ms": dead_letter.until_ms,
        }
    )
