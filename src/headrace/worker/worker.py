"""The worker: claims jobs from a store, runs their handlers, settles them, and ends in order."""

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from headrace.model.errors import BadConfig, Refused
from headrace.stores.contract.store import Store
from headrace.worker.capacity import Capacity, groups_of
from headrace.worker.config import WorkerConfig, WorkerSettings, settings_of
from headrace.worker.events import JobsClaimed, JobsFinished, LeaseLost, Lifecycle, Listener, Notice, WorkerEvents
from headrace.worker.handlers import Handlers
from headrace.worker.health import State, Totals, WorkerHealth, jobs_in_hand, verdict
from headrace.worker.maintenance import keep_repairing
from headrace.worker.middleware import Middleware
from headrace.worker.os_signals import stopping
from headrace.worker.reconnect import AWAY, Reconnect
from headrace.worker.runtime import Dependencies, Runtime

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
END_SECONDS = 2.0
"""How long handlers that were cancelled may take to end, once the grace is over."""
SETTLE_SECONDS = 5.0
"""How long a finished job worker tries to tell the store; what it could not tell stalls."""


class Worker:
    """Runs the handlers of jobs. `await worker.run()` works until `stop`; `async with worker:` works beside the block.

    In place of an open store it takes what opens one: that is done when the worker runs, again and again while the
    store is away, and the store is closed at the end. `reopen` opens the same store once more, for the heart, which
    beats on a thread of its own: handlers that block the event loop cost no lease then. Without it the heart beats on
    the worker's loop. Chance and entropy come in from outside; the defaults are the system's. A worker runs once.
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
        chance: random.Random | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not len(handlers):
            # It would claim what others work on, and fail it for want of a handler.
            raise BadConfig("the worker has no handlers; register at least one")
        self._store = store
        self._handlers = handlers
        self._chance = chance or random.Random()
        self.settings: WorkerSettings = settings_of(
            config or WorkerConfig(), handlers.queues, handlers.fail_queues, entropy(3).hex()
        )
        self._totals = Totals()
        self._notices = WorkerEvents((self._count, *listeners), self.settings.name)
        self._capacity = Capacity(self.settings.capacity, self.settings.threads, self.settings.pool_size)
        # All but the store, which may have to be waited for.
        self._means = partial(
            Dependencies,
            reopen=reopen,
            handlers=handlers,
            settings=self.settings,
            capacity=self._capacity,
            groups=groups_of(self.settings.queues, handlers, self._capacity, self.settings.is_weighted),
            middleware=tuple(middleware),
            notices=self._notices,
            chance=self._chance,
            entropy=entropy,
        )
        self._state: State = "new"
        self._grace_ms: int | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crew: Runtime | None = None
        self._opening: asyncio.Task[Store] | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, *, until_idle: bool = False, thorough: bool = False, signals: bool = False) -> None:
        """Work until `stop` is called; with `until_idle`, also no longer than something is due. With `signals`, the
        first SIGTERM or SIGINT stops with the grace time and the second at once; for the main thread of a program.
        `thorough` is for whoever watches `is_idle`: as with `until_idle`, it looks again before it says so.

        Raises what made the worker impossible, such as a queue that is cut into another number of shards.
        """
        if self._state != "new":
            raise Refused("bad_worker", f"the worker {self.settings.name} is {self._state}; build a new one")
        self._loop = asyncio.get_running_loop()
        self._state = "running"
        with stopping(self._stop) if signals else contextlib.nullcontext():
            try:
                async with contextlib.AsyncExitStack() as stack:
                    if (store := await self._opened(stack)) is not None:
                        await self._run(store, until_idle, thorough or until_idle)
            finally:
                self._state = "stopped"
                self._notices.tell(Lifecycle("stopped"))
        if self._failure is not None:
            raise self._failure

    def stop(self, grace_ms: int | None = None) -> None:
        """Claim nothing more, let running handlers go on for the grace time, release the rest uncharged. A second call
        can only shorten the time. May be called from any thread and from handlers."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the worker with it
                self._loop.call_soon_threadsafe(self._stop, grace_ms)
        else:
            self._grace_ms = grace_ms if grace_ms is not None else self.settings.grace_ms

    @property
    def is_idle(self) -> bool:
        """Whether it has looked, holds nothing and knows of nothing that waits; may be asked from any thread."""
        return self._crew is not None and self._crew.is_idle

    def health(self) -> WorkerHealth:
        """How the worker is at this moment; may be called from any thread, also while the loop is blocked."""
        crew, settings = self._crew, self.settings
        now = 0.0 if self._loop is None else self._loop.time()

        def since(at: float | None) -> int | None:
            return None if at is None else int((now - at) * 1000)

        claimed_ms_ago = None if crew is None else since(crew.exchange.claimed_at)
        beaten_ms_ago = None if crew is None else since(crew.heart.beaten_at)
        is_full = crew is not None and crew.claimer.is_full
        why = verdict(self._state, is_full, claimed_ms_ago, beaten_ms_ago, settings.poll_ms, settings.lease_ms)
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
            [] if crew is None else jobs_in_hand(list(crew.runs.values()), now),
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run())
        await asyncio.sleep(0)  # its loop is known from here on, so that it can be stopped
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None  # entered
        self.stop()
        await self._task

    async def _opened(self, stack: contextlib.AsyncExitStack) -> Store | None:
        """The store, for as long as the stack holds it; None when stopped before it could be opened."""
        if not callable(self._store):
            return self._store
        self._opening = asyncio.create_task(self._wait_for(self._store, stack), name="headrace-open")
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

    async def _wait_for(self, open_store: OpenStore, stack: contextlib.AsyncExitStack) -> Store:
        outage = Reconnect(self._notices, self._chance)
        while True:
            try:
                store = await stack.enter_async_context(open_store())
            except AWAY as error:
                await outage.wait(error)
            else:
                outage.over()
                return store

    async def _run(self, store: Store, until_idle: bool, is_thorough: bool) -> None:
        crew = self._crew = Runtime(self._means(store), self._fail)
        try:
            if await self._prepared(crew, store):
                await self._work(crew, store, until_idle, is_thorough)
        finally:
            await crew.close()

    async def _prepared(self, crew: Runtime, store: Store) -> bool:
        """Ask for the jobs that tell of deaths, where somebody handles them; False when stopped meanwhile."""
        for fail_queue in self._handlers.fail_queues:
            while self._grace_ms is None:
                try:
                    if not (await store.queues.configuration(fail_queue.main_queue)).fail_handler:
                        await store.queues.configure(fail_queue.main_queue, {"fail_handler": True})
                    crew.outage.over()
                    break
                except AWAY as error:
                    await crew.outage.wait(error)
        return self._grace_ms is None

    async def _work(self, crew: Runtime, store: Store, until_idle: bool, is_thorough: bool) -> None:
        crew.exchange.is_thorough = is_thorough
        if self._needs_processes():
            await crew.processes.start()
        crew.beat.start()
        roles = [
            asyncio.create_task(crew.exchange.run(), name="headrace-exchange"),
            asyncio.create_task(
                keep_repairing(store, list(self.settings.queues), self.settings.repair_ms, self._chance),
                name="headrace-repairer",
            ),
        ]
        for role in roles:
            role.add_done_callback(self._role_ended)
        self._notices.tell(Lifecycle("started", f"on {self._queue_names()}"))
        try:
            await self._until(crew, lambda: self._grace_ms is not None or (until_idle and crew.is_idle))
            await self._drain(crew)
        except asyncio.CancelledError:
            # Whoever cancels wants an end at once; the jobs are given back all the same, and pay nothing.
            self._stop(0)
            await self._drain(crew)
            raise
        finally:
            for role in roles:
                role.cancel()
            await asyncio.wait(roles)

    def _needs_processes(self) -> bool:
        return any(
            handler.mode == "process" for queue in self.settings.queues for handler in self._handlers.of_queue(queue)
        )

    def _queue_names(self) -> str:
        return ", ".join(f"{queue.tenant}/{queue.full_name}" for queue in self.settings.queues)

    async def _drain(self, crew: Runtime) -> None:
        """Claim no more, let handlers end, cancel those that do not, give back what is left."""
        self._state = "stopping"
        crew.stop_claiming()
        time = asyncio.get_running_loop().time
        began_at = time()
        grace_ms = self._grace_ms or 0
        self._notices.tell(Lifecycle("stopping", f"{len(crew.working())} jobs in hand, grace {grace_ms:,} ms"))
        while crew.working() and time() < began_at + (self._grace_ms or 0) / 1000:
            # The grace may be shortened meanwhile, and the deadline with it.
            await self._until_changed(crew, began_at + (self._grace_ms or 0) / 1000)
        crew.stop_working()
        await self._until(crew, lambda: not crew.working(), time() + END_SECONDS)
        crew.abandon()
        await self._until(crew, lambda: crew.is_settled, time() + SETTLE_SECONDS)

    async def _until(self, crew: Runtime, is_so: Callable[[], bool], deadline: float | None = None) -> None:
        """Wait until it is so, or until the deadline on the loop's clock."""
        time = asyncio.get_running_loop().time
        while not is_so() and (deadline is None or time() < deadline):
            await self._until_changed(crew, deadline)

    async def _until_changed(self, crew: Runtime, deadline: float | None) -> None:
        crew.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await crew.changed.wait()

    def _stop(self, grace_ms: int | None) -> None:
        grace_ms = self.settings.grace_ms if grace_ms is None else grace_ms
        self._grace_ms = grace_ms if self._grace_ms is None else min(grace_ms, self._grace_ms)
        if self._opening is not None:
            self._opening.cancel()
        if self._crew is not None:
            self._crew.changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stop(0)

    def _role_ended(self, role: "asyncio.Task[None]") -> None:
        if not role.cancelled() and (error := role.exception()) is not None:
            self._fail(error)

    def _count(self, notice: Notice) -> None:
        match notice:
            case JobsClaimed(runs):
                self._totals.claimed += len(runs)
            case JobsFinished(_, answers):
                self._totals.count(answers)
            case LeaseLost():
                self._totals.lost += 1
