"""The jobs sent, claimed and settled in a test, with their arguments as handlers get them."""

import inspect
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from headrace.client.codec import Codec
from headrace.model.claim import Claim, Settlement
from headrace.model.clock import Clock
from headrace.model.errors import Refused
from headrace.model.job import Job, Record
from headrace.model.names import Queue
from headrace.model.results import Enqueued, Settled
from headrace.stores.contract.store import Store
from headrace.testing.faults import StoreCall
from headrace.worker.handlers import Handler


class SentRecord(Struct, frozen=True):
    """An enqueue in the call log."""

    queue: Queue
    record: Record
    at_ms: int


class SentJob(Struct, frozen=True):
    """A job enqueued while the kit was open. A job that was sent again before its claim is one job."""

    id: str
    kind: str
    queue: Queue
    arguments: dict[str, Any]
    """By name, as the handler's annotations read them; `{"payload": …}` for a kind that the app does not handle."""
    delay_ms: int
    """From the enqueue until it was due."""
    record: Record
    """The record in the store."""

    @property
    def tag(self) -> str | None:
        """Its tag."""
        return self.record.tag

    @property
    def headers(self) -> dict[str, str]:
        """Its headers."""
        return self.record.headers


def sent_job(sent: SentRecord, handler: Handler | None, codec: Codec) -> SentJob:
    """A job of the call log with its decoded arguments."""
    record = sent.record
    arguments = (
        {"payload": _decode_or_bytes(codec, record.payload)}
        if handler is None
        else named_arguments(handler, record.payload)
    )
    return SentJob(record.id, record.kind, sent.queue, arguments, record.run_at_ms - sent.at_ms, record)


def named_arguments(handler: Handler, payload: bytes) -> dict[str, Any]:
    """The arguments in a payload by name, as the annotations read them; or the payload itself when it does not fit."""
    try:
        args, kwargs = handler.arguments.decode(payload)
    except Refused:
        return {"payload": _decode_or_bytes(handler.codec, payload)}
    return dict(zip(parameters(handler), args, strict=False)) | kwargs


def parameters(handler: Handler) -> dict[str, inspect.Parameter]:
    """The parameters of a handler by name, without `**kwargs`."""
    found = inspect.signature(handler.function).parameters
    return {name: each for name, each in found.items() if each.kind is not inspect.Parameter.VAR_KEYWORD}


def takes_any(handler: Handler) -> bool:
    """Whether a handler has `**kwargs`."""
    found = inspect.signature(handler.function).parameters.values()
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found)


def _decode_or_bytes(codec: Codec, payload: bytes) -> Any:
    try:
        return codec.decode(payload)
    except Refused:
        return payload


Key = tuple[Queue, str]


class CallLog:
    """Written inside the faults, so that a job is recorded even if its reply is lost. Unbounded: a test is short."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._unclaimed: dict[Key, int] = {}
        """Unclaimed jobs with their index in `sent`: sending one again replaces its record."""
        self.sent: list[SentRecord] = []
        self.claims: list[Claim] = []
        self.settled: dict[str, tuple[Settlement, Settled]] = {}
        """By the token of the lease."""

    async def record(self, call: StoreCall, answer: Any) -> None:
        """Record a call; in the same turn of the store's loop."""
        match call.name:
            case "jobs.enqueue":
                await self._record_sent(call.argument(0, "jobs"), answer, call.kwargs.get("now_ms"))
            case "jobs.claim":
                self._record_claims(answer.items)
            case "jobs.settle":
                self._record_settled(call.argument(0, "settlements"), answer)
            case "jobs.turn":
                self._record_settled(call.argument(0, "settlements"), answer.settled)
                self._record_claims(answer.claimed)

    async def _record_sent(self, jobs: Sequence[Job], answers: Sequence[Enqueued], now_ms: int | None) -> None:
        at_ms = self._clock.now_ms() if now_ms is None else now_ms
        for job, answer in zip(jobs, answers, strict=True):
            if not answer.ok or answer.status == "duplicate":
                continue
            [found] = await self._store.reads.find(job.queue, [answer.id], now_ms=now_ms)
            assert found is not None  # it was sent in the same turn
            record = found.blocked_job if answer.status == "blocked" else found.record
            assert record is not None  # nor claimed since
            sent = SentRecord(job.queue, record, at_ms)
            key = job.queue, answer.id
            if key in self._unclaimed:
                self.sent[self._unclaimed[key]] = sent
            else:
                self._unclaimed[key] = len(self.sent)
                self.sent.append(sent)

    def _record_claims(self, claims: Sequence[Claim]) -> None:
        self.claims.extend(claims)
        for claim in claims:
            self._unclaimed.pop((claim.lease.queue, claim.lease.id), None)

    def _record_settled(self, settlements: Sequence[Settlement], answers: Sequence[Settled]) -> None:
        for settlement, answer in zip(settlements, answers, strict=True):
            if answer.ok:
                self.settled[settlement.lease.token] = settlement, answer
