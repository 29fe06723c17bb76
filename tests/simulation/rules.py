"""Rules for one delivery: when its handler has to be stopped, and how it may be settled."""

from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.model.claim import Settlement
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from tests.simulation.history import Delivery, Run

BOUND_S = 0.02
"""How much later than it should a handler may be stopped: some loop turns, which take no virtual time."""
ROUND_TRIP_S = 0.2
"""What a call takes in good weather, generously."""
BEATS_TO_ASK = 1.5
"""A lease that was claimed less than half a beat ago is extended with the beat after the next."""
UNHEARD = 0.75
"""After this part of a lease, counted from when it was asked for, asking again for a lost claim is of no use."""
FENCED = 0.15
"""This part of a lease before its end, a worker may have given it up already."""
RECOVERY_S = 12.0
"""How long after trouble a worker may still be waiting for its store."""
OUTCOMES: dict[str, type[Any]] = {"ok": Done, "raise": Retried, "retry": Retried, "fail": Failed, "release": Released}
"""What becomes of a handler that ended by itself."""
KNOWN_KINDS = frozenset({"quick", "heavy", "headrace.fail"})


def is_unheard(delivery: Delivery, nonce: str, now: float, now_ms: int) -> bool:
    """Whether a worker makes a claim although it has not heard the answer to the one before: it has to ask for that
    again while the lease holds, or the job stalls for nothing."""
    use_until = delivery.sent_at + UNHEARD * delivery.lease_s
    is_of_another = not delivery.claim.lease.token.startswith(f"{nonce}.")
    return delivery.told_at is None and now_ms < delivery.expires_ms and now < use_until and is_of_another


def settlements_of(verb: str, given: Any) -> list[Settlement]:
    """What a call is to settle."""
    if verb == "settle":
        return list(given)
    return list(given[0]) if verb == "turn" else []


def is_forgotten(delivery: Delivery, sent_at: float) -> bool:
    """Whether a call that was sent then and went well should have settled the delivery: it carries all that ended."""
    run, until = delivery.run, delivery.believed_until
    if run is None or run.ended_at is None or until is None or delivery.refused_at is not None:
        return False
    if delivery.life.was_paused(run.started_at, sent_at):  # what it heard meanwhile it heard too late
        return False
    if delivery.flights or (delivery.landed_at is not None and delivery.landed_at >= sent_at):  # it went beside
        return False
    return run.ended_at < sent_at < until - FENCED * delivery.lease_s


def has_excuse(delivery: Delivery, is_removed: bool, jumps: list[float]) -> bool:
    """Whether something happened that may keep a worker from settling a delivery before its lease ends."""
    life, after, before = delivery.life, delivery.at - RECOVERY_S, delivery.ends_at + BOUND_S
    return (
        is_removed
        or (life.ended_at is not None and life.ended_at <= before)
        or life.was_paused(after, before)
        or life.had_trouble(after, before)
        or any(after <= jump <= before for jump in jumps)
    )


def wrong_stops(run: Run, now: float) -> Iterator[str]:
    """What is wrong with when a handler was stopped; one that runs still is judged as of now."""
    delivery, life = run.delivery, run.delivery.life
    stopped_at = now if run.stopped_at is None else run.stopped_at
    if life.was_paused(delivery.at, stopped_at):
        return
    if stopped_at > delivery.ends_at + BOUND_S:
        yield f"ran {stopped_at - delivery.ends_at:.3f} s longer than its lease"
    refused_at = delivery.refused_at
    if refused_at is not None and delivery.outcome is None and stopped_at > refused_at + BOUND_S:
        yield "ran on although its lease was refused"
    heard_at = delivery.asked_heard_at
    if heard_at is not None and stopped_at > heard_at + BOUND_S:
        yield "ran on although its worker heard that it shall stop"
    timeout_ms = delivery.claim.timeout_ms
    if timeout_ms and stopped_at > run.started_at + timeout_ms / 1000 + BOUND_S:
        yield f"ran {stopped_at - run.started_at:.3f} s, its limit is {timeout_ms} ms"
    asked_at = delivery.asked_at
    if asked_at is not None:
        limit = max(asked_at, run.started_at) + BEATS_TO_ASK * life.heartbeat_s + ROUND_TRIP_S
        if stopped_at > limit and not life.had_trouble(asked_at - RECOVERY_S, limit):
            yield "ran on although it was asked to stop"


def wrong_outcome(delivery: Delivery, outcome: Outcome) -> str | None:
    """Why an outcome cannot be what became of the run, if it cannot."""
    run, record, asked = delivery.run, delivery.claim.record, delivery.asked_at is not None
    if isinstance(outcome, Cancelled) and not asked:
        return "was never asked to stop"
    if run is None:
        is_hopeless = record.kind not in KNOWN_KINDS or record.payload == b'"bad"'
        return (
            None
            if isinstance(outcome, Released | Cancelled) or (is_hopeless and isinstance(outcome, Failed))
            else "never ran"
        )
    if run.how is None:  # a worker that ends may give back what it cannot stop
        return None if isinstance(outcome, Released) and delivery.life.stopped_at is not None else "still runs"
    if isinstance(outcome, Done) and (run.how != "ok" or msgspec.json.decode(outcome.result or b"null") != run.value):
        return f"ended {run.how} {run.value!r}"
    if run.cancelled_at is not None:
        limit_at = run.started_at + delivery.claim.timeout_ms / 1000
        is_late = bool(delivery.claim.timeout_ms) and run.cancelled_at >= limit_at - BOUND_S
        if is_late and isinstance(outcome, Released) and delivery.life.stopped_at is None:
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
