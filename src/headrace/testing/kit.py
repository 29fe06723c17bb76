"""Puts an app on a store in memory for a block or a test, drains its queues, and runs single handlers."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.options import OptionFields, Options
from headrace.model.claim import Claims
from headrace.model.clock import Clock
from headrace.model.errors import JobFailed, Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, Outcome, Retried
from headrace.model.results import Turned
from headrace.model.times import Duration, Instant, duration_ms
from headrace.stores.memory.store import MemoryStore
from headrace.testing.assertions import SentJobQueries, split_arguments
from headrace.testing.drain import (
    LEASE,
    Drain,
    Drained,
    DrainListener,
    NoJitter,
    failure_of,
    handler_frames,
    light_handlers,
)
from headrace.testing.faults import ForwardingStore, StoreCall
from headrace.testing.store import KitClock, KitStore
from headrace.worker.handlers import Handler, Handlers
from headrace.worker.outcomes import BadPayload

T = TypeVar("T")
R = TypeVar("R")
DELIVERIES_MAX = 1_000
"""The default limit of a drain: a test has far fewer, and a job that sends itself soon exceeds it."""
RUN_OPTIONS = frozenset(OptionFields.__annotations__) | {"attempt"}


class AsyncKit(SentJobQueries):
    """The kit of a coroutine test: handlers run on its event loop. `async with using(app) as kit:`."""

    @property
    def client(self) -> Client:
        """A client of the app on the kit's store."""
        maker = self.app.maker
        return Client(
            self.store, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec, clock=self.store.clock
        )

    async def drain(
        self,
        *,
        ahead: Duration = 0,
        raising: bool = True,
        limit: int = DELIVERIES_MAX,
        queues: Sequence[str | Queue] | None = None,
        capacity: int = 1,
    ) -> Drained:
        """Work until no job is due; see `Kit.drain`."""
        __tracebackhide__ = True
        if self.store.is_down:
            raise Refused(
                "store_down", "the store is down, and a drain would never end; drain after the block of down()"
            )
        drain = Drain(self.app, self.store, limit=limit, capacity=capacity, queues=queues)
        drained = await drain.run(duration_ms("ahead", ahead))
        if raising and (failure := failure_of(drained)) is not None:
            raise failure
        return drained

    @overload
    async def run_job(self, job: Job, /, *, attempt: int = 1) -> Any: ...
    @overload
    async def run_job(self, job: JobTemplate[..., R], /, *args: Any, **keywords: Any) -> R: ...
    async def run_job(self, job: Job | JobTemplate[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """Run one handler as a worker does, and return its result; see `Kit.run_job`."""
        resolved, attempt = _resolve_job(job, args, keywords)
        return await SingleRun(self.app, self.store.clock, resolved, attempt).run()


class Kit(SentJobQueries):
    """The kit of a plain test: `drain` and `run_job` wait for their end. `with using(app) as kit:`.

    Coroutine handlers run on the kit's event loop, the same for all drains of the block.
    """

    def __init__(self, app: App, store: KitStore) -> None:
        super().__init__(app, store)
        self._kit = AsyncKit(app, store)
        # A factory of its own keeps the runner from changing the current event loop of the thread.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._busy = threading.Lock()

    @property
    def client(self) -> BlockingClient:
        """The blocking client of the app, on the kit's store."""
        return self.app.blocking

    def drain(
        self,
        *,
        ahead: Duration = 0,
        raising: bool = True,
        limit: int = DELIVERIES_MAX,
        queues: Sequence[str | Queue] | None = None,
        capacity: int = 1,
    ) -> Drained:
        """Run jobs until none is due, jobs sent meanwhile included; returns every delivery.

        `ahead="1h"` moves the clock from due time to due time, so that retries and delays take no time, and leaves it
        an hour later. A failed attempt raises `JobsFailed` with the handler's error; `raising=False` only reports it.
        More than `limit` deliveries are refused: a job that sends itself never ends.

        Works on all queues that jobs of the app were sent to, or on `queues`: one job at a time, in a worker's order;
        `capacity` lets more run at once, for handlers that wait for other jobs. Retries wait for the whole backoff,
        without jitter. Handlers with `process=True` run in this process.
        """
        __tracebackhide__ = True
        return self.run(self._kit.drain(ahead=ahead, raising=raising, limit=limit, queues=queues, capacity=capacity))

    @overload
    def run_job(self, job: Job, /, *, attempt: int = 1) -> Any: ...
    @overload
    def run_job(self, job: JobTemplate[..., R], /, *args: Any, **keywords: Any) -> R: ...
    def run_job(self, job: Job | JobTemplate[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """Run one handler as a worker does, and return its result: `kit.run_job(welcome, user_id=42)`.

        The arguments are encoded, decoded and checked against the annotations; middleware runs, and `current()` has
        the job. The handler's error is raised here, `Retry`, `Fail` and `Release` included; TimeoutError when its
        `timeout` is over. `attempt=3` makes it the third; the options (`id=`, `headers=`, `timeout=`) are those of the
        job. When the function has an argument of such a name, the keyword is that argument: use
        `welcome.options(id=…)`, or pass a job: `kit.run_job(welcome.job(…), attempt=3)`.
        """
        __tracebackhide__ = True
        return self.run(self._kit.run_job(job, *args, **keywords))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the kit's event loop, and return its result: `kit.run(welcome.enqueue(42))`."""
        __tracebackhide__ = True
        with contextlib.closing(coroutine):  # a refused coroutine is never awaited
            if _is_in_loop():
                raise Refused(
                    "running_loop",
                    "this kit waits, and would stop the event loop that runs here; in a coroutine use"
                    " `async with using(app) as kit`, and await what it does",
                )
            if not self._busy.acquire(blocking=False):
                raise Refused("kit_busy", "this kit runs something already; a handler cannot drain what it is part of")
            try:
                return self._runner.run(coroutine)
            finally:
                self._busy.release()

    def close(self) -> None:
        """Close the kit's event loop."""
        self._runner.close()


class using:  # noqa: N801 - a context manager: with using(app) as kit
    """Put an app on a store in memory for a block: `with using(app) as kit:`, or `async with` in a coroutine.

    All clients and workers of the app use that store until the block ends. The clock starts at `now`, by default the
    present, and stands still until the test moves it. A `store` of your own stays open.
    """

    def __init__(self, app: App, *, now: Instant | None = None, store: KitStore | None = None) -> None:
        if store is not None and now is not None:
            raise Refused("bad_now", "a store has its clock already; make it with KitStore(KitClock(now))")
        self._app = app
        self._now = now
        self._store = store
        self._block = contextlib.ExitStack()

    def __enter__(self) -> Kit:
        kit = Kit(self._app, self._open())
        self._block.callback(kit.close)
        return kit

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.close()

    async def __aenter__(self) -> AsyncKit:
        return AsyncKit(self._app, self._open())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.close()

    def _open(self) -> KitStore:
        store = self._store
        if store is None:
            store = KitStore(KitClock(self._now))
            self._block.callback(store.end)
        self._block.enter_context(self._app.using(store, store.clock))
        return store


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _resolve_job(job: Job | JobTemplate[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> tuple[Job, int]:
    if isinstance(job, Job):
        if args or keywords.keys() - {"attempt"}:
            raise Refused("bad_arguments", "a Job has its arguments already; give attempt= and nothing else")
        return job, keywords.get("attempt", 1)
    handler = job.function.handler
    # Positional arguments are checked by the function's own signature.
    arguments, options = split_arguments(handler, (), keywords, RUN_OPTIONS)
    attempt = options.pop("attempt", 1)
    merged = Options(**options).over(job.job_options)
    payload = handler.arguments.encode(args, arguments)
    return job.function.app.maker.job_of(handler.kind, payload, merged), attempt


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
