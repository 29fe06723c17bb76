"""Rules for one delivery: when its handler must be stopped, and how it may be settled."""

from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.model.claim import Settlement
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from tests.simulation.history import Delivery, Run

BOUND_S = 0.02
"""The tolerance for stopping a handler: some turns of the loop, which take no virtual time."""
ROUND_TRIP_S = 0.2
"""A generous time for a call without faults."""
HEARTBEATS_TO_CANCEL = 1.5
"""A lease claimed less than half an interval ago is extended with the heartbeat after the next."""
REPEAT_UNTIL = 0.75
"""After this part of a lease, counted from the request, repeating a lost claim is useless."""
FENCED = 0.15
"""In this last part of a lease a worker may have given it up."""
RECOVERY_S = 12.0
"""How long after a fault a worker may still wait for its store."""
OUTCOMES: dict[str, type[Any]] = {"ok": Done, "raise": Retried, "retry": Retried, "fail": Failed, "release": Released}
"""The outcome of a handler that ended by itself."""
KNOWN_KINDS = frozenset({"quick", "heavy", "headrace.fail"})


def is_lost_claim_dropped(delivery: Delivery, nonce: str, now: float, now_ms: int) -> bool:
    """Whether a worker sends a new claim while the answer to its last one is lost: it has to repeat that one while the
    lease holds, or the job stalls for nothing."""
    use_until = delivery.sent_at + REPEAT_UNTIL * delivery.lease_s
    is_of_another = not delivery.claim.lease.token.startswith(f"{nonce}.")
    return delivery.received_at is None and now_ms < delivery.expires_ms and now < use_until and is_of_another


def settlements_of(verb: str, arguments: Any) -> list[Settlement]:
    """The settlements of a call."""
    if verb == "settle":
        return list(arguments)
    return list(arguments[0]) if verb == "turn" else []


def is_forgotten(delivery: Delivery, sent_at: float) -> bool:
    """Whether a call without faults, sent at that time, should have settled the delivery."""
    run, until = delivery.run, delivery.believed_until
    if run is None or run.ended_at is None or until is None or delivery.refused_at is not None:
        return False
    if delivery.sim_process.was_paused(run.started_at, sent_at):  # answers during a pause came too late
        return False
    if delivery.pending_settlements or (
        delivery.settlement_answered_at is not None and delivery.settlement_answered_at >= sent_at
    ):  # it was in another call
        return False
    return run.ended_at < sent_at < until - FENCED * delivery.lease_s


def has_excuse(delivery: Delivery, is_removed: bool, jumps: list[float]) -> bool:
    """Whether a fault may have kept the worker from settling a delivery in time."""
    sim_process, after, before = delivery.sim_process, delivery.at - RECOVERY_S, delivery.ends_at + BOUND_S
    return (
        is_removed
        or (sim_process.ended_at is not None and sim_process.ended_at <= before)
        or sim_process.was_paused(after, before)
        or sim_process.had_faults(after, before)
        or any(after <= jump <= before for jump in jumps)
    )


def wrong_stops(run: Run, now: float) -> Iterator[str]:
    """Violations in the time at which a handler was stopped; a running handler counts as stopped now."""
    delivery, sim_process = run.delivery, run.delivery.sim_process
    stopped_at = now if run.stopped_at is None else run.stopped_at
    if sim_process.was_paused(delivery.at, stopped_at):
        return
    if stopped_at > delivery.ends_at + BOUND_S:
        yield f"ran {stopped_at - delivery.ends_at:.3f} s longer than its lease"
    refused_at = delivery.refused_at
    if refused_at is not None and delivery.outcome is None and stopped_at > refused_at + BOUND_S:
        yield "ran on although its lease was refused"
    heard_at = delivery.cancel_heard_at
    if heard_at is not None and stopped_at > heard_at + BOUND_S:
        yield "ran on although its worker heard that it shall stop"
    timeout_ms = delivery.claim.timeout_ms
    if timeout_ms and stopped_at > run.started_at + timeout_ms / 1000 + BOUND_S:
        yield f"ran {stopped_at - run.started_at:.3f} s, its limit is {timeout_ms} ms"
    cancel_asked_at = delivery.cancel_asked_at
    if cancel_asked_at is not None:
        limit = max(cancel_asked_at, run.started_at) + HEARTBEATS_TO_CANCEL * sim_process.heartbeat_s + ROUND_TRIP_S
        if stopped_at > limit and not sim_process.had_faults(cancel_asked_at - RECOVERY_S, limit):
            yield "ran on although it was asked to stop"


def wrong_outcome(delivery: Delivery, outcome: Outcome) -> str | None:
    """The reason for which an outcome contradicts the run; None if it does not."""
    run, record, asked = delivery.run, delivery.claim.record, delivery.cancel_asked_at is not None
    if isinstance(outcome, Cancelled) and not asked:
        return "was never asked to stop"
    if run is None:
        is_hopeless = record.kind not in KNOWN_KINDS or record.payload == b'"bad"'
        return (
            None
            if isinstance(outcome, Released | Cancelled) or (is_hopeless and isinstance(outcome, Failed))
            else "never ran"
        )
    if run.how is None:  # a stopping worker may release a job that it cannot stop
        return None if isinstance(outcome, Released) and delivery.sim_process.stopped_at is not None else "still runs"
    if isinstance(outcome, Done) and (run.how != "ok" or msgspec.json.decode(outcome.result or b"null") != run.value):
        return f"ended {run.how} {run.value!r}"
    if run.cancelled_at is not None:
        limit_at = run.started_at + delivery.claim.timeout_ms / 1000
        is_late = bool(delivery.claim.timeout_ms) and run.cancelled_at >= limit_at - BOUND_S
        if is_late and isinstance(outcome, Released) and delivery.sim_process.stopped_at is None:
            return "ran into its time limit"
        return (
            "was stopped by its worker"
            if isinstance(outcome, Failed | Retried) and not is_late and run.how == "cancelled"
            else None
        )
    if not isinstance(outcome, OUTCOMES[run.how]):
        return f"ended {run.how}"
    if isinstance(outcome, Retried | Released) and run.value is not None and outcome.delay_ms != run.value:
        return f"asked for a delay of {run.value} ms"
    return None
