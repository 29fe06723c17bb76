"""The kit: an app on a store in memory, for as long as a block or a test lasts."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.options import OptionFields, Options
from headrace.model.errors import Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.times import Duration, Instant, duration_ms
from headrace.testing.assertions import SentJobQueries, divided
from headrace.testing.clock import KitClock
from headrace.testing.drain import Drain, Drained, failure_of
from headrace.testing.run_job import SingleRun
from headrace.testing.store import KitStore

T = TypeVar("T")
R = TypeVar("R")
DELIVERIES_MAX = 1_000
"""What one drain does unless told otherwise: a test has far fewer, a job that feeds itself soon has more."""
ABOUT_A_RUN = frozenset(OptionFields.__annotations__) | {"attempt"}


class AsyncKit(SentJobQueries):
    """The kit of a test that is a coroutine: handlers run on its event loop. `async with using(app) as kit:`."""

    @property
    def client(self) -> Client:
        """A client of the app's, on the kit's store."""
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
        """Let a worker do all that is due, and what comes of it, until nothing is; see `Kit.drain`."""
        __tracebackhide__ = True
        if self.store.is_down:
            raise Refused(
                "store_down", "the store is down, and a drain would never end; drain behind the block of down()"
            )
        drain = Drain(self.app, self.store, limit=limit, capacity=capacity, queues=queues)
        drained = await drain.run(duration_ms("ahead", ahead))
        if raising and (failure := failure_of(drained)) is not None:
            raise failure
        return drained

    @overload
    async def run_job(self, job: Job, /, *, attempt: int = 1) -> Any: ...
    @overload
    async def run_job(self, job: JobTemplate[..., R], /, *args: Any, **said: Any) -> R: ...
    async def run_job(self, job: Job | JobTemplate[..., Any], /, *args: Any, **said: Any) -> Any:
        """Run one handler as a worker would, and return what it returns; see `Kit.run_job`."""
        made, attempt = _made(job, args, said)
        return await SingleRun(self.app, self.store.clock, made, attempt).run()


class Kit(SentJobQueries):
    """The kit of a plain test: `drain` and `run_job` wait for their end. `with using(app) as kit:`.

    Coroutine handlers run on an event loop of the kit's, the same for all drains of its block.
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
        """Let a worker do all that is due, and what comes of it, until nothing is; returns every delivery.

        `ahead="1h"` goes on from due time to due time, so that retries and delays play out at once; the clock stands an
        hour later then. A failed attempt raises `JobsFailed`, with what the handler raised inside; `raising=False`
        leaves it at the outcomes. More than `limit` deliveries are refused: a job that sends itself never ends.

        Works on all queues that jobs of the app were sent to, or on `queues`. One job at a time, in the order in which
        a worker takes them; `capacity` lets more run at once, for handlers that wait for other jobs. Retries wait for
        the whole backoff, without jitter. Handlers that ask for a process run in this one.
        """
        __tracebackhide__ = True
        return self.run(self._kit.drain(ahead=ahead, raising=raising, limit=limit, queues=queues, capacity=capacity))

    @overload
    def run_job(self, job: Job, /, *, attempt: int = 1) -> Any: ...
    @overload
    def run_job(self, job: JobTemplate[..., R], /, *args: Any, **said: Any) -> R: ...
    def run_job(self, job: Job | JobTemplate[..., Any], /, *args: Any, **said: Any) -> Any:
        """Run one handler as a worker would, and return what it returns: `kit.run_job(welcome, user_id=42)`.

        The arguments are encoded, decoded and checked against the annotations; middleware is around the handler, and
        `current()` tells of the job. Whatever the handler raises is raised here, `Retry`, `Fail` and `Release`
        included; TimeoutError when its `timeout` is over. `attempt=3` lets it be the third; the words of `Options`
        (`id=`, `headers=`, `timeout=`) are about the job. Where the function has an argument of such a name, the word
        is that argument: say `welcome.options(id=…)`, or give a job: `kit.run_job(welcome.job(…), attempt=3)`.
        """
        __tracebackhide__ = True
        return self.run(self._kit.run_job(job, *args, **said))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the kit's event loop, and return what it returns: `kit.run(welcome.enqueue(42))`."""
        __tracebackhide__ = True
        with contextlib.closing(coroutine):  # one that is refused was never to be awaited
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
        """End the kit's event loop."""
        self._runner.close()


class using:  # noqa: N801 - reads as a sentence: with using(app) as kit
    """Put an app on a store in memory for a block: `with using(app) as kit:`, or `async with` in a coroutine.

    All clients and workers of the app use that store; behind the block it is as before. The clock starts at `now`, at
    the present when not given, and stands until it is moved. `store` is one of your own making, which stays open.
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


def _made(job: Job | JobTemplate[..., Any], args: Sequence[Any], said: dict[str, Any]) -> tuple[Job, int]:
    if isinstance(job, Job):
        if args or said.keys() - {"attempt"}:
            raise Refused("bad_arguments", "a job that is made has its arguments; give attempt= and nothing else")
        return job, said.get("attempt", 1)
    handler = job.function.handler
    # By place, what is missing is for the function's own signature to say.
    arguments, about = divided(handler, (), said, ABOUT_A_RUN)
    attempt = about.pop("attempt", 1)
    options = Options(**about).over(job.job_options)
    payload = handler.arguments.encode(args, arguments)
    return job.function.app.maker.job_of(handler.kind, payload, options), attempt
