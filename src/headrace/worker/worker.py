"""The worker: claims jobs from a store, runs their handlers, settles them, and ends in order."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from headrace.model.claim import Claim
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.outcome import Outcome, Release
from headrace.stores.contract.store import Store
from headrace.worker.beat import Beat, LoopBeat, ThreadBeat
from headrace.worker.capacity import Capacity, groups_of
from headrace.worker.claimer import Claimer
from headrace.worker.config import Settings, WorkerConfig, settings_of
from headrace.worker.ending import Endings
from headrace.worker.exchange import Exchange
from headrace.worker.handlers import Handlers
from headrace.worker.health import State, Totals, WorkerHealth, jobs_in_hand, verdict
from headrace.worker.heart import Heart
from headrace.worker.middleware import Middleware
from headrace.worker.notices import Finished, Lifecycle, Listener, Lost, Notice, Notices, Taken
from headrace.worker.outage import Outage
from headrace.worker.pools.processes import ProcessPool
from headrace.worker.pools.threads import ThreadPool
from headrace.worker.repairer import keep_repairing
from headrace.worker.run import Run
from headrace.worker.runner import Runner
from headrace.worker.settler import Settler

END_SECONDS = 2.0
"""How long handlers that were cancelled may take to end, once the grace is over."""
SETTLE_SECONDS = 5.0
"""How long an ending worker tries to tell the store; what it could not tell stalls."""
ABANDONED_DELAY_MS = 1_000
"""A job whose thread could not be stopped waits this long: the process is gone by then."""


class Worker:
    """Runs the handlers of jobs. `await worker.run()` works until `stop`; `async with worker:` works beside the block.

    `reopen` opens the same store once more, for the heart, which beats on a thread of its own: handlers that block the
    event loop cost no lease then. Without it the heart beats on the worker's loop. Chance and entropy come in from
    outside; the defaults are the system's. A worker runs once.
    """

    def __init__(
        self,
        store: Store,
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
        self._reopen = reopen
        self._middleware = tuple(middleware)
        self._chance = chance or random.Random()
        self._entropy = entropy
        self.settings: Settings = settings_of(
            config or WorkerConfig(), handlers.queues, handlers.companions, entropy(3).hex()
        )
        self._capacity = Capacity(self.settings.capacity, self.settings.threads, self.settings.processes)
        self._groups = groups_of(self.settings.queues, handlers, self._capacity, self.settings.is_weighted)
        self._totals = Totals()
        self._notices = Notices((self._count, *listeners))
        self._runs: dict[int, Run] = {}
        """All deliveries in hand, until the store has answered their settlement."""
        self._number = 0
        self._state: State = "new"
        self._grace_ms: int | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, *, until_idle: bool = False, signals: bool = False) -> None:
        """Work until `stop` is called; with `until_idle`, also no longer than something is due. With `signals`, the
        first SIGTERM or SIGINT stops with the grace time and the second at once; for the main thread of a program.

        Raises what made the worker impossible, such as a queue that is cut into another number of shards.
        """
        if self._state != "new":
            raise Refused("bad_worker", f"the worker {self.settings.name} is {self._state}; build a new one")
        self._assemble()
        self._state = "running"
        with self._signals() if signals else contextlib.nullcontext():
            try:
                if await self._prepared():
                    await self._work(until_idle)
            finally:
                await self._close()
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

    def health(self) -> WorkerHealth:
        """How the worker is at this moment; may be called from any thread, also while the loop is blocked."""
        now = 0.0 if self._loop is None else self._loop.time()
        claimed_at = self._exchange.claimed_at if self._loop is not None else None
        beaten_at = self._heart.beaten_at if self._loop is not None else None
        claimed_ms_ago = None if claimed_at is None else int((now - claimed_at) * 1000)
        beaten_ms_ago = None if beaten_at is None else int((now - beaten_at) * 1000)
        settings = self.settings
        is_full = self._loop is not None and self._claimer.is_full
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
            jobs_in_hand(list(self._runs.values()), now),
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

    # Putting it together.

    def _assemble(self) -> None:
        settings = self.settings
        loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._threads = ThreadPool(settings.threads)
        self._processes = ProcessPool(settings.processes, jobs_max=settings.jobs_per_process)
        self._outage = Outage(self._notices, self._chance)
        self._settler = Settler(self._forget, loop.time, self._notices)
        self._claimer = Claimer(
            self._groups,
            self._capacity,
            worker=settings.name,
            lease_ms=settings.lease_ms,
            is_weighted=settings.is_weighted,
            entropy=self._entropy,
        )
        self._runner = Runner(
            self._handlers,
            Endings(self._chance),
            self._middleware,
            self._threads,
            self._processes,
            self._ended,
            self._notices,
        )
        self._exchange = Exchange(
            self._store,
            self._settler,
            self._claimer,
            self._outage,
            self._start,
            self._fail,
            self._changed.set,
            list(settings.queues),
            settings.poll_ms,
        )
        threaded = self._reopen is not None
        self._heart = Heart(
            self._runs,
            settings.lease_ms,
            settings.heartbeat_ms,
            self._report_from_thread if threaded else self._report,
            self._chance,
        )
        self._beat: Beat = (
            LoopBeat(self._heart, self._store, self._fail)
            if self._reopen is None
            else ThreadBeat(self._heart, self._reopen, self._fail_from_thread, self._chance)
        )
        self._loop = loop  # last: other threads take it for the sign that all the rest is there

    async def _prepared(self) -> bool:
        """Ask for the jobs that tell of deaths, where somebody handles them; False when stopped meanwhile."""
        for companion in self._handlers.companions:
            while self._grace_ms is None:
                try:
                    if not (await self._store.queues.configuration(companion.sibling)).fail_handler:
                        await self._store.queues.configure(companion.sibling, {"fail_handler": True})
                    self._outage.over()
                    break
                except (StoreUnavailable, OutcomeUnknown) as error:
                    await self._outage.wait(error)
        return self._grace_ms is None

    # The life of the worker.

    async def _work(self, until_idle: bool) -> None:
        self._exchange.is_thorough = until_idle
        if self._needs_processes():
            await self._processes.start()
        self._beat.start()
        roles = [
            asyncio.create_task(self._exchange.run(), name="headrace-exchange"),
            asyncio.create_task(
                keep_repairing(self._store, list(self.settings.queues), self.settings.repair_ms, self._chance),
                name="headrace-repairer",
            ),
        ]
        for role in roles:
            role.add_done_callback(self._role_ended)
        self._notices.tell(Lifecycle("started", f"{self.settings.name} on {self._queue_names()}"))
        try:
            await self._until(lambda: self._grace_ms is not None or (until_idle and self._is_idle()))
            await self._drain()
        except asyncio.CancelledError:
            # Whoever cancels wants an end at once; the jobs are given back all the same, and pay nothing.
            self._stop(0)
            await self._drain()
            raise
        finally:
            for role in roles:
                role.cancel()
            await asyncio.wait(roles)

    def _needs_processes(self) -> bool:
        return any(
            handler.mode == "process" for queue in self.settings.queues for handler in self._handlers.of_queue(queue)
        )

    def _is_idle(self) -> bool:
        return not self._runs and self._exchange.is_resting

    def _queue_names(self) -> str:
        return ", ".join(f"{queue.tenant}/{queue.full_name}" for queue in self.settings.queues)

    async def _drain(self) -> None:
        """Claim no more, let handlers end, cancel those that do not, give back what is left."""
        self._state = "stopping"
        self._claimer.is_stopping = True
        self._outage.is_hurried = True
        self._exchange.notify()
        assert self._loop is not None  # running
        began_at = self._loop.time()
        grace_ms = self._grace_ms or 0
        self._notices.tell(Lifecycle("stopping", f"{len(self._working())} jobs in hand, grace {grace_ms:,} ms"))
        while self._working() and not self._is_over(began_at):
            # Not `_until`: the grace may be shortened meanwhile, and the deadline with it.
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(began_at + (self._grace_ms or 0) / 1000):
                    await self._changed.wait()
        for run in self._working():
            self._runner.stop(run, "drain")
        await self._until(lambda: not self._working(), self._loop.time() + END_SECONDS)
        for run in self._working():
            self._abandon(run)
        await self._until(self._is_settled, self._loop.time() + SETTLE_SECONDS)

    def _is_over(self, began_at: float) -> bool:
        assert self._loop is not None  # running
        return self._loop.time() >= began_at + (self._grace_ms or 0) / 1000

    def _is_settled(self) -> bool:
        return not self._claimer.is_unanswered and all(run.is_lost for run in self._runs.values())

    def _working(self) -> list[Run]:
        return [run for run in self._runs.values() if run.settlement is None and not run.is_lost]

    def _abandon(self, run: Run) -> None:
        """Give back a job whose handler cannot be stopped; it waits until this process has ended."""
        self._notices.tell(Lost(run.claim, "its handler could not be stopped; the job is given back"))
        self._settler.put(run, Release(ABANDONED_DELAY_MS), 0)
        self._exchange.notify()

    async def _close(self) -> None:
        self._threads.abandon()
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        await self._beat.stop()
        await self._processes.close()
        self._threads.close()
        self._state = "stopped"
        self._notices.tell(Lifecycle("stopped", self.settings.name))

    async def _until(self, is_so: Callable[[], bool], deadline: float | None = None) -> None:
        """Wait until it is so, or until the deadline on the loop's clock."""
        try:
            async with asyncio.timeout_at(deadline):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    # What the roles say to each other, all on the worker's loop.

    def _start(self, claims: Sequence[Claim], sent_at: float, is_more_to_send: bool) -> None:
        assert self._loop is not None  # running
        holds_until = sent_at + self.settings.lease_ms / 1000
        runs: list[Run] = []
        for claim in claims:
            handler = self._handlers.find(claim.lease.queue, claim.record.kind)
            self._number += 1
            run = self._runs[self._number] = Run(self._number, claim, handler, holds_until)
            self._capacity.take(handler)
            runs.append(run)
        self._notices.tell(Taken(claims))
        # The answer may be to a claim of before the stop, or so late that the leases could end before the heart sees
        # to them: what is not started is given back, and costs nothing.
        if self._claimer.is_stopping or not self._heart.has_time_for(holds_until, self._loop.time()):
            for run in runs:
                self._ended(run, Release(), 0)
            return
        if is_more_to_send:
            self._loop.call_soon(self._runner.start, runs)  # behind the exchange, which sends it now
        else:
            self._runner.start(runs)

    def _ended(self, run: Run, outcome: Outcome | None, run_ms: int) -> None:
        self._capacity.give(run.handler)
        if run.settlement is not None:
            return  # given back already
        if outcome is None:
            self._forget(run)
        else:
            self._settler.put(run, outcome, run_ms)
        self._exchange.notify()
        self._changed.set()

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.number, None)
        self._changed.set()

    def _report(self, lost: Sequence[tuple[Run, str]], asked: Sequence[Run]) -> None:
        for run, why in lost:
            if run.settlement is None:
                self._notices.tell(Lost(run.claim, why))
                self._runner.stop(run, "lost")
        for run in asked:
            if run.stop is None:
                self._runner.stop(run, "cancel")
        self._exchange.notify()
        self._changed.set()

    def _report_from_thread(self, lost: Sequence[tuple[Run, str]], asked: Sequence[Run]) -> None:
        assert self._loop is not None  # running
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._report, lost, asked)

    def _stop(self, grace_ms: int | None) -> None:
        grace_ms = self.settings.grace_ms if grace_ms is None else grace_ms
        self._grace_ms = grace_ms if self._grace_ms is None else min(grace_ms, self._grace_ms)
        self._changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._stop(0)

    def _fail_from_thread(self, error: BaseException) -> None:
        assert self._loop is not None  # running
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._fail, error)

    def _role_ended(self, role: "asyncio.Task[None]") -> None:
        if not role.cancelled() and (error := role.exception()) is not None:
            self._fail(error)

    def _count(self, notice: Notice) -> None:
        match notice:
            case Taken(claims):
                self._totals.claimed += len(claims)
            case Finished(_, answers):
                self._totals.count(answers)
            case Lost():
                self._totals.lost += 1

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        both = (signal.SIGTERM, signal.SIGINT)

        def first() -> None:
            self._stop(None)
            for number in both:
                loop.remove_signal_handler(number)
                loop.add_signal_handler(number, second)

        def second() -> None:
            self._stop(0)
            for number in both:
                # A third one ends the process as it would any other.
                loop.remove_signal_handler(number)

        for number in both:
            loop.add_signal_handler(number, first)
        try:
            yield
        finally:
            for number in both:
                loop.remove_signal_handler(number)
