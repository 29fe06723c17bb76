"""A run: one delivery in the hands of a worker, from the claim to the answer to its settlement."""

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from headrace.model.claim import Claim, Settlement
from headrace.worker.context import Context, ContextFacts, Progress
from headrace.worker.handlers import Handler
from headrace.worker.tracing import RunSpan

Stop = Literal["timeout", "cancel", "lost", "drain"]
"""Why a handler is asked to end before it has: its time is over, somebody cancelled the job, the lease is not certain
any more, or the worker ends."""


class JobRun(Struct, eq=False):
    """Shared by the loop of the worker and the thread of the heart; each field is written by one of them, `is_lost`
    and `holds_until` by the heart, and reading an old value for a moment does no harm."""

    # A struct of msgspec is made three times as fast as an object whose __init__ sets fifteen fields.
    number: int
    claim: Claim
    handler: Handler | None
    holds_until: float
    """On the monotonic clock, counted from before the request was sent: never later than the store thinks."""
    is_lost: bool = False
    is_settling: bool = False
    is_uncertain: bool = False
    """A settlement was sent and not answered: one more that is answered `not_active` was applied, most likely."""
    started_at: float | None = None
    stop: Stop | None = None
    stopped_at: float | None = None
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    settlement: Settlement | None = None
    progress: Progress | None = None
    span: RunSpan | None = None

    def __repr__(self) -> str:
        return f"<Run of {self.claim.record.kind} {self.claim.record.id!r}>"

    def facts(self) -> ContextFacts:
        """What the handler may know."""
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
        """What `current()` answers inside the handler; `now` is the clock of the worker's loop."""
        return Context(self.facts(), RunControl(self, now))


class RunControl:
    """What a handler's context asks of its run."""

    def __init__(self, run: JobRun, now: Callable[[], float]) -> None:
        self._run = run
        self._now = now

    def is_stopping(self) -> bool:
        return self._run.stop is not None or self._run.is_lost

    def remaining_ms(self) -> int | None:
        run = self._run
        if not run.claim.timeout_ms or run.started_at is None:
            return None
        return max(run.claim.timeout_ms - int((self._now() - run.started_at) * 1000), 0)

    def progress(self, fraction: float, note: str) -> None:
        self._run.progress = Progress(fraction, note)
