"""A delivery: one attempt of a job in a worker, from its claim to the answer to its settlement."""

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from headrace.model.claim import Claim, Settlement
from headrace.worker.context import Context, ContextFacts, Progress
from headrace.worker.handlers import Handler
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
