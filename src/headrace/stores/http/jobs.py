"""Jobs over HTTP: enqueue, claim, extend, settle, turn, repair, cancel and remove."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headrace.model.claim import (
    ClaimRequest,
    Claims,
    Lease,
    Settlement,
    check_lease_ms,
    check_leases,
    check_settlements,
)
from headrace.model.errors import OutcomeUnknown
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, REQUEST_BATCH_BYTES_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.model.results import Cancellation, Enqueued, Extended, Removed, Repaired, Settled, Turned
from headrace.model.validate import check_batch
from headrace.stores.http.connection import Request, ServiceConnections
from headrace.wire.claims import (
    ClaimAnswer,
    ClaimBody,
    ExtendAnswer,
    ExtendBody,
    LeaseBody,
    SettleAnswer,
    SettleBody,
    SettlementBody,
    TurnAnswer,
    TurnBody,
)
from headrace.wire.jobs import (
    CancelAnswer,
    CancelBody,
    EnqueueAnswers,
    IdsBody,
    NewJob,
    PackedJobs,
    RemoveAnswer,
    RepairBody,
)
from headrace.wire.queues import queue_body

T = TypeVar("T")
_BYTES_MAX = REQUEST_BATCH_BYTES_MAX // 2
"""Of payloads or results in a request: the other half is for everything around them."""


class HttpJobs:
    """Transitions of jobs; every batch is one request, unless it is larger than a request may be."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_batch("jobs", len(jobs), BATCH_MAX)
        for job in jobs:
            self._connections.check_tenant(job.queue.tenant)
        answers: list[Enqueued] = []
        for part in parts_of(jobs, lambda job: len(job.payload)):
            request = Request(
                path="/jobs/batch",
                body=PackedJobs([NewJob.of(job) for job in part]),
                ids=[job.id for job in part],
                now_ms=now_ms,
            )
            try:
                answers += [each.enqueued() for each in (await self._connections.call(request, EnqueueAnswers)).results]
            except OutcomeUnknown as lost:
                unknown = [*lost.unknown, *(job.id for job in jobs[len(answers) + len(part) :])]
                raise OutcomeUnknown(str(lost), known=answers, unknown=unknown) from lost
        return answers

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        call = Request(path="/claims", body=self._claim_body(request), ids=[], now_ms=now_ms)
        return (await self._connections.call(call, ClaimAnswer)).model(self._connections.tenant)

    def _claim_body(self, request: ClaimRequest) -> ClaimBody:
        for queue in request.queues:
            self._connections.check_tenant(queue.tenant)
        return ClaimBody(
            queues=[queue_body(queue) for queue in request.queues],
            worker=request.worker,
            nonce=request.nonce,
            limit=request.limit,
            lease_ms=request.lease_ms,
        )

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        check_leases(leases)
        check_lease_ms(lease_ms)
        for lease in leases:
            self._connections.check_tenant(lease.queue.tenant)
        bodies = [
            LeaseBody(queue=queue_body(each.queue), id=each.id, token=each.token, fence=each.fence) for each in leases
        ]
        ids = [each.id for each in leases]
        request = Request(path="/leases/extend", body=ExtendBody(bodies, lease_ms), ids=ids, now_ms=now_ms)
        answer = await self._connections.call(request, ExtendAnswer)
        return [
            Extended(
                each.id,
                each.status,
                None
                if each.expires_at_ms is None
                else Lease(lease.queue, lease.id, lease.token, lease.fence, each.expires_at_ms),
                each.cancel_asked,
            )
            for lease, each in zip(leases, answer.results, strict=True)
        ]

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_settlements(settlements)
        answers: list[Settled] = []
        for part in parts_of(settlements, _result_size):
            ids = [each.lease.id for each in part]
            request = Request(path="/leases/settle", body=SettleBody(self._bodies(part)), ids=ids, now_ms=now_ms)
            try:
                answers += [each.model() for each in (await self._connections.call(request, SettleAnswer)).results]
            except OutcomeUnknown as lost:
                unknown = [*lost.unknown, *(each.lease.id for each in settlements[len(answers) + len(part) :])]
                raise OutcomeUnknown(str(lost), known=answers, unknown=unknown) from lost
        return answers

    def _bodies(self, settlements: Sequence[Settlement]) -> list[SettlementBody]:
        for each in settlements:
            self._connections.check_tenant(each.lease.queue.tenant)
        return [SettlementBody.of(each) for each in settlements]

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_settlements(settlements)
        if sum(map(_result_size, settlements)) > _BYTES_MAX:
            settled = await self.settle(settlements, now_ms=now_ms)
            claims = await self.claim(request, now_ms=now_ms)
            return Turned(settled, claims.items, claims.next_at_ms, claims.now_ms)
        body = TurnBody(self._bodies(settlements), self._claim_body(request))
        ids = [each.lease.id for each in settlements]
        call = Request(path="/leases/turn", body=body, ids=ids, now_ms=now_ms)
        return (await self._connections.call(call, TurnAnswer)).model(self._connections.tenant)

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        path = f"{self._connections.queue_path(queue)}/repair"
        request = Request(path=path, body=RepairBody(limit, queue.shards), ids=[], now_ms=now_ms)
        return await self._connections.call(request, Repaired)

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        path = f"{self._connections.queue_path(queue)}/jobs/cancel"
        body = CancelBody(list(ids), running, queue.shards)
        return (
            await self._connections.call(Request(path=path, body=body, ids=ids, now_ms=now_ms), CancelAnswer)
        ).results

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        path = f"{self._connections.queue_path(queue)}/jobs/remove"
        body = IdsBody(list(ids), queue.shards)
        return (
            await self._connections.call(Request(path=path, body=body, ids=ids, now_ms=now_ms), RemoveAnswer)
        ).results


def parts_of(items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """The items in order, in parts that fit into a request; nothing is one empty part."""
    start, size = 0, 0
    for index, item in enumerate(items):
        size += size_of(item)
        if size > _BYTES_MAX and index > start:
            yield items[start:index]
            start, size = index, size_of(item)
    yield items[start:]


def _result_size(settlement: Settlement) -> int:
    outcome = settlement.outcome
    return len(outcome.result or b"") if isinstance(outcome, Done) else 0
