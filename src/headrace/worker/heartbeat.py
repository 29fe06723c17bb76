"""The heart: extends the leases of all runs, and lets go of those that it could not extend in time."""

import asyncio
import contextlib
import math
import random
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.limits import BATCH_MAX
from headrace.model.results import Extended
from headrace.stores.contract.store import Store
from headrace.worker.job_run import JobRun
from headrace.worker.reconnect import AWAY

MARGIN = 0.1
"""The part of a lease that is left to a handler for ending, once the lease cannot be extended."""
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 2.0

Report = Callable[[Sequence[tuple[JobRun, str]], Sequence[JobRun]], None]
"""Takes the runs that were lost, each with why, and those that were asked to cancel."""


class Heartbeat:
    """Beats on a loop of its own where it can, so that a handler that blocks the worker's loop costs no lease. A lease
    counts as lost before the store can think so: then no two workers believe that they hold it."""

    def __init__(
        self, runs: dict[int, JobRun], lease_ms: int, heartbeat_ms: int, report: Report, chance: random.Random
    ) -> None:
        self._runs = runs
        self._lease_ms = lease_ms
        self._lease = lease_ms / 1000
        self._beat = heartbeat_ms / 1000
        self._margin = self._lease * MARGIN
        self._report = report
        self._chance = chance
        self._failures = 0
        self.beaten_at: float | None = None
        """When all leases were last extended that had to be."""

    def has_time_for(self, holds_until: float, now: float) -> bool:
        """Whether a lease that holds so long is seen to by the next beat, however late that is."""
        return holds_until - self._margin - self._beat > now

    async def run(self, store: Store) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            self.fence(began_at)
            await self._extend(store, began_at)
            now = loop.time()
            self.fence(now)
            await asyncio.sleep(max(self._next_at(began_at, now) - now, 0))

    def _next_at(self, began_at: float, now: float) -> float:
        next_at = began_at + self._beat
        if self._failures:
            pause = min(RETRY_SECONDS * (1 << min(self._failures, 16)), RETRY_SECONDS_MAX, self._beat)
            next_at = now + pause * self._chance.uniform(0.5, 1.0)
        ends = [self._fences_at(run) for run in self._held()]
        return min([next_at, *(end for end in ends if end > now)])

    def _held(self) -> list[JobRun]:
        # The other thread adds and takes away; copying a dict's values is one step for the interpreter.
        return [run for run in list(self._runs.values()) if not run.is_lost]

    def _fences_at(self, run: JobRun) -> float:
        return run.holds_until - self._margin

    def fence(self, now: float) -> None:
        """Let go of what could not be extended in time."""
        lost = [run for run in self._held() if self._fences_at(run) <= now]
        for run in lost:
            run.is_lost = True
        if lost:
            self._report([(run, "its lease could not be extended in time") for run in lost], ())

    async def _extend(self, store: Store, now: float) -> None:
        # One that was claimed a moment ago has time until the next beat.
        old = [run for run in self._held() if run.holds_until - now < self._lease - self._beat / 2]
        failed = False
        for at in range(0, len(old), BATCH_MAX):
            failed = not await self._extend_some(store, old[at : at + BATCH_MAX]) or failed
        if failed:
            self._failures += 1
        else:
            self._failures = 0
            self.beaten_at = asyncio.get_running_loop().time()

    async def _extend_some(self, store: Store, runs: Sequence[JobRun]) -> bool:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        # Others may have come meanwhile, whose turn is with the next beat.
        patience = min(min(self._fences_at(run) for run in runs) - sent_at, self._beat)
        leases = [run.claim.lease for run in runs]
        try:
            async with asyncio.timeout(max(patience, 0)):
                answers = await store.jobs.extend(leases, lease_ms=self._lease_ms)
        except OutcomeUnknown as unknown:
            known = [answer for answer in unknown.known if isinstance(answer, Extended)]
            if len({lease.id for lease in leases}) == len(leases):  # else nobody knows which is meant
                by_id = {answer.id: answer for answer in known}
                self._take([(run, by_id[run.claim.lease.id]) for run in runs if run.claim.lease.id in by_id], sent_at)
            return False
        except (HeadraceError, OSError):  # one of them is TimeoutError
            return False
        self._take(list(zip(runs, answers, strict=True)), sent_at)
        return True

    def _take(self, answers: Sequence[tuple[JobRun, Extended]], sent_at: float) -> None:
        lost: list[tuple[JobRun, str]] = []
        asked: list[JobRun] = []
        for run, answer in answers:
            if answer.ok:
                run.holds_until = max(run.holds_until, sent_at + self._lease)
                if answer.cancel_asked:
                    asked.append(run)
            elif not run.is_settling and not run.is_uncertain and run.number in self._runs:
                # One that is being settled, or was, may be gone for that: the answer to its settlement tells.
                run.is_lost = True
                lost.append((run, f"the store says {answer.status}"))
        if lost or asked:
            self._report(lost, asked)


OPEN_SECONDS = 0.2
JOIN_SECONDS = 2.0
WATCH_SECONDS = 0.5
STILL_LOOKS_MAX = 10
"""How often in a row the worker's loop may be found standing still before the heart believes that it will not go on.
One that runs is never still, however long a handler blocks it."""


class HeartbeatRunner(Protocol):
    """A heart that beats somewhere."""

    def start(self) -> None:
        """Let it beat."""

    async def stop(self) -> None:
        """Let it rest, for good."""


class LoopHeartbeat:
    """On the worker's own loop, with its store: for stores that live on one loop, and for simulations."""

    def __init__(self, heart: Heartbeat, store: Store, failed: Callable[[BaseException], None]) -> None:
        self._heart = heart
        self._store = store
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._heart.run(self._store), name="headrace-heart")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class ThreadHeartbeat:
    """On a thread: handlers that block the worker's loop do not stop it. It does not outlive that loop: a worker that
    was left without its end, in a process that goes on, would keep its leases for ever."""

    def __init__(
        self,
        heart: Heartbeat,
        reopen: Callable[[], Awaitable[Store]],
        failed: Callable[[BaseException], None],
        chance: random.Random,
    ) -> None:
        self._heart = heart
        self._reopen = reopen
        self._failed = failed
        self._chance = chance
        self._of_worker: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="headrace-heart", daemon=True)
        self._stopping = threading.Event()

    def start(self) -> None:
        self._of_worker = asyncio.get_running_loop()
        self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                runner = self._runner()
                if runner is not None:
                    with runner:
                        runner.run(self._beat())
            except Exception as error:  # noqa: BLE001 - the worker is told, and ends with it
                self._failed(error)

    def _runner(self) -> asyncio.Runner | None:
        """A runner with its loop, as soon as there are descriptors for one; leases that nobody can extend until then
        end as any others do. None when the worker has ended before."""
        assert self._of_worker is not None  # started
        while not self._stopping.is_set():
            if _can_make_loop():
                with contextlib.suppress(OSError):  # somebody else has taken them meanwhile
                    runner = asyncio.Runner()
                    runner.get_loop()
                    return runner
            self._heart.fence(self._of_worker.time())
            self._stopping.wait(OPEN_SECONDS)
        return None

    async def _beat(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        watching = asyncio.create_task(self._watch())
        fencing = asyncio.create_task(self._keep_fencing(self._loop))
        try:
            store = await self._open()
        finally:
            fencing.cancel()
        try:
            if not self._stopping.is_set():
                await self._heart.run(store)
        finally:
            watching.cancel()
            await store.close()

    async def _watch(self) -> None:
        """Let go of everything when there is no worker any more."""
        assert self._of_worker is not None  # started
        assert self._task is not None
        still = 0
        while still < STILL_LOOKS_MAX and not self._of_worker.is_closed():
            await asyncio.sleep(WATCH_SECONDS)
            still = 0 if self._of_worker.is_running() else still + 1
        self._heart.fence(math.inf)
        # Heard only where the loop was stopped and goes on after all.
        self._failed(
            Refused(
                "loop_stopped",
                "the worker's event loop stood still, and its leases were let go; keep the loop of a worker running",
            )
        )
        self._task.cancel()

    async def _keep_fencing(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leases that nobody can extend yet end as any others do."""
        while True:
            await asyncio.sleep(OPEN_SECONDS)
            self._heart.fence(loop.time())

    async def _open(self) -> Store:
        while True:
            try:
                return await self._reopen()
            except AWAY:
                await asyncio.sleep(OPEN_SECONDS * self._chance.uniform(0.5, 1.5))

    async def stop(self) -> None:
        self._stopping.set()
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, JOIN_SECONDS)


def _can_make_loop() -> bool:
    # A loop that is made without a free descriptor cannot be closed again: asyncio then writes a traceback to stderr.
    try:
        with selectors.DefaultSelector():
            for each in socket.socketpair():
                each.close()
    except OSError:
        return False
    return True
