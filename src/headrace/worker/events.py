"""The deliveries of a worker and its events, which its listeners get: logs, metrics and tests."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.model.claim import Claim, Settlement
from headrace.model.results import Settled
from headrace.worker.context import FIELDS, Context, ContextFacts, Progress
from headrace.worker.handlers import Handler
from headrace.worker.log_format import JOB_LOG, WORKER_LOG, claim_fields, error_fields
from headrace.worker.tracing import RunSpan

Stop = Literal["timeout", "cancel", "lost", "drain"]
"""Why a running handler is asked to stop: time-out, cancellation of the job, loss of the lease, or end of the
worker."""


class ActiveDelivery(Struct, eq=False):
    """Shared by the worker's loop and the heartbeat's thread. Each field has one writer, `is_lost` and `holds_until`
    the heartbeat; reading an old value for a moment does no harm."""

    # A msgspec struct is built three times as fast as an object whose __init__ sets fifteen fields.
    number: int
    claim: Claim
    handler: Handler | None
    holds_until: float
    """End of the lease on the monotonic clock, counted from before the request: never later than the store's."""
    is_lost: bool = False
    is_settling: bool = False
    is_uncertain: bool = False
    """Whether a settlement was sent without an answer: a `not_active` for its repetition most likely means applied."""
    started_at: float | None = None
    stop: Stop | None = None
    stopped_at: float | None = None
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    settlement: Settlement | None = None
    progress: Progress | None = None
    span: RunSpan | None = None

    def __repr__(self) -> str:
        return f"<ActiveDelivery of {self.claim.record.kind} {self.claim.record.id!r}>"

    def facts(self) -> ContextFacts:
        """The facts that the handler's context shows."""
        record, queue = self.claim.record, self.claim.lease.queue
        timeout_ms = self.claim.timeout_ms
        return ContextFacts(
            record.id,
            record.kind,
            queue.full_name,
            queue.tenant,
            record.attempts + 1,
            record.stalls,
            self.claim.lease.fence,
            self.claim.claimed_at_ms + timeout_ms if timeout_ms else None,
            record.run_at_ms,
            record.enqueued_at_ms,
            record.tag,
            record.headers,
        )

    def context(self, now: Callable[[], float]) -> Context:
        """The context that `current()` returns in the handler; `now` is the clock of the worker's loop."""
        return Context(self.facts(), DeliveryControl(self, now))


class DeliveryControl:
    """The view of a delivery that its handler's context uses."""

    def __init__(self, delivery: ActiveDelivery, now: Callable[[], float]) -> None:
        self._delivery = delivery
        self._now = now

    def is_stopping(self) -> bool:
        return self._delivery.stop is not None or self._delivery.is_lost

    def remaining_ms(self) -> int | None:
        delivery = self._delivery
        if not delivery.claim.timeout_ms or delivery.started_at is None:
            return None
        return max(delivery.claim.timeout_ms - int((self._now() - delivery.started_at) * 1000), 0)

    def progress(self, fraction: float, note: str) -> None:
        self._delivery.progress = Progress(fraction, note)


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
