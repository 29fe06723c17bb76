"""The runner: starts handlers where they belong, ends them when they must, and passes on how they ended."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.codec import RAW
from headrace.client.eager import is_eager, new_task
from headrace.client.tracing import tracer
from headrace.model.errors import Refused
from headrace.model.outcome import Outcome
from headrace.worker import context as contexts
from headrace.worker import tracing
from headrace.worker.context import Context
from headrace.worker.events import LOG, CallbackRaised, HandlerStuck, WorkerEvents
from headrace.worker.handlers import Handler, Handlers
from headrace.worker.job_run import JobRun, Stop
from headrace.worker.log_fields import trace_of
from headrace.worker.middleware import Middleware, Next, wrapped
from headrace.worker.outcomes import BadPayload, Encoded, Outcomes, is_told
from headrace.worker.pools.process_pool import ChildRaised, ChildTask, ProcessPool
from headrace.worker.pools.threads import ThreadPool

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

NAG_SECONDS = 5.0
"""How long after being asked to stop a handler is asked again, and told of."""


class Runner:
    """One task for each run, which takes its first step where it is made, from Python 3.12 on: most handlers of small
    jobs are done with it. A handler that was asked to stop keeps its place, and its lease, until it has ended: the job
    must not start elsewhere while it still runs here."""

    def __init__(
        self,
        handlers: Handlers,
        endings: Outcomes,
        middleware: Sequence[Middleware],
        threads: ThreadPool,
        processes: ProcessPool,
        ended: Callable[[JobRun, Outcome | None, int], None],
        notices: WorkerEvents,
    ) -> None:
        self._handlers = handlers
        self._endings = endings
        self._middleware = tuple(middleware)
        self._threads = threads
        self._processes = processes
        self._ended = ended
        self._notices = notices
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time

    def start(self, runs: Sequence[JobRun]) -> None:
        """Start handlers, each on its own."""
        loop = self._loop
        begin = self._run if (recording := tracer()) is None else partial(self._traced, recording)
        is_plain = recording is None and not self._middleware and loop.get_task_factory() is None
        is_first_step_here = is_eager(loop)
        for run in runs:
            handler = run.handler
            if not is_plain or handler is None or handler.mode != "async" or run.stop is not None:
                run.task = loop.create_task(begin(run))
            elif not is_first_step_here:
                run.task = new_task(self._run_plain(run, handler, run.claim.timeout_ms), loop, handler.kind)
            else:
                task = run.task = new_task(self._run_plain(run, handler, 0), loop, handler.kind)
                if run.claim.timeout_ms and run.started_at is not None and not task.done():
                    self._set_limit(run, run.started_at)  # most are done by now, and need no timer

    async def _run_plain(self, run: JobRun, handler: Handler, timeout_ms: int) -> None:
        """As `_run`, for a coroutine function with nothing around it: one coroutine, and half of the calls."""
        started_at = run.started_at = self._now()
        if run.stop is not None:  # before its first step, when there was no handler to cancel
            self._finish(run, started_at, self._stopped(run))
            return
        try:
            if timeout_ms:
                self._set_limit(run, started_at)
            contexts.enter((run, self._now))
            try:
                args, kwargs = handler.arguments.decode(run.claim.record.payload)
            except Refused as refused:
                raise BadPayload(str(refused)) from refused
            result = await handler.function(*args, **kwargs)
            outcome: Outcome | None = self._endings.of_result(handler.arguments, result)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is how its attempt ended
            outcome = self._outcome_of(run, error)
        self._finish(run, started_at, outcome)

    def _set_limit(self, run: JobRun, started_at: float) -> None:
        if run.claim.timeout_ms:
            run.timer = self._loop.call_at(started_at + run.claim.timeout_ms / 1000, self.stop, run, "timeout")

    async def _traced(self, recording: "Tracer", run: JobRun) -> None:
        try:
            run.span = tracing.begin(recording, run.claim)
        except Exception:  # noqa: BLE001 - the SDK is somebody else's code, and so are its plug-ins
            LOG.exception("a span could not be started; the job runs without")
        await self._run(run)

    async def _run(self, run: JobRun) -> None:
        started_at = run.started_at = self._now()
        outcome: Outcome | None
        try:
            # A run may have been stopped before its first step, when there was no handler to cancel.
            outcome = await self._deliver(run) if run.stop is None else self._stopped(run)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is how its attempt ended
            outcome = self._outcome_of(run, error)
            if run.span is not None and is_told(run, error):
                run.span.caught(error.trace if isinstance(error, ChildRaised) else trace_of(error))
        if run.span is not None:
            with contextlib.suppress(Exception):
                run.span.end(outcome)
        self._finish(run, started_at, outcome)

    def _outcome_of(self, run: JobRun, error: BaseException) -> Outcome | None:
        if is_told(run, error):
            self._notices.tell(CallbackRaised(run.claim, error))
        return self._endings.of_error(run, error)

    def _finish(self, run: JobRun, started_at: float, outcome: Outcome | None) -> None:
        if run.timer is not None:
            run.timer.cancel()
        # A clock that was set back measures less than nothing, which no store takes.
        run_ms = max(int((self._now() - started_at) * 1000), 0)
        self._ended(run, None if run.is_lost else outcome, run_ms)

    def _stopped(self, run: JobRun) -> Outcome | None:
        return self._endings.of_error(run, asyncio.CancelledError())

    async def _deliver(self, run: JobRun) -> Outcome:
        handler = run.handler
        if handler is None:
            return self._endings.unknown_kind(self._handlers.unknown(run.claim.record.kind))
        self._set_limit(run, self._now())
        contexts.enter((run, self._now))
        if self._middleware:
            returned: list[Any] = []
            innermost = self._innermost(run, handler, returned.append)
            result = await wrapped(self._middleware, innermost)(contexts.current())
            is_handlers = any(result is each for each in returned)
            return self._endings.of_result(handler.arguments, result, is_handlers=is_handlers)
        if handler.mode == "async":
            args, kwargs = _arguments(run, handler)
            result = await handler.function(*args, **kwargs)
        else:
            result = await self._elsewhere(run, handler)
        return self._endings.of_result(handler.arguments, result)

    def _innermost(self, run: JobRun, handler: Handler, returned: Callable[[Any], None]) -> Next:
        async def call(_: Context) -> Any:
            if handler.mode == "async":
                args, kwargs = _arguments(run, handler)
                result = await handler.function(*args, **kwargs)
            else:
                result = await self._elsewhere(run, handler)
                # Middleware sees values, wherever they were made.
                result = handler.codec.decode(bytes(result)) if type(result) is Encoded else result
            returned(result)
            return result

        return call

    async def _elsewhere(self, run: JobRun, handler: Handler) -> Any:
        if handler.mode == "thread":
            args, kwargs = _arguments(run, handler)
            return await self._threads.run(partial(handler.function, *args, **kwargs))
        _arguments(run, handler)  # what does not fit need not travel
        context = contexts.current()
        task = ChildTask(
            handler.target,
            run.claim.record.payload,
            context.job,
            handler.arguments.style,
            "raw" if handler.codec is RAW else "json",
            context.remaining_ms,
            {} if run.span is None else run.span.carrier(),
        )
        encoded = await self._processes.run(task, context.progress)
        return None if encoded is None else Encoded(encoded)

    def stop(self, run: JobRun, why: Stop) -> None:
        """Ask a handler to end. The first reason counts, unless the lease is lost."""
        if run.settlement is not None:
            return  # it has ended
        if run.stop is None or why == "lost":
            run.stop = why
        if run.task is not None and run.started_at is not None and not run.task.done():
            run.task.cancel()
            if run.stopped_at is None:
                run.stopped_at = self._now()
                self._loop.call_later(NAG_SECONDS, self._nag, run, run.stopped_at)

    def _nag(self, run: JobRun, since: float) -> None:
        if run.task is None or run.task.done():
            return
        self._notices.tell(HandlerStuck(run.claim, run.stop or "", self._now() - since))
        # A thread cannot be cancelled twice; a coroutine may have swallowed the first.
        if run.handler is not None and run.handler.mode == "async":
            run.task.cancel()
        self._loop.call_later(NAG_SECONDS, self._nag, run, since)


def _arguments(run: JobRun, handler: Handler) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return handler.arguments.decode(run.claim.record.payload)
    except Refused as refused:
        raise BadPayload(str(refused)) from refused
