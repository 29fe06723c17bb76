"""The events of a worker, which its listeners get: logs, metrics and tests."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.model.claim import Claim, Settlement
from headrace.model.results import Settled
from headrace.worker.context import FIELDS
from headrace.worker.delivery import ActiveDelivery
from headrace.worker.log_format import JOB_LOG, WORKER_LOG, claim_fields, error_fields

LOG = WORKER_LOG


class Lifecycle(Struct, frozen=True):
    """The worker itself came to a new state."""

    event: Literal["started", "stopping", "stopped", "store_lost", "store_back"]
    why: str = ""


class JobsClaimed(Struct, frozen=True):
    """Jobs were claimed and are about to start."""

    deliveries: Sequence[ActiveDelivery]

    @property
    def claims(self) -> list[Claim]:
        """The claims of the deliveries."""
        return [delivery.claim for delivery in self.deliveries]


class JobsFinished(Struct, frozen=True):
    """Deliveries were settled; `answers` has one answer for each, in the same order."""

    deliveries: Sequence[ActiveDelivery]
    answers: Sequence[Settled]

    @property
    def settlements(self) -> list[Settlement]:
        """The settlements of the deliveries."""
        return [settlement_of(delivery) for delivery in self.deliveries]


class CallbackRaised(Struct, frozen=True):
    """A handler raised an exception that is not an outcome: the attempt failed."""

    claim: Claim
    error: BaseException


class LeaseLost(Struct, frozen=True):
    """This worker no longer owns a delivery: its handler is asked to stop, and its outcome does not count."""

    claim: Claim
    why: str


class AssumedSettled(Struct, frozen=True):
    """The answer to a settlement was lost, and the store answers its repetition with `not_active`: most likely the
    first one was applied."""

    delivery: ActiveDelivery


class HandlerStuck(Struct, frozen=True):
    """A handler was asked to stop and is still running; its capacity stays taken until it ends."""

    claim: Claim
    stop: str
    seconds: float


WorkerEvent = Lifecycle | JobsClaimed | JobsFinished | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck
Listener = Callable[[WorkerEvent], None]


class EventEmitter:
    """Calls every listener, and logs the events that a person should read. A listener's exception is only logged."""

    def __init__(self, listeners: Sequence[Listener], worker: str = "") -> None:
        self._listeners = tuple(listeners)
        self._worker = worker

    def emit(self, event: WorkerEvent) -> None:
        """Log the event and pass it to every listener."""
        if not isinstance(event, (JobsClaimed, JobsFinished)):
            with contextlib.suppress(Exception):  # a failing log must not keep a job from being settled
                self._log(event)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                with contextlib.suppress(Exception):
                    LOG.exception("a listener failed on %s", type(event).__name__)

    def _log(self, event: Lifecycle | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck) -> None:
        is_calm = isinstance(event, Lifecycle) and event.event != "store_lost"
        level = logging.INFO if is_calm else logging.WARNING
        logger = WORKER_LOG if isinstance(event, Lifecycle) else JOB_LOG
        if not logger.isEnabledFor(level):
            return
        error = event.error if isinstance(event, CallbackRaised) else None
        text, fields = _describe(event, self._worker)
        # `exc_info` is for formatters other than ours.
        logger.log(level, "%s", text, exc_info=error, extra={FIELDS: fields})


def _describe(
    worker_event: Lifecycle | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck, worker: str
) -> tuple[str, dict[str, Any]]:
    """An event as text and as fields."""
    match worker_event:
        case Lifecycle(event, why):
            return f"{event}{why and f': {why}'} ({worker})", {"event": event, "worker": worker, "reason": why}
        case CallbackRaised(claim, error):
            fields = {"event": "raised", **claim_fields(claim), **error_fields(error)}
            return f"{_name(claim)} failed: {type(error).__name__}", fields
        case LeaseLost(claim, why):
            return f"{_name(claim)} is lost: {why}", {"event": "lost", **claim_fields(claim), "reason": why}
        case AssumedSettled(delivery):
            outcome = settlement_of(delivery).outcome.__struct_config__.tag
            text = f"{_name(delivery.claim)} is over, most likely with {outcome}: the answer to its settlement was lost"
            return text, {"event": "presumed", **claim_fields(delivery.claim), "outcome": outcome}
        case HandlerStuck(claim, stop, seconds):
            text = f"{_name(claim)} was asked to stop ({stop}) {seconds:.0f} s ago and is still running"
            return text, {"event": "wedged", **claim_fields(claim), "reason": stop, "seconds": round(seconds)}


def _name(claim: Claim) -> str:
    return f"{claim.record.kind} {claim.record.id} (attempt {claim.record.attempts + 1})"


def settlement_of(delivery: ActiveDelivery) -> Settlement:
    """The settlement of a delivery whose handler has ended."""
    assert delivery.settlement is not None  # set by Settler.put
    return delivery.settlement
