"""Runs one handler as a worker does, and returns its result or raises its error."""

import asyncio
from typing import Any

from msgspec.structs import replace

from headrace.app.app import App
from headrace.model.claim import Claims
from headrace.model.clock import Clock
from headrace.model.errors import JobFailed, Refused
from headrace.model.job import Job
from headrace.model.outcome import Done, Failed, Outcome, Retried
from headrace.model.results import Turned
from headrace.stores.memory.store import MemoryStore
from headrace.testing.drain import LEASE, DrainListener, NoJitter, handler_frames, light_handlers
from headrace.testing.forwarding_store import ForwardingStore, StoreCall
from headrace.worker.handlers import Handler, Handlers
from headrace.worker.outcomes import BadPayload


class OneDelivery(ForwardingStore):
    """A store that hands out one job once, as a given attempt."""

    def __init__(self, clock: Clock, attempt: int) -> None:
        self._memory = MemoryStore(clock)
        super().__init__(self._memory, self._forward)
        self._attempt = attempt
        self._is_claimed = False
        self.outcome: Outcome | None = None
        """The outcome in the worker's settlement."""

    async def _forward(self, call: StoreCall) -> Any:
        if call.name in ("jobs.settle", "jobs.turn"):
            self.outcome = call.argument(0, "settlements")[0].outcome
        if call.name == "jobs.turn":
            settled = await self._memory.jobs.settle(call.argument(0, "settlements"))
            return Turned(settled, [], None, self._memory.signals.tx.now_ms())
        if call.name != "jobs.claim":
            return await call.act()
        if self._is_claimed:
            return Claims([], None, self._memory.signals.tx.now_ms())
        claims: Claims = await call.act()
        self._is_claimed = bool(claims.items)
        items = [replace(each, record=replace(each.record, attempts=self._attempt - 1)) for each in claims.items]
        return replace(claims, items=items, next_at_ms=None)


class SingleRun:
    """One run of one handler."""

    def __init__(self, app: App, clock: Clock, job: Job, attempt: int) -> None:
        self._app = app
        self._job = replace(job, run_at_ms=None, delay_ms=None, policy=replace(job.policy, expires_at_ms=None))
        self._store = OneDelivery(clock, attempt)
        self._listener = DrainListener()
        self._handlers = light_handlers(app)
        self._handler = _handler_of(self._handlers, job)

    async def run(self) -> Any:
        """The handler's result, as it comes back from a store; raises the handler's error, also `Retry` etc."""
        await self._store.jobs.enqueue([self._job])
        async with self._app.build_worker(
            middleware=[self._listener],
            store=self._store,
            handlers=self._handlers,
            rng=NoJitter(0),
            queues=[self._job.queue],
            lease=LEASE,
        ) as worker:
            await worker.run(until_idle=True)
        return self._result_of(self._store.outcome)

    def _result_of(self, outcome: Outcome | None) -> Any:
        raised = next(iter(self._listener.errors.values()), None)
        if isinstance(outcome, Retried) and isinstance(raised, asyncio.CancelledError):
            raise TimeoutError(outcome.error.message) from raised
        if isinstance(raised, BadPayload) and raised.__cause__ is not None:
            raise raised.__cause__
        if raised is not None:
            raise raised.with_traceback(handler_frames(raised.__traceback__))
        if isinstance(outcome, Failed):  # the result could not be encoded
            raise JobFailed(self._job.id, "failed", outcome.error)
        if not isinstance(outcome, Done) or outcome.result is None:
            return None
        return self._handler.codec.decode(outcome.result, self._handler.arguments.result_type)


def _handler_of(handlers: Handlers, job: Job) -> Handler:
    handler = handlers.find(job.queue, job.kind)
    if handler is None:
        raise Refused("unknown_kind", handlers.describe_unknown(job.kind))
    return handler
