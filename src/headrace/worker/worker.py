"""The worker: claims jobs from a store, runs their handlers, settles them, and drains when it is stopped."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, Refused
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.worker.claimer import Capacity, group_queues
from headrace.worker.config import WorkerConfig, WorkerSettings, settings_of
from headrace.worker.events import EventEmitter, JobsClaimed, JobsFinished, LeaseLost, Lifecycle, Listener, WorkerEvent
from headrace.worker.fetch_loop import UNAVAILABLE, Reconnect
from headrace.worker.handlers import Handlers, Middleware
from headrace.worker.health import State, Totals, WorkerHealth, find_problem, running_jobs
from headrace.worker.runtime import Dependencies, Runtime

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
END_SECONDS = 2.0
"""Time for cancelled handlers to end after the grace time."""
SETTLE_SECONDS = 5.0
"""Time for the last settlements of a stopping worker; jobs that are not settled by then stall."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
REPAIR_CALLS_MAX = 100
"""Repair calls for one queue in a row: a large backlog is cleared in several rounds."""


class Worker:
    """Runs the handlers of jobs. `await worker.run()` works until `stop`; `async with worker:` works beside the block.

    `store` is an open store, or a function that opens one: the worker then opens it when it runs, retries while it is
    unavailable, and closes it at the end. `reopen` opens a second connection for the heartbeat, which then has its own
    thread: a handler that blocks the event loop loses no lease. Without it the heartbeat runs on the worker's loop.
    `rng` and `random_bytes` replace the system's randomness. A worker runs once.
    """

    def __init__(
        self,
        store: Store | OpenStore,
        handlers: Handlers,
        config: WorkerConfig | None = None,
        *,
        reopen: Callable[[], Awaitable[Store]] | None = None,
        middleware: Sequence[Middleware] = (),
        listeners: Sequence[Listener] = (),
        rng: random.Random | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not len(handlers):
            # It would claim jobs that other workers handle, and fail them.
            raise BadConfig("the worker has no handlers; register at least one")
        self._store = store
        self._handlers = handlers
        self._rng = rng or random.Random()
        self.settings: WorkerSettings = settings_of(
            config or WorkerConfig(), handlers.queues, handlers.fail_queues, random_bytes(3).hex()
        )
        self._totals = Totals()
        self._events = EventEmitter((self._count, *listeners), self.settings.name)
        self._capacity = Capacity(self.settings.capacity, self.settings.threads, self.settings.pool_size)
        # All but the store; it is opened later.
        self._new_dependencies = partial(
            Dependencies,
            reopen=reopen,
            handlers=handlers,
            settings=self.settings,
            capacity=self._capacity,
            groups=group_queues(self.settings.queues, handlers, self._capacity, self.settings.is_weighted),
            middleware=tuple(middleware),
            events=self._events,
            rng=self._rng,
            random_bytes=random_bytes,
        )
        self._state: State = "new"
        self._grace_ms: int | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runtime: Runtime | None = None
        self._opening: asyncio.Task[Store] | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, *, until_idle: bool = False, thorough: bool = False, signals: bool = False) -> None:
        """Work until `stop` is called; with `until_idle`, return as soon as nothing is due. With `signals`, the first
        SIGTERM or SIGINT stops with the grace time and the second at once; for the main thread of a program.
        `thorough` makes `is_idle` exact: as with `until_idle`, the worker claims once more before it is idle.

        Raises the error if the worker cannot run, such as a queue with another number of shards.
        """
        if self._state != "new":
            raise Refused("bad_worker", f"the worker {self.settings.name} is {self._state}; build a new one")
        self._loop = asyncio.get_running_loop()
        self._state = "running"
        with stop_on_signals(self._stop) if signals else contextlib.nullcontext():
            try:
                async with contextlib.AsyncExitStack() as stack:
                    if (store := await self._open_store(stack)) is not None:
                        await self._run(store, until_idle, thorough or until_idle)
            finally:
                self._state = "stopped"
                self._events.emit(Lifecycle("stopped"))
        if self._failure is not None:
            raise self._failure

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim nothing more, give running handlers the grace time, release the other jobs without counting an attempt.
        A second call can only shorten the time. May be called from any thread and from handlers."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the worker with it
                self._loop.call_soon_threadsafe(self._stop, grace_ms)
        else:
            self._grace_ms = grace_ms if grace_ms is not None else self.settings.grace_ms

    @property
    def is_idle(self) -> bool:
        """Whether it holds no job and knows of no due job; may be read from any thread."""
        return self._runtime is not None and self._runtime.is_idle

    def health(self) -> WorkerHealth:
        """The state of the worker at this moment; may be called from any thread, also while the loop is blocked."""
        runtime, settings = self._runtime, self.settings
        now = 0.0 if self._loop is None else self._loop.time()

        def ms_since(at: float | None) -> int | None:
            return None if at is None else int((now - at) * 1000)

        claimed_ms_ago = None if runtime is None else ms_since(runtime.fetch_loop.claimed_at)
        beaten_ms_ago = None if runtime is None else ms_since(runtime.heartbeat.extended_at)
        is_full = runtime is not None and runtime.claimer.is_full
        why = find_problem(self._state, is_full, claimed_ms_ago, beaten_ms_ago, settings.poll_ms, settings.lease_ms)
        return WorkerHealth(
            not why,
            why,
            settings.name,
            self._state,
            settings.capacity,
            self._capacity.free,
            claimed_ms_ago,
            beaten_ms_ago,
            replace(self._totals),
            [] if runtime is None else running_jobs(list(runtime.deliveries.values()), now),
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run())
        await asyncio.sleep(0)  # from here on its loop is known, and `stop` works
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None  # entered
        self.stop()
        await self._task

    async def _open_store(self, stack: contextlib.AsyncExitStack) -> Store | None:
        """The store, open until the stack is closed; None when the worker is stopped before the store opens."""
        if not callable(self._store):
            return self._store
        self._opening = asyncio.create_task(self._retry_open(self._store, stack), name="headrace-open")
        if self._grace_ms is not None:
            self._opening.cancel()
        try:
            return await self._opening
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        finally:
            self._opening = None

    async def _retry_open(self, open_store: OpenStore, stack: contextlib.AsyncExitStack) -> Store:
        reconnect = Reconnect(self._events, self._rng)
        while True:
            try:
                store = await stack.enter_async_context(open_store())
            except UNAVAILABLE as error:
                await reconnect.wait(error)
            else:
                reconnect.reset()
                return store

    async def _run(self, store: Store, until_idle: bool, is_thorough: bool) -> None:
        runtime = self._runtime = Runtime(self._new_dependencies(store), self._fail)
        try:
            if await self._enable_fail_jobs(runtime, store):
                await self._work(runtime, store, until_idle, is_thorough)
        finally:
            await runtime.close()

    async def _enable_fail_jobs(self, runtime: Runtime, store: Store) -> bool:
        """Switch on the fail jobs of queues with a fail handler here; False if stopped meanwhile."""
        for fail_queue in self._handlers.fail_queues:
            while self._grace_ms is None:
                try:
                    if not (await store.queues.configuration(fail_queue.main_queue)).fail_handler:
                        await store.queues.configure(fail_queue.main_queue, {"fail_handler": True})
                    runtime.reconnect.reset()
                    break
                except UNAVAILABLE as error:
                    await runtime.reconnect.wait(error)
        return self._grace_ms is None

    async def _work(self, runtime: Runtime, store: Store, until_idle: bool, is_thorough: bool) -> None:
        runtime.fetch_loop.is_thorough = is_thorough
        if self._needs_processes():
            await runtime.processes.start()
        runtime.heartbeat_runner.start()
        tasks = [
            asyncio.create_task(runtime.fetch_loop.run(), name="headrace-fetch-loop"),
            asyncio.create_task(
                repair_queues(store, list(self.settings.queues), self.settings.repair_ms, self._rng),
                name="headrace-repair",
            ),
        ]
        for task in tasks:
            task.add_done_callback(self._on_task_done)
        self._events.emit(Lifecycle("started", f"on {self._queue_names()}"))
        try:
            await self._until(runtime, lambda: self._grace_ms is not None or (until_idle and runtime.is_idle))
            await self._drain(runtime)
        except asyncio.CancelledError:
            # A cancelled worker ends at once, but still releases its jobs without counting an attempt.
            self._stop(0)
            await self._drain(runtime)
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _needs_processes(self) -> bool:
        return any(
            handler.mode == "process" for queue in self.settings.queues for handler in self._handlers.of_queue(queue)
        )

    def _queue_names(self) -> str:
        return ", ".join(f"{queue.tenant}/{queue.full_name}" for queue in self.settings.queues)

    async def _drain(self, runtime: Runtime) -> None:
        """Stop claiming, wait for handlers, cancel the remaining ones, release the other jobs."""
        self._state = "stopping"
        runtime.stop_claiming()
        time = asyncio.get_running_loop().time
        began_at = time()
        grace_ms = self._grace_ms or 0
        self._events.emit(Lifecycle("stopping", f"{len(runtime.working())} jobs in hand, grace {grace_ms:,} ms"))
        while runtime.working() and time() < began_at + (self._grace_ms or 0) / 1000:
            # A second `stop` may shorten the grace time, and the deadline with it.
            await self._until_changed(runtime, began_at + (self._grace_ms or 0) / 1000)
        runtime.stop_working()
        await self._until(runtime, lambda: not runtime.working(), time() + END_SECONDS)
        runtime.abandon()
        await self._until(runtime, lambda: runtime.is_settled, time() + SETTLE_SECONDS)

    async def _until(self, runtime: Runtime, condition: Callable[[], bool], deadline: float | None = None) -> None:
        """Wait until the condition holds, or until the deadline on the loop's clock."""
        time = asyncio.get_running_loop().time
        while not condition() and (deadline is None or time() < deadline):
            await self._until_changed(runtime, deadline)

    async def _until_changed(self, runtime: Runtime, deadline: float | None) -> None:
        runtime.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await runtime.changed.wait()

    def _stop(self, grace_ms: int | None) -> None:
        grace_ms = self.settings.grace_ms if grace_ms is None else grace_ms
        self._grace_ms = grace_ms if self._grace_ms is None else min(grace_ms, self._grace_ms)
        if self._opening is not None:
            self._opening.cancel()
        if self._runtime is not None:
            self._runtime.changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stop(0)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _count(self, event: WorkerEvent) -> None:
        match event:
            case JobsClaimed(deliveries):
                self._totals.claimed += len(deliveries)
            case JobsFinished(_, answers):
                self._totals.count(answers)
            case LeaseLost():
                self._totals.lost += 1


@contextmanager
def stop_on_signals(stop: Callable[[int | None], None]) -> Iterator[None]:
    """Call `stop(None)` at the first SIGTERM or SIGINT and `stop(0)` at the second, inside the block; a third has its
    default effect. For the main thread."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        stop(None)
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, second)

    def second() -> None:
        stop(0)
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def repair_queues(store: Store, queues: Sequence[Queue], repair_ms: int, rng: random.Random) -> None:
    """Repair all queues periodically until cancelled, with jitter: also queues without claims are swept."""
    while True:
        await asyncio.sleep(repair_ms / 1000 * rng.uniform(0.5, 1.5))
        for queue in queues:
            try:
                await _repair(store, queue)
            except (HeadraceError, OSError):
                break  # the fetch loop fails in the same way, reports it and waits for the store


async def _repair(store: Store, queue: Queue) -> None:
    for _ in range(REPAIR_CALLS_MAX):
        if not (await store.jobs.repair(queue)).more:
            return
