"""Unpacks the values that the functions store into records, and packs the heads of bodies."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Literal, NamedTuple

import msgspec

from headrace.model.claim import Delivery
from headrace.model.decision import Reason
from headrace.model.feed import Changed, ChangeEvent, FeedCursor, Item, ItemPosition, Where
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import NO_HEADERS, BlockedJob, Record
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.stores.engine.feed_rows import ItemRow

_HEAD = struct.Struct(">HIHIIIHBBH")
BODY_TAIL = struct.Struct(">IH")
"""The sizes of payload and headers, which follow the head of a body."""
HEAD_AT = 20
"""Where the times and counts of a body end, which differ from job to job."""
_FIELDS = ("timeout_ms", "max_attempts", "max_stalls", "backoff_ms", "backoff_ms_max", "result_ttl_ms", "expires_at_ms")
_NO_PRIORITY = 255
COUNTERS = (
    "epoch",
    "seq",
    "at",
    "fence",
    "number",
    "dead_letter",
    "first",
    "bytes",
    "oldest",
    "finished_number",
    "done",
    "cancelled",
    "freed",
    "blocked",
    "over_at",
)
"""The counters of a shard in the order in which they are packed."""
_COUNTERS = struct.Struct(f"<{len(COUNTERS)}d")
_FINISHED_JOB_HEAD_AT = 20
_REASONS: dict[int, Reason] = {ord("a"): "attempts", ord("s"): "stalls", ord("f"): "failed", ord("e"): "expired"}
_json = msgspec.json.Encoder().encode
_unpack_headers = msgspec.msgpack.Decoder(dict[str, str]).decode


def counters_of(packed: bytes) -> dict[str, int]:
    """The counters in the `head` field of a shard."""
    return dict(zip(COUNTERS, map(int, _COUNTERS.unpack(packed)), strict=True))


def pack_counters(counters: Mapping[str, int]) -> bytes:
    """The `head` field of a shard with these counters."""
    return _COUNTERS.pack(*(counters[name] for name in COUNTERS))


def pack_uint48(number: int) -> bytes:
    """A time or a duration in six bytes."""
    return number.to_bytes(6, "big")


def _uint48_at(packed: bytes, at: int) -> int:
    return int.from_bytes(packed[at : at + 6], "big")


@lru_cache(4_096)
def pack_plain_head(kind: str, tag: str | None) -> tuple[bytes, str]:
    """As `pack_head`, without a policy: most jobs set none, and hashing one costs as much as all the rest."""
    return pack_head(kind, tag, NO_POLICY)


@lru_cache(4_096)
def pack_head(kind: str, tag: str | None, policy: Policy) -> tuple[bytes, str]:
    """The head of a new body behind its times, and the kind and tag as members of its journal line."""
    values = [getattr(policy, field) for field in _FIELDS]
    mask = sum(1 << bit for bit, value in enumerate(values) if value is not None)
    fields = b"".join(pack_uint48(value) for value in values if value is not None)
    priority = _NO_PRIORITY if policy.priority is None else policy.priority
    labels = kind.encode() + (tag or "").encode()
    size = _HEAD.size + len(fields) + len(labels)
    head = bytes(8) + struct.pack(">HBBH", size, priority, mask, len(kind.encode())) + fields + labels
    members = '"kind":' + _json(kind).decode() + ("" if tag is None else ',"tag":' + _json(tag).decode())
    return head, members


@lru_cache(1_024)
def _policy_of(priority: int, mask: int, fields: bytes) -> Policy:
    values = (_uint48_at(fields, at) for at in range(0, len(fields), 6))
    fields_set = {field: next(values) for bit, field in enumerate(_FIELDS) if mask & 1 << bit}
    return Policy(priority=None if priority == _NO_PRIORITY else priority, **fields_set)


def record_of(id: str, packed: bytes, order_key: int | None) -> Record:
    """The record of a body."""
    since, since_low, due, due_low, attempts, stalls, size, priority, mask, kind_size = _HEAD.unpack_from(packed)
    policy, at = NO_POLICY, _HEAD.size
    if mask or priority != _NO_PRIORITY:
        at += 6 * mask.bit_count()
        policy = _policy_of(priority, mask, packed[_HEAD.size : at])
    payload_size, headers_size = BODY_TAIL.unpack_from(packed, size)
    payload_at = size + BODY_TAIL.size
    headers_at = payload_at + payload_size
    error_at = headers_at + headers_size
    error, failed_at_ms = _error_at(packed, error_at) if error_at < len(packed) else (None, None)
    return Record(
        id=id,
        kind=packed[at : at + kind_size].decode(),
        payload=packed[payload_at:headers_at],
        run_at_ms=due << 32 | due_low,
        enqueued_at_ms=since << 32 | since_low,
        policy=policy,
        tag=packed[at + kind_size : size].decode() if size > at + kind_size else None,
        headers=_unpack_headers(packed[headers_at:error_at]) if headers_size else NO_HEADERS,
        attempts=attempts,
        stalls=stalls,
        error=error,
        failed_at_ms=failed_at_ms,
        order_key=order_key,
    )


class BodyShape(NamedTuple):
    """The common parts of bodies with the same kind, tag and policy, and how to read the rest."""

    head: bytes
    """The bytes between the counts of a body and its payload; they decide all fields that follow here."""
    read: Callable[[bytes], tuple[int, ...]]
    """A body's times in two parts each, attempts, stalls, and the sizes of payload and headers."""
    payload_at: int
    kind: str
    tag: str | None
    policy: Policy


NO_SHAPE = BodyShape(bytes(2), _HEAD.unpack_from, 0, "", None, NO_POLICY)
"""The shape of no body, since every body has a size."""


def shape_of(packed: bytes) -> BodyShape:
    """The shape of a body; others of the same shape satisfy `packed.startswith(shape.head, HEAD_AT)`."""
    return _shape_of(packed[HEAD_AT : int.from_bytes(packed[HEAD_AT : HEAD_AT + 2], "big")])


@lru_cache(1_024)
def _shape_of(head: bytes) -> BodyShape:
    size = HEAD_AT + len(head)
    record = record_of("", bytes(HEAD_AT) + head + BODY_TAIL.pack(0, 0), None)
    read = struct.Struct(f">HIHIII{len(head)}xIH").unpack_from
    return BodyShape(head, read, size + BODY_TAIL.size, record.kind, record.tag, record.policy)


def _error_at(packed: bytes, at: int) -> tuple[JobError, int]:
    size = int.from_bytes(packed[at + 6 : at + 8], "big")
    cls, message = packed[at + 8 : at + 8 + size], packed[at + 8 + size :]
    return JobError(cls.decode(), message.decode()), _uint48_at(packed, at)


def delivery_of(packed: bytes, expires_at_ms: int) -> Delivery:
    """The delivery of an active job, with the end of its lease."""
    token, worker, _ = packed[7:].split(b"\0", 2)
    nonce, _, fence = token.decode().rpartition(".")
    return Delivery(int(fence), nonce, worker.decode(), _uint48_at(packed, 1), expires_at_ms, packed[:1] == b"1")


def blocked_job_of(id: str, packed: bytes) -> BlockedJob:
    """A blocked job."""
    flags = packed[0]
    return BlockedJob(
        record=record_of(id, packed[13:], None),
        update_payload=bool(flags & 1),
        update_policy=bool(flags & 2),
        reset_counts=bool(flags & 4),
        lo_ms=_uint48_at(packed, 1) - 1,
        hi_ms=_uint48_at(packed, 7),
    )


def finished_job_of(id: str, packed: bytes) -> FinishedJob:
    """A finished job."""
    since, since_low, _, _, attempts, stalls, size, _, mask, kind_size = _HEAD.unpack_from(
        packed, _FINISHED_JOB_HEAD_AT
    )
    kind_at = _FINISHED_JOB_HEAD_AT + _HEAD.size + 6 * mask.bit_count()
    result_at = _FINISHED_JOB_HEAD_AT + size
    state: Literal["done", "cancelled"] = "done" if packed[:1] == b"d" else "cancelled"
    return FinishedJob(
        id,
        state,
        packed[kind_at : kind_at + kind_size].decode(),
        packed[kind_at + kind_size : result_at].decode() or None,
        since << 32 | since_low,
        _uint48_at(packed, 2),
        _uint48_at(packed, 8),
        packed[1:2] == b"1",
        attempts,
        stalls,
        packed[result_at + 1 :] if len(packed) > result_at else None,
    )


def dead_letter_of(shard: int, number: int, packed: bytes) -> DeadLetter:
    """A dead letter."""
    id_size, class_size, message_size = struct.unpack_from(">HHH", packed, 13)
    class_at = 19 + id_size
    message_at = class_at + class_size
    body_at = message_at + message_size
    return DeadLetter(
        DeadLetterKey(shard, number),
        record_of(packed[19:class_at].decode(), packed[body_at:], None),
        _REASONS[packed[0]],
        JobError(packed[class_at:message_at].decode(), packed[message_at:body_at].decode()),
        _uint48_at(packed, 1),
        _uint48_at(packed, 7),
    )


WHERE: dict[Where, str] = {"first": "f", "last": "l", "before": "b", "after": "a"}
_WHERE_BY_CODE = {ord(sign): where for where, sign in WHERE.items()}
_EVENTS: dict[int, ChangeEvent] = {
    ord("c"): "created",
    ord("g"): "configured",
    ord("d"): "deleted",
    ord("p"): "published",
    ord("e"): "edited",
    ord("r"): "retracted",
    ord("m"): "moved",
}
_EVICTION_REASONS: dict[int, Literal["count", "age"]] = {ord("c"): "count", ord("o"): "age"}
_CHANGE_HEAD = Struct(">BBHIHI6xH")
"""Event and mark, epoch and time in two parts each, six bytes for the functions only, size of the instance."""


def row_of(id: bytes, packed: bytes) -> ItemRow:
    """An item with its rank."""
    end = 8 + int.from_bytes(packed[6:8])
    return ItemRow(id.decode(), packed[end:], packed[8:end].decode(), int.from_bytes(packed[:6]))


def item_of(id: str, packed: bytes) -> Item:
    """An item."""
    return Item(id, packed[8 + int.from_bytes(packed[6:8]) :], int.from_bytes(packed[:6]))


def items_of(flat: Sequence[bytes]) -> list[Item]:
    """Items whose ids and values come in turn."""
    return [item_of(id.decode(), packed) for id, packed in zip(flat[::2], flat[1::2], strict=True)]


def cursor_of(birth: bytes, epoch: bytes, seq: bytes) -> FeedCursor:
    """A position in a log."""
    return FeedCursor(birth.decode(), int(epoch), int(seq))


def change_of(entry: Sequence[Any]) -> Changed:
    """An entry of a log."""
    name, (_, head, _, id, _, item) = entry
    event, mark, epoch_high, epoch_low, at_high, at_low, instance_size = _CHANGE_HEAD.unpack_from(head)
    end = _CHANGE_HEAD.size + instance_size
    return Changed(
        seq=int(name.partition(b"-")[0]),
        epoch=(epoch_high << 32) + epoch_low,
        at_ms=(at_high << 32) + at_low,
        event=_EVENTS[event],
        instance=head[_CHANGE_HEAD.size : end].decode(),
        id=id.decode(),
        item=item,
        position=_position_of(event, mark, head[end:]),
        reason=_EVICTION_REASONS.get(mark) if event == ord("r") else None,
    )


def _position_of(event: int, mark: int, neighbour: bytes) -> ItemPosition | None:
    if event not in b"pm" or mark not in _WHERE_BY_CODE:
        return None
    return ItemPosition(_WHERE_BY_CODE[mark], neighbour.decode() or None)
