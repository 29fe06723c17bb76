"""Records as bytes and columns, for stores of rows: what no statement looks at is packed, since columns cost time."""

from typing import Any

import msgspec

from headrace.model.claim import Delivery
from headrace.model.event import Consumer
from headrace.model.finished import Ending, Letter
from headrace.model.job import NO_HEADERS, Job, Record, Twin
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.stores.transitions.rows import Row


class Body(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a job. Written short when the rarely set fields at its end are not set."""

    kind: str
    tag: str | None
    enqueued_at_ms: int
    attempts: int = 0
    stalls: int = 0
    policy: Policy = NO_POLICY
    headers: dict[str, str] = NO_HEADERS
    error: JobError | None = None
    failed_at_ms: int | None = None


class PackedLease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a delivery."""

    worker: str
    claimed_at_ms: int
    cancel_asked: bool


pack = msgspec.msgpack.Encoder().encode
unpack_body = msgspec.msgpack.Decoder(Body).decode
unpack_lease = msgspec.msgpack.Decoder(PackedLease).decode
unpack_twin = msgspec.msgpack.Decoder(Twin).decode
unpack_letter = msgspec.msgpack.Decoder(Letter).decode


def due_since(run_at_ms: int, body: bytes) -> int:
    """Since when a job could have been handed out."""
    return max(run_at_ms, unpack_body(body).enqueued_at_ms)


def pack_body(job: Job | Record, enqueued_at_ms: int) -> bytes:
    """The body of a new job, or of a record."""
    if isinstance(job, Job):
        if job.policy is NO_POLICY and not job.headers:
            return pack((job.kind, job.tag, enqueued_at_ms))
        return pack(Body(job.kind, job.tag, enqueued_at_ms, 0, 0, job.policy, job.headers))
    if (
        not (job.attempts or job.stalls or job.headers or job.error or job.failed_at_ms is not None)
        and job.policy == NO_POLICY
    ):
        return pack((job.kind, job.tag, enqueued_at_ms))
    return pack(
        Body(
            job.kind,
            job.tag,
            enqueued_at_ms,
            job.attempts,
            job.stalls,
            job.policy,
            job.headers,
            job.error,
            job.failed_at_ms,
        )
    )


def record_of(id: str, run_at_ms: int, body: Body, payload: bytes, place: int | None = None) -> Record:
    """A record from its columns."""
    return Record(
        id=id,
        kind=body.kind,
        payload=payload,
        run_at_ms=run_at_ms,
        enqueued_at_ms=body.enqueued_at_ms,
        policy=body.policy,
        tag=body.tag,
        headers=body.headers,
        attempts=body.attempts,
        stalls=body.stalls,
        error=body.error,
        failed_at_ms=body.failed_at_ms,
        place=place,
    )


def row_of(columns: tuple[Any, ...]) -> Row:
    """A job from its columns, in the order of job_load."""
    id, place, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload = columns
    record = record_of(id, run_at_ms, unpack_body(body), payload, place)
    if fence is None:
        return Row(record)
    packed = unpack_lease(lease)
    return Row(
        record,
        Delivery(fence, nonce, packed.worker, packed.claimed_at_ms, expires_at_ms, packed.cancel_asked),
    )


def lease_columns(delivery: Delivery) -> tuple[int, int, str, bytes]:
    """The columns of a delivery: its end, fence and nonce, and the rest of it packed."""
    lease = pack(PackedLease(delivery.worker, delivery.claimed_at_ms, delivery.cancel_asked))
    return delivery.expires_at_ms, delivery.fence, delivery.nonce, lease


def pack_ending(kind: str, tag: str | None, enqueued_at_ms: int, ended_at_ms: int, attempts: int, stalls: int) -> bytes:
    """What no statement looks at of an ending."""
    return pack((kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls))


def ending_columns(ending: Ending) -> tuple[object, ...]:
    """The columns of an ending, in the order of ending_find."""
    body = pack_ending(
        ending.kind, ending.tag, ending.enqueued_at_ms, ending.ended_at_ms, ending.attempts, ending.stalls
    )
    return ending.id, ending.state, ending.pinned, ending.until_ms, body, ending.result


def ending_of(columns: tuple[Any, ...]) -> Ending:
    """An ending from its columns."""
    id, state, pinned, until_ms, body, result = columns
    kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls = msgspec.msgpack.decode(body)
    return Ending(id, state, kind, tag, enqueued_at_ms, ended_at_ms, until_ms, bool(pinned), attempts, stalls, result)


def consumer_of(columns: tuple[Any, ...]) -> Consumer:
    """A consumer from its columns."""
    name, seq, hold, seen_at_ms = columns
    return Consumer(name, seq, bool(hold), seen_at_ms)
