"""Settlements and leases: what functions are told of them, and what their answers stand for."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from headrace.model.claim import Lease, OwnSettlement, Settlement
from headrace.model.finished import DeadLetterKey
from headrace.model.outcome import Done
from headrace.model.results import Extended, LeaseRefusal, Settled
from headrace.stores.redis.client import Argument
from headrace.stores.redis.packing import pack_outcome


class _Said(msgspec.Struct, omit_defaults=True, gc=False):
    """The members of a line that a worker knows."""

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


class _Done(msgspec.Struct, omit_defaults=True, gc=False, tag_field="event", tag="done"):
    """The line of a job that is done."""

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


def settle_args(settlements: Sequence[Settlement]) -> list[Argument]:
    """The settlements of one shard as settle takes them: the worker of the first is the entry's."""
    # Lines that go into the journal as they come cost the server a quarter less of a settle than members it joins.
    entry_worker = settlements[0].facts.worker
    args: list[Argument] = [entry_worker, "d" * len(settlements), b""]
    lines: list[_Done] = []
    for settlement in settlements:
        outcome = settlement.outcome
        if type(outcome) is not Done or outcome.result is not None:
            return _various_args(settlements)
        lease, facts = settlement.lease, settlement.facts
        # A worker's own is as the store handed it out.
        is_own = type(settlement) is OwnSettlement
        lines.append(
            _Done(
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
        args += (lease.id, lease.token + "\0" if is_own else ended_token(lease))
    args[2] = _encode_lines(lines)
    return args


def _various_args(settlements: Sequence[Settlement]) -> list[Argument]:
    entry_worker = settlements[0].facts.worker
    hows: list[str] = []
    args: list[Argument] = [entry_worker, "", ""]
    for settlement in settlements:
        lease, facts = settlement.lease, settlement.facts
        said = _Said(
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
        args += (lease.id, ended_token(lease), _encode(said)[1:-1])
        how, outcome = pack_outcome(settlement.outcome)
        hows.append(how)
        if how != "d":
            args.append(outcome)
    args[1] = "".join(hows)
    return args


def ended_token(lease: Lease) -> str:
    """The token of a lease with the zero that ends it, so that no part of a stored one matches."""
    return "\0" if "\0" in lease.token else lease.token + "\0"


def _fence_of(token: str) -> int:
    # A token that holds ends with its fence; what another one says is never written.
    digits = token[token.rfind(".") + 1 :]
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0


def settled_of(shard: int, settlements: Sequence[Settlement], answer: list[Any] | None) -> list[Settled]:
    """What a shard answered; one that is not there holds no lease."""
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


def extend_args(leases: Sequence[Lease]) -> list[Argument]:
    """The leases of one shard as extend takes them."""
    return [len(leases), *(text for lease in leases for text in (lease.id, ended_token(lease)))]


def extended_of(leases: Sequence[Lease], answer: bytes | None, expires_at_ms: int) -> list[Extended]:
    """What a shard answered; one that is not there holds no lease."""
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
