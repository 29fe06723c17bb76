"""The runner: starts handlers on the loop, in threads or in processes, stops them, and reports their outcomes."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.codec import RAW
from headrace.client.tasks import is_eager, new_task
from headrace.client.tracing import tracer
from headrace.model.errors import Refused
from headrace.model.outcome import Outcome
from headrace.worker import context as contexts
from headrace.worker import tracing
from headrace.worker.context import Context
from headrace.worker.events import LOG, ActiveDelivery, CallbackRaised, EventEmitter, HandlerStuck, Stop
from headrace.worker.handlers import Handler, Handlers, Middleware, Next, wrap_handler
from headrace.worker.log_format import trace_of
from headrace.worker.outcomes import BadPayload, Encoded, Outcomes, is_unexpected
from headrace.worker.pools.process_pool import ChildRaised, ChildTask, ProcessPool
from headrace.worker.pools.threads import ThreadPool

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

REMIND_SECONDS = 5.0
"""After this long a handler that was asked to stop is reported as stuck, and asked again."""


class Runner:
    """One task for each delivery. From Python 3.12 on its first step runs at creation, which is enough for most small
    handlers. A handler that was asked to stop keeps its capacity and its lease until it has ended: the job must not
    start elsewhere while it still runs here."""

    def __init__(
        self,
        handlers: Handlers,
        outcomes: Outcomes,
        middleware: Sequence[Middleware],
        threads: ThreadPool,
        processes: ProcessPool,
        on_finished: Callable[[ActiveDelivery, Outcome | None, int], None],
        events: EventEmitter,
    ) -> None:
        self._handlers = handlers
        self._outcomes = outcomes
        self._middleware = tuple(middleware)
        self._threads = threads
        self._processes = processes
        self._on_finished = on_finished
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time

    def start(self, deliveries: Sequence[ActiveDelivery]) -> None:
        """Start a task for each delivery."""
        loop = self._loop
        begin = self._run if (active_tracer := tracer()) is None else partial(self._run_traced, active_tracer)
        is_plain = active_tracer is None and not self._middleware and loop.get_task_factory() is None
        is_eager_loop = is_eager(loop)
        for delivery in deliveries:
            handler = delivery.handler
            if not is_plain or handler is None or handler.mode != "async" or delivery.stop is not None:
                delivery.task = loop.create_task(begin(delivery))
            elif not is_eager_loop:
                delivery.task = new_task(
                    self._run_plain(delivery, handler, delivery.claim.timeout_ms), loop, handler.kind
                )
            else:
                task = delivery.task = new_task(self._run_plain(delivery, handler, 0), loop, handler.kind)
                if delivery.claim.timeout_ms and delivery.started_at is not None and not task.done():
                    self._set_limit(delivery, delivery.started_at)  # most are done by now and need no timer

    async def _run_plain(self, delivery: ActiveDelivery, handler: Handler, timeout_ms: int) -> None:
        """As `_run`, for a coroutine function without middleware and tracing: one coroutine, and half of the calls."""
        started_at = delivery.started_at = self._now()
        if delivery.stop is not None:  # before its first step, when no handler could be cancelled
            self._finish(delivery, started_at, self._outcome_of_stop(delivery))
            return
        try:
            if timeout_ms:
                self._set_limit(delivery, started_at)
            contexts.enter((delivery, self._now))
            try:
                args, kwargs = handler.arguments.decode(delivery.claim.record.payload)
            except Refused as refused:
                raise BadPayload(str(refused)) from refused
            result = await handler.function(*args, **kwargs)
            outcome: Outcome | None = self._outcomes.of_result(handler.arguments, result)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - any exception of a handler is an outcome
            outcome = self._outcome_of(delivery, error)
        self._finish(delivery, started_at, outcome)

    def _set_limit(self, delivery: ActiveDelivery, started_at: float) -> None:
        if delivery.claim.timeout_ms:
            delivery.timer = self._loop.call_at(
                started_at + delivery.claim.timeout_ms / 1000, self.stop, delivery, "timeout"
            )

    async def _run_traced(self, active_tracer: "Tracer", delivery: ActiveDelivery) -> None:
        try:
            delivery.span = tracing.begin(active_tracer, delivery.claim)
        except Exception:  # noqa: BLE001 - the SDK and its plug-ins are foreign code
            LOG.exception("a span could not be started; the job runs without")
        await self._run(delivery)

    async def _run(self, delivery: ActiveDelivery) -> None:
        started_at = delivery.started_at = self._now()
        outcome: Outcome | None
        try:
            # It may have been stopped before its first step, when no handler could be cancelled.
            outcome = await self._deliver(delivery) if delivery.stop is None else self._outcome_of_stop(delivery)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - any exception of a handler is an outcome
            outcome = self._outcome_of(delivery, error)
            if delivery.span is not None and is_unexpected(delivery, error):
                delivery.span.record_trace(error.trace if isinstance(error, ChildRaised) else trace_of(error))
        if delivery.span is not None:
            with contextlib.suppress(Exception):
                delivery.span.end(outcome)
        self._finish(delivery, started_at, outcome)

    def _outcome_of(self, delivery: ActiveDelivery, error: BaseException) -> Outcome | None:
        if is_unexpected(delivery, error):
            self._events.emit(CallbackRaised(delivery.claim, error))
        return self._outcomes.of_error(delivery, error)

    def _finish(self, delivery: ActiveDelivery, started_at: float, outcome: Outcome | None) -> None:
        if delivery.timer is not None:
            delivery.timer.cancel()
        # A clock that was set back gives a negative time, which no store accepts.
        run_ms = max(int((self._now() - started_at) * 1000), 0)
        self._on_finished(delivery, None if delivery.is_lost else outcome, run_ms)

    def _outcome_of_stop(self, delivery: ActiveDelivery) -> Outcome | None:
        return self._outcomes.of_error(delivery, asyncio.CancelledError())

    async def _deliver(self, delivery: ActiveDelivery) -> Outcome:
        handler = delivery.handler
        if handler is None:
            return self._outcomes.unknown_kind(self._handlers.describe_unknown(delivery.claim.record.kind))
        self._set_limit(delivery, self._now())
        contexts.enter((delivery, self._now))
        if self._middleware:
            returned: list[Any] = []
            innermost = self._innermost(delivery, handler, returned.append)
            result = await wrap_handler(self._middleware, innermost)(contexts.current())
            is_own_result = any(result is each for each in returned)
            return self._outcomes.of_result(handler.arguments, result, from_handler=is_own_result)
        if handler.mode == "async":
            args, kwargs = _arguments(delivery, handler)
            result = await handler.function(*args, **kwargs)
        else:
            result = await self._run_in_pool(delivery, handler)
        return self._outcomes.of_result(handler.arguments, result)

    def _innermost(self, delivery: ActiveDelivery, handler: Handler, returned: Callable[[Any], None]) -> Next:
        async def call(_: Context) -> Any:
            if handler.mode == "async":
                args, kwargs = _arguments(delivery, handler)
                result = await handler.function(*args, **kwargs)
            else:
                result = await self._run_in_pool(delivery, handler)
                # Middleware sees values, not encoded results.
                result = handler.codec.decode(bytes(result)) if type(result) is Encoded else result
            returned(result)
            return result

        return call

    async def _run_in_pool(self, delivery: ActiveDelivery, handler: Handler) -> Any:
        if handler.mode == "thread":
            args, kwargs = _arguments(delivery, handler)
            return await self._threads.run(partial(handler.function, *args, **kwargs))
        _arguments(delivery, handler)  # refuses a bad payload before it is sent to a process
        context = contexts.current()
        task = ChildTask(
            handler.target,
            delivery.claim.record.payload,
            context.job,
            handler.arguments.style,
            "raw" if handler.codec is RAW else "json",
            context.remaining_ms,
            {} if delivery.span is None else delivery.span.carrier(),
        )
        encoded = await self._processes.run(task, context.progress)
        return None if encoded is None else Encoded(encoded)

    def stop(self, delivery: ActiveDelivery, reason: Stop) -> None:
        """Ask a handler to stop. The first reason counts, unless the lease is lost."""
        if delivery.settlement is not None:
            return  # it has ended
        if delivery.stop is None or reason == "lost":
            delivery.stop = reason
        if delivery.task is not None and delivery.started_at is not None and not delivery.task.done():
            delivery.task.cancel()
            if delivery.stopped_at is None:
                delivery.stopped_at = self._now()
                self._loop.call_later(REMIND_SECONDS, self._remind, delivery, delivery.stopped_at)

    def _remind(self, delivery: ActiveDelivery, since: float) -> None:
        if delivery.task is None or delivery.task.done():
            return
        self._events.emit(HandlerStuck(delivery.claim, delivery.stop or "", self._now() - since))
        # A coroutine may have swallowed the first cancellation; a thread cannot be cancelled.
        if delivery.handler is not None and delivery.handler.mode == "async":
            delivery.task.cancel()
        self._loop.call_later(REMIND_SECONDS, self._remind, delivery, since)


def _arguments(delivery: ActiveDelivery, handler: Handler) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return handler.arguments.decode(delivery.claim.record.payload)
    except Refused as refused:
        raise BadPayload(str(refused)) from refused
