"""Converts records to bytes and columns; fields that no SQL statement uses are packed, since columns cost time."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal

import msgspec

from headrace.model.claim import Delivery
from headrace.model.event import Consumer
from headrace.model.feed import FIRST, LAST, Changed, ChangeEvent, FeedConfig, ItemPosition
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import NO_HEADERS, BlockedJob, Job, Record
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.stores.engine.feed_rows import FeedCounters
from headrace.stores.shared.lookup import Row


class Body(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The packed fields of a job. Unset fields at its end are left out."""

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
    """The packed fields of a delivery."""

    worker: str
    claimed_at_ms: int
    cancel_asked: bool


pack = msgspec.msgpack.Encoder().encode
unpack_body = msgspec.msgpack.Decoder(Body).decode
unpack_lease = msgspec.msgpack.Decoder(PackedLease).decode
unpack_blocked_job = msgspec.msgpack.Decoder(BlockedJob).decode
unpack_dead_letter = msgspec.msgpack.Decoder(DeadLetter).decode


def due_since(run_at_ms: int, body: bytes) -> int:
    """The first instant at which a job could have been claimed."""
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


def record_of(id: str, run_at_ms: int, body: Body, payload: bytes, order_key: int | None = None) -> Record:
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
        order_key=order_key,
    )


def row_of(columns: tuple[Any, ...]) -> Row:
    """A job from its columns, in the order of job_load."""
    id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload = columns
    record = record_of(id, run_at_ms, unpack_body(body), payload, order_key)
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


def pack_finished_job(
    kind: str, tag: str | None, enqueued_at_ms: int, ended_at_ms: int, attempts: int, stalls: int
) -> bytes:
    """The packed fields of a finished job."""
    return pack((kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls))


def finished_job_columns(finished_job: FinishedJob) -> tuple[object, ...]:
    """The columns of a finished job, in the order of finished_job_find."""
    body = pack_finished_job(
        finished_job.kind,
        finished_job.tag,
        finished_job.enqueued_at_ms,
        finished_job.ended_at_ms,
        finished_job.attempts,
        finished_job.stalls,
    )
    return finished_job.id, finished_job.state, finished_job.pinned, finished_job.until_ms, body, finished_job.result


def finished_job_of(columns: tuple[Any, ...]) -> FinishedJob:
    """A finished job from its columns."""
    id, state, pinned, until_ms, body, result = columns
    kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls = msgspec.msgpack.decode(body)
    return FinishedJob(
        id, state, kind, tag, enqueued_at_ms, ended_at_ms, until_ms, bool(pinned), attempts, stalls, result
    )


def consumer_of(columns: tuple[Any, ...]) -> Consumer:
    """A consumer from its columns."""
    name, seq, hold, seen_at_ms = columns
    return Consumer(name, seq, bool(hold), seen_at_ms)


EVENTS: tuple[ChangeEvent, ...] = ("created", "configured", "deleted", "published", "edited", "retracted", "moved")
"""Events by their stored number: append only, never reorder."""
PIECE_MAX, PIECE_BYTES = 100, 64 * 1024
"""Changes of one call are stored in pieces of this size: a reader unpacks, and retention drops, whole pieces."""
_NUMBERS = {event: number for number, event in enumerate(EVENTS)}


class _ChangeFields(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The packed fields of a change; unset fields at its end are left out."""

    event: int
    epoch: int
    instance: str
    reason: Literal["count", "age"] | None = None
    where: Literal["first", "last", "before", "after"] | None = None
    neighbour: str | None = None


class _Line(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A change in a piece of its call; unset fields at its end are left out."""

    event: int
    id: str
    item: bytes
    reason: Literal["count", "age"] | None = None
    where: Literal["first", "last", "before", "after"] | None = None
    neighbour: str | None = None


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_ChangeFields).decode
_unpack_lines = msgspec.msgpack.Decoder(list[_Line]).decode


_counters = attrgetter(
    "epoch",
    "seq",
    "seq_epoch",
    "at_ms",
    "first_seq",
    "oldest_at_ms",
    "changes_bytes",
    "items",
    "total",
    "number",
)


def counters_of(counters: FeedCounters) -> tuple[int, ...]:
    """The counters that change, in the order of their columns, which follow birth and time of creation."""
    columns: tuple[int, ...] = _counters(counters)
    return columns


def counter_columns(counters: FeedCounters) -> tuple[Any, ...]:
    """All columns of the counters, as `FeedCounters` takes them."""
    return counters.birth, counters.created_at_ms, *counters_of(counters)


def write_config(config: FeedConfig) -> str:
    """The stored text of a configuration."""
    return msgspec.json.encode(config).decode()


@lru_cache(maxsize=1_024)  # the feeds of a busy store, at one version each
def read_config(text: str) -> FeedConfig:
    """The configuration of a stored text."""
    return msgspec.json.decode(text, type=FeedConfig)


def change_columns(change: Changed) -> tuple[int, int, bytes, bytes, bytes]:
    """The columns of a change: its number, its instant, the id in UTF-8, the rest packed, and the item."""
    event, position = _NUMBERS[change.event], change.position
    if position is not None:
        about = _pack((event, change.epoch, change.instance, change.reason, position.where, position.id))
    elif change.reason is not None:
        about = _pack((event, change.epoch, change.instance, change.reason))
    else:
        about = _pack((event, change.epoch, change.instance))
    return change.seq, change.at_ms, change.id.encode(), about, change.item


def change_of(columns: Sequence[Any]) -> Changed:
    """A change from its columns."""
    seq, at_ms, id, packed, item = columns
    about = _unpack(packed)
    return Changed(
        seq=seq,
        epoch=about.epoch,
        at_ms=at_ms,
        event=EVENTS[about.event],
        instance=about.instance,
        id=id.decode(),
        item=item,
        position=_position(about.where, about.neighbour),
        reason=about.reason,
    )


def pieces_of(changes: Sequence[Changed]) -> Iterator[tuple[int, int, int, str, bytes]]:
    """The changes of one call in pieces: the last number, the instant, the epoch, the instance, and the rest packed."""
    lines: list[tuple[object, ...]] = []
    size = 0
    for change in changes:
        lines.append(_line_of(change))
        size += len(change.item)
        if len(lines) == PIECE_MAX or size >= PIECE_BYTES or change is changes[-1]:
            yield change.seq, change.at_ms, change.epoch, change.instance, _pack(lines)
            lines, size = [], 0


def changes_of(columns: Sequence[Any], after: int) -> Iterator[Changed]:
    """The changes of a piece with `seq > after`."""
    last_seq, at_ms, epoch, instance, packed = columns
    for seq, line in _lines_behind(after, last_seq, packed):
        yield Changed(
            seq=seq,
            epoch=epoch,
            at_ms=at_ms,
            event=EVENTS[line.event],
            instance=instance,
            id=line.id,
            item=line.item,
            position=_position(line.where, line.neighbour),
            reason=line.reason,
        )


def sizes_of(columns: Sequence[Any], after: int) -> Iterator[tuple[int, int, int]]:
    """The number, instant and size of the changes of a piece with `seq > after`, for retention."""
    last_seq, at_ms, _, _, packed = columns
    for seq, line in _lines_behind(after, last_seq, packed):
        yield seq, at_ms, len(line.id.encode()) + len(line.item)


def _lines_behind(after: int, last_seq: int, packed: bytes) -> Iterator[tuple[int, _Line]]:
    lines = _unpack_lines(packed)
    first_seq = last_seq - len(lines) + 1
    skipped = max(after + 1 - first_seq, 0)
    return enumerate(lines[skipped:], first_seq + skipped)


def _line_of(change: Changed) -> tuple[object, ...]:
    event, position = _NUMBERS[change.event], change.position
    if position is not None:
        return event, change.id, change.item, change.reason, position.where, position.id
    if change.reason is not None:
        return event, change.id, change.item, change.reason
    return event, change.id, change.item


def _position(where: Literal["first", "last", "before", "after"] | None, neighbour: str | None) -> ItemPosition | None:
    match where:
        case None:
            return None
        case "first":
            return FIRST
        case "last":
            return LAST
        case _:
            return ItemPosition(where, neighbour)
