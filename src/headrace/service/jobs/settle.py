"""Extends leases and settles deliveries, in batches and one by one."""

from typing import Any

from headrace.model.claim import Facts, Settlement
from headrace.model.errors import Refused
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.results import LEASE_REFUSALS, Found
from headrace.model.validate import check_batch, check_text
from headrace.service.jobs.claim import claim_request
from headrace.service.operation import Call, Operation, Reply, scopes
from headrace.service.problems import RequestProblem
from headrace.service.queue_names import path_queue, queue_of_field
from headrace.wire.claims import (
    ExtendAnswer,
    ExtendBody,
    ExtendedLease,
    FactsBody,
    LeaseBody,
    OutcomeBody,
    OutcomeName,
    SettleAnswer,
    SettleBody,
    SettledJob,
    SettlementBody,
    TurnAnswer,
    TurnBody,
)

_REFUSED = {
    "not_active": "the job is not active: it was settled, cancelled, or its lease has run out; claim again",
    "lease_expired": "the lease has expired; claim again, and extend leases before they end",
    "lease_mismatch": "the token is of another delivery of this job; use the one of the newest claim",
}


async def extend(call: Call) -> Reply:
    """Extend leases."""
    body: ExtendBody = call.body
    check_batch("leases", len(body.leases), BATCH_MAX)
    return Reply(200, ExtendAnswer(await _extend(call, body)))


async def _extend(call: Call, body: ExtendBody) -> list[ExtendedLease]:
    leases = [each.lease(await queue_of_field(call, each.queue)) for each in body.leases]
    extended = await call.store.jobs.extend(leases, lease_ms=body.lease_ms, now_ms=call.now_ms)
    return [
        ExtendedLease(each.id, each.status, None if each.lease is None else each.lease.expires_at_ms, each.cancel_asked)
        for each in extended
    ]


async def settle(call: Call) -> Reply:
    """Settle deliveries."""
    body: SettleBody = call.body
    settled = await call.store.jobs.settle(await _settlements(call, body.settlements), now_ms=call.now_ms)
    return Reply(200, SettleAnswer([SettledJob.of(each) for each in settled]))


async def turn(call: Call) -> Reply:
    """Settle deliveries, then claim jobs."""
    body: TurnBody = call.body
    if body.claim.wait_ms:
        raise Refused("bad_wait_ms", "a turn does not wait; leave wait_ms out, and claim with it when a turn was empty")
    request = await claim_request(call, body.claim)
    turned = await call.store.jobs.turn(await _settlements(call, body.settlements), request, now_ms=call.now_ms)
    return Reply(200, TurnAnswer.of(turned, packed=call.packed))


async def _settlements(call: Call, bodies: list[SettlementBody]) -> list[Settlement]:
    check_batch("settlements", len(bodies), BATCH_MAX)
    queues = [await queue_of_field(call, each.queue) for each in bodies]
    looked_up = await _look_up(
        call, [(each.id, queue) for each, queue in zip(bodies, queues, strict=True) if each.facts is None]
    )
    packed = call.read_format.is_packed
    settlements = []
    for body, queue in zip(bodies, queues, strict=True):
        check_text("token", body.token, 1_024, 0)
        facts = body.facts
        if facts is None:
            facts = _facts_of(looked_up.get((body.id, queue)), _worker(call, "http"))
        settlements.append(body.settlement(queue, _checked(call, facts, body.run_ms), packed=packed))
    return settlements


async def _look_up(call: Call, wanted: list[tuple[str, Queue]]) -> dict[tuple[str, Queue], Found]:
    """The jobs of settlements that came without facts: they only feed the tenant's own journal."""
    found: dict[tuple[str, Queue], Found] = {}
    for queue in dict.fromkeys(queue for _, queue in wanted):
        ids = [id for id, other in wanted if other == queue]
        for row in await call.store.reads.find(queue, ids, now_ms=call.now_ms):
            if row is not None:
                found[row.id, queue] = row
    return found


def _facts_of(found: Found | None, worker: str) -> FactsBody:
    record = None if found is None else found.record
    if found is None or record is None:
        return FactsBody(kind="unknown", priority=0, worker=worker, enqueued_at_ms=0, wait_ms=0, payload_bytes=0)
    return FactsBody(
        kind=record.kind,
        tag=record.tag,
        priority=5 if record.policy.priority is None else record.policy.priority,
        worker=found.worker or worker,
        enqueued_at_ms=record.enqueued_at_ms,
        wait_ms=0,
        payload_bytes=len(record.payload),
        attempts=record.attempts,
        stalls=record.stalls,
    )


def _worker(call: Call, name: str) -> str:
    return name if call.service.settings.worker_names_as_given else call.caller.worker(name)


def _checked(call: Call, facts: FactsBody, run_ms: int) -> Facts:
    return Facts(
        facts.kind,
        facts.tag,
        facts.priority,
        _worker(call, facts.worker),
        facts.enqueued_at_ms,
        facts.wait_ms,
        facts.payload_bytes,
        run_ms,
        facts.attempts,
        facts.stalls,
    )


async def extend_one(call: Call) -> Reply:
    """Extend the lease of the job in the path."""
    queue, body = await path_queue(call), call.body
    lease = LeaseBody(queue=queue.full_name, id=call.path["id"], token=body.token)
    [extended] = await _extend(call, ExtendBody([lease], body.lease_ms))
    return await _one(call, queue, extended, extended.status)


def _settle_one(outcome: OutcomeName) -> Any:
    async def settle_one(call: Call) -> Reply:
        queue, body = await path_queue(call), call.body
        delay_ms = body.delay_ms
        if outcome == "retry" and delay_ms is not None:
            delay_ms = await _capped(call, queue, delay_ms)
        whole = SettlementBody(
            queue=queue.full_name,
            id=call.path["id"],
            token=body.token,
            outcome=outcome,
            result=body.result,
            result_base64=body.result_base64,
            error=body.error,
            delay_ms=delay_ms,
            run_ms=body.run_ms,
        )
        [settled] = await call.store.jobs.settle(await _settlements(call, [whole]), now_ms=call.now_ms)
        return await _one(call, queue, SettledJob.of(settled), settled.status)

    return settle_one


async def _capped(call: Call, queue: Queue, delay_ms: int) -> int:
    """A delay that is not longer than the job's longest backoff."""
    [found] = await call.store.reads.find(queue, [call.path["id"]], now_ms=call.now_ms)
    config = await call.store.queues.configuration(queue)
    if found is not None and found.record is not None:
        config = config.effective(found.record.policy)
    return min(delay_ms, config.backoff_ms_max)


async def _one(call: Call, queue: Queue, answer: ExtendedLease | SettledJob, status: str) -> Reply:
    """The answer for one job; a refused lease is a problem here, and an id that is not known is not found."""
    if status not in LEASE_REFUSALS:
        return Reply(200, answer)
    if status == "not_active":
        [found] = await call.store.reads.find(queue, [answer.id], now_ms=call.now_ms)
        if found is None:
            raise unknown_job()
    raise RequestProblem(status, _REFUSED[status], id=answer.id)


def unknown_job() -> RequestProblem:
    """The problem of an id that nothing is known of."""
    return RequestProblem("unknown_job", "nothing is known of this id on this queue (any more); check both")


_SINGLE = (
    ("done", "Settle a delivery as done, with a result."),
    ("retry", "Settle a delivery as failed, to be tried again."),
    ("fail", "Settle a delivery as failed for good: a dead letter."),
    ("release", "Give a job back, uncharged."),
)
OPERATIONS = (
    Operation(
        name="extend",
        method="POST",
        path="/leases/extend",
        summary="Extend up to 1,000 leases.",
        scopes=scopes("claim"),
        handler=extend,
        body=ExtendBody,
        answers={200: ExtendAnswer},
        problems=("batch_too_large",),
        is_batch=True,
        rate="write",
    ),
    Operation(
        name="settle",
        method="POST",
        path="/leases/settle",
        summary="Settle up to 1,000 deliveries.",
        scopes=scopes("claim"),
        handler=settle,
        body=SettleBody,
        answers={200: SettleAnswer},
        problems=("batch_too_large",),
        is_batch=True,
        rate="write",
    ),
    Operation(
        name="turn",
        method="POST",
        path="/leases/turn",
        summary="Settle deliveries, then claim jobs, in one request.",
        scopes=scopes("claim"),
        handler=turn,
        body=TurnBody,
        answers={200: TurnAnswer},
        problems=("batch_too_large",),
        is_batch=True,
        rate="write",
    ),
    Operation(
        name="extend_one",
        method="POST",
        path="/queues/{queue}/jobs/{id}/extend",
        summary="Extend the lease of one job.",
        scopes=scopes("claim"),
        handler=extend_one,
        body=OutcomeBody,
        answers={200: ExtendedLease},
        problems=("not_active", "lease_expired", "lease_mismatch", "unknown_job"),
        rate="write",
    ),
    *(
        Operation(
            name=f"{outcome}_one",
            method="POST",
            path=f"/queues/{{queue}}/jobs/{{id}}/{outcome}",
            summary=summary,
            scopes=scopes("claim"),
            handler=_settle_one(outcome),  # type: ignore[arg-type]  # the names above
            body=OutcomeBody,
            answers={200: SettledJob},
            problems=("not_active", "lease_expired", "lease_mismatch", "unknown_job"),
            rate="write",
        )
        for outcome, summary in _SINGLE
    ),
)
