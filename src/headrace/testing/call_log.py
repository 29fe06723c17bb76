"""Records the jobs sent, claimed and settled in a kit, as seen by the store."""

from collections.abc import Sequence
from typing import Any

from headrace.model.claim import Claim, Settlement
from headrace.model.clock import Clock
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Enqueued, Settled
from headrace.stores.contract.store import Store
from headrace.testing.forwarding_store import StoreCall
from headrace.testing.sent_jobs import SentRecord

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
