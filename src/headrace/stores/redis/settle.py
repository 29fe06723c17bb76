"""Settles and extends leases: arguments of the functions, and the meaning of their answers."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from headrace.model.claim import Lease, OwnSettlement, Settlement
from headrace.model.errors import HeadraceError
from headrace.model.finished import DeadLetterKey
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.results import Extended, LeaseRefusal, Settled
from headrace.stores.redis.client import Argument, RedisClient
from headrace.stores.redis.fanout import (
    ShardCall,
    ShardCountCache,
    ShardedBatch,
    call_batch,
    group_by_shard,
    queues_of,
)
from headrace.stores.redis.packing import pack_uint48
from headrace.stores.redis.queues import FailQueueRegistration

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_REFUSALS: dict[str, LeaseRefusal] = {"n": "not_active", "e": "lease_expired", "m": "lease_mismatch"}
_SETTLED: dict[str, Literal["done", "retried", "released", "dead", "cancelled"] | LeaseRefusal] = {
    "D": "done",
    "R": "retried",
    "L": "released",
    "X": "dead",
    "C": "cancelled",
    **_REFUSALS,
}
_CREATED = b"1"
"""The byte of a shard whose fail queue a death has created."""


class _SettledLine(msgspec.Struct, omit_defaults=True, gc=False):
    """The members of a journal line that a worker knows."""

    id: str
    kind: str
    tag: str | None = None
    priority: int | None = None
    fence: int | None = None
    worker: str | None = None
    enqueued_at_ms: int | None = None
    wait_ms: int | None = None
    run_ms: int | None = None
    payload_bytes: int | None = None


class _DoneLine(msgspec.Struct, omit_defaults=True, gc=False, tag_field="event", tag="done"):
    """The journal line of a done job."""

    id: str
    kind: str
    tag: str | None = None
    priority: int | None = None
    fence: int | None = None
    worker: str | None = None
    enqueued_at_ms: int | None = None
    wait_ms: int | None = None
    run_ms: int | None = None
    payload_bytes: int | None = None
    attempts: int | None = None
    stalls: int | None = None


class SettleCall:
    """Settles and extends leases, shard by shard."""

    def __init__(self, client: RedisClient, shard_counts: ShardCountCache, fail_queues: FailQueueRegistration) -> None:
        self._client = client
        self._shard_counts = shard_counts
        self._fail_queues = fail_queues

    async def settle(
        self, settlements: Sequence[Settlement], calls: Sequence[ShardCall[Settlement]], now: int | str
    ) -> list[Settled]:
        """Send settlements as `settle_calls` has grouped them; register the fail queues that deaths have created."""
        batch = ShardedBatch[Settled]([each.lease.id for each in settlements])
        created: list[Queue] = []
        replies = await call_batch(self._client, "settle", [now], calls, has_lead=True)
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, HeadraceError):
                batch.add_error(reply)
                continue
            await self._shard_counts.add_answer(call.shard, reply.answer)
            batch.add_answers(call.positions, settled_of(call.shard.index, call.items, reply.answer))
            if reply.lead == _CREATED:
                created.append(call.shard.queue)
        if created:
            await self._fail_queues.register(created)
        return batch.result()

    async def extend(self, leases: Sequence[Lease], lease_ms: int, now: int | str) -> list[Extended]:
        """Send leases that are to end `lease_ms` from the instant of the call."""
        groups = group_by_shard(leases, lambda lease: (lease.queue, lease.id))
        calls = [ShardCall(shard, positions, items, _extend_args(items)) for shard, positions, items in groups]
        await self._shard_counts.check(queues_of(calls))
        batch = ShardedBatch[Extended]([lease.id for lease in leases])
        replies = await call_batch(self._client, "extend", [now, lease_ms], calls, has_lead=True)
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, HeadraceError):
                batch.add_error(reply)
                continue
            await self._shard_counts.add_answer(call.shard, reply.answer)
            batch.add_answers(call.positions, _extended_of(call.items, reply.answer, reply.lead + lease_ms))
        return batch.result()


def settle_calls(settlements: Sequence[Settlement]) -> list[ShardCall[Settlement]]:
    """The settlements of each shard."""
    groups = group_by_shard(settlements, lambda each: (each.lease.queue, each.lease.id))
    return [ShardCall(shard, positions, items, _settle_args(items)) for shard, positions, items in groups]


def _settle_args(settlements: Sequence[Settlement]) -> list[Argument]:
    """The settlements of one shard as settle.lua takes them: the worker of the first is the entry's."""
    # Lines that go into the journal as they come cost the server a quarter less of a settle than members it joins.
    entry_worker = settlements[0].facts.worker
    args: list[Argument] = [entry_worker, "d" * len(settlements), b""]
    lines: list[_DoneLine] = []
    for settlement in settlements:
        outcome = settlement.outcome
        if type(outcome) is not Done or outcome.result is not None:
            return _mixed_args(settlements)
        lease, facts = settlement.lease, settlement.facts
        # The lease of a worker's own settlement is unchanged since the claim.
        is_own = type(settlement) is OwnSettlement
        lines.append(
            _DoneLine(
                lease.id,
                facts.kind,
                facts.tag,
                facts.priority,
                lease.fence if is_own else _fence_of(lease.token),
                None if facts.worker == entry_worker else facts.worker,
                facts.enqueued_at_ms,
                facts.wait_ms,
                facts.run_ms,
                facts.payload_bytes,
                facts.attempts,
                facts.stalls,
            )
        )
        args += (lease.id, lease.token + "\0" if is_own else _terminated_token(lease))
    args[2] = _encode_lines(lines)
    return args


def _mixed_args(settlements: Sequence[Settlement]) -> list[Argument]:
    entry_worker = settlements[0].facts.worker
    signs: list[str] = []
    args: list[Argument] = [entry_worker, "", ""]
    for settlement in settlements:
        lease, facts = settlement.lease, settlement.facts
        line = _SettledLine(
            lease.id,
            facts.kind,
            facts.tag,
            facts.priority,
            _fence_of(lease.token),
            None if facts.worker == entry_worker else facts.worker,
            facts.enqueued_at_ms,
            facts.wait_ms,
            facts.run_ms,
            facts.payload_bytes,
        )
        args += (lease.id, _terminated_token(lease), _encode(line)[1:-1])
        sign, detail = _pack_outcome(settlement.outcome)
        signs.append(sign)
        if sign != "d":
            args.append(detail)
    args[1] = "".join(signs)
    return args


def _pack_outcome(outcome: Outcome) -> tuple[str, bytes]:
    """An outcome as settle.lua takes it: its sign, and its result, delay or error."""
    match outcome:
        case Done(None):
            return "d", b""
        case Done(result):
            return "D", result or b""
        case Cancelled():
            return "c", b""
        case Released(delay_ms):
            return "l", pack_uint48(delay_ms)
        case Failed(error):
            return "f", _pack_error(error)
        case Retried(error, delay_ms, jitter_ppm):
            delay = 0 if delay_ms is None else delay_ms + 1
            return "r", pack_uint48(delay) + jitter_ppm.to_bytes(4, "big") + _pack_error(error)


def _pack_error(error: JobError) -> bytes:
    cls = error.cls.encode()
    return len(cls).to_bytes(2, "big") + cls + error.message.encode()


def _terminated_token(lease: Lease) -> str:
    """The token of a lease with the zero that ends it, so that it never matches a part of a stored token."""
    return "\0" if "\0" in lease.token else lease.token + "\0"


def _fence_of(token: str) -> int:
    # A valid token ends with its fence; the fence of another token is never written.
    digits = token[token.rfind(".") + 1 :]
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0


def settled_of(shard: int, settlements: Sequence[Settlement], answer: list[Any] | None) -> list[Settled]:
    """The answers of a shard; a shard that does not exist holds no lease."""
    if answer is None:
        return [Settled(each.lease.id, "not_active") for each in settlements]
    statuses = answer[0].decode()
    if len(answer) == 1:
        return [Settled(each.lease.id, _SETTLED[status]) for each, status in zip(settlements, statuses, strict=True)]
    numbers: Iterator[int] = iter(answer[1:])
    settled: list[Settled] = []
    for each, status in zip(settlements, statuses, strict=True):
        match status:
            case "R" | "L":
                settled.append(Settled(each.lease.id, _SETTLED[status], next(numbers)))
            case "X":
                settled.append(Settled(each.lease.id, "dead", dead_letter=DeadLetterKey(shard, next(numbers))))
            case _:
                settled.append(Settled(each.lease.id, _SETTLED[status]))
    return settled


def _extend_args(leases: Sequence[Lease]) -> list[Argument]:
    """The leases of one shard as extend.lua takes them."""
    return [len(leases), *(text for lease in leases for text in (lease.id, _terminated_token(lease)))]


def _extended_of(leases: Sequence[Lease], answer: bytes | None, expires_at_ms: int) -> list[Extended]:
    """The answers of a shard; a shard that does not exist holds no lease."""
    if answer is None:
        return [Extended(lease.id, "not_active") for lease in leases]
    extended: list[Extended] = []
    for lease, status in zip(leases, answer.decode(), strict=True):
        if status in _REFUSALS:
            extended.append(Extended(lease.id, _REFUSALS[status]))
        else:
            longer = Lease(lease.queue, lease.id, lease.token, _fence_of(lease.token), expires_at_ms)
            extended.append(Extended(lease.id, "extended", longer, status == "X"))
    return extended
