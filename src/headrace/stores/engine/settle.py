"""Settle and extend: ends deliveries or extends leases, each only while its lease holds."""

from msgspec.structs import replace

from headrace.model.claim import Lease, Settlement
from headrace.model.decision import Kill, Requeue, decide
from headrace.model.results import Extended, LeaseRefusal, Settled
from headrace.stores.engine.finish import conclude, sweep_finished_jobs
from headrace.stores.engine.step import Step
from headrace.stores.shared.lookup import Row


def refusal(row: Row | None, lease: Lease, now_ms: int) -> LeaseRefusal | None:
    """Why a lease does not hold, in the order not active, expired, mismatch; None when it holds."""
    if row is None or row.delivery is None:
        return "not_active"
    if row.delivery.expires_at_ms <= now_ms:
        return "lease_expired"
    if row.delivery.token != lease.token:
        return "lease_mismatch"
    return None


def settle(step: Step, settlements: list[Settlement]) -> list[Settled]:
    """End the deliveries of one shard, in order."""
    step.rows.load([each.lease.id for each in settlements])
    if step.worker is None and settlements:
        step.worker = settlements[0].facts.worker
    answers = [_settle_one(step, each) for each in settlements]
    if any(answer.status in ("done", "cancelled") for answer in answers):
        sweep_finished_jobs(step)
    return answers


def _settle_one(step: Step, settlement: Settlement) -> Settled:
    lease = settlement.lease
    row = step.rows.job(lease.id)
    refused = refusal(row, lease, step.now_ms)
    if row is None or row.delivery is None or refused is not None:
        return Settled(lease.id, refused or "not_active")
    decision = decide(row.record, settlement.outcome, row.delivery.cancel_asked, step.rows.config, step.now_ms)
    record, dead_letter = conclude(step, decision, row.delivery, settlement.facts)
    if isinstance(decision, Requeue):
        return Settled(lease.id, "retried" if decision.event == "retried" else "released", record.run_at_ms)
    if isinstance(decision, Kill):
        return Settled(lease.id, "dead", dead_letter=dead_letter)
    return Settled(lease.id, decision.event)


def extend(step: Step, leases: list[Lease], lease_ms: int) -> list[Extended]:
    """Extend the leases of one shard, in order."""
    step.rows.load([lease.id for lease in leases])
    return [_extend_one(step, lease, lease_ms) for lease in leases]


def _extend_one(step: Step, lease: Lease, lease_ms: int) -> Extended:
    row = step.rows.job(lease.id)
    refused = refusal(row, lease, step.now_ms)
    if row is None or row.delivery is None or refused is not None:
        return Extended(lease.id, refused or "not_active")
    delivery = replace(row.delivery, expires_at_ms=step.now_ms + lease_ms)
    step.rows.put(Row(row.record, delivery))
    longer = Lease(lease.queue, lease.id, delivery.token, delivery.fence, delivery.expires_at_ms)
    return Extended(lease.id, "extended", longer, delivery.cancel_asked)
