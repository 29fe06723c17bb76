"""Processes for handlers that must be stoppable: a job whose time is over is killed, and its process replaced."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import PROCESS_EXIT_MS
from headrace.worker.pools import main_module
from headrace.worker.pools.messages import ChildRaised, ChildTask, ProcessDied
from headrace.worker.pools.orphan_killer import OrphanKiller
from headrace.worker.pools.process import OnProgress, Process
from headrace.worker.pools.threads import FifoSemaphore

__all__ = ["ChildRaised", "ChildTask", "OnProgress", "ProcessDied", "ProcessPool"]

LOGGER = logging.getLogger("headrace.worker")


class ProcessPool:
    """Runs tasks in at most `size` processes, each in a session of its own. For one event loop.

    Processes are started when they are first needed, or all at once by `start`, and used again; one that has done
    `jobs_max` jobs is replaced. Each belongs to one job at a time, so killing it disturbs nobody else. All die with
    this program, and on Linux already with the thread that has started them.
    """

    def __init__(self, size: int, *, jobs_max: int | None = None) -> None:
        main_module.check_is_program()
        if size < 1 or (jobs_max is not None and jobs_max < 1):
            raise BadConfig(f"a pool of processes needs numbers of at least 1; found size {size!r}, jobs {jobs_max!r}")
        self._jobs_max = jobs_max
        self._turns = FifoSemaphore(size)
        self._guard: OrphanKiller | None = None
        self._processes: set[Process] = set()
        """Those that are ready or have been, and are not known to be dead."""
        self._idle: list[Process] = []
        self._starting: set[asyncio.Task[Process]] = set()
        self._unclaimed: list[asyncio.Task[Process]] = []
        """Of these, the ones that nobody waits for."""
        self._chores: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many tasks would get a process without waiting for a turn."""
        return self._turns.free

    async def start(self) -> None:
        """Start all processes at once; raises what kept one from starting."""
        self._check_open()
        self._idle = [process for process in self._idle if process.is_alive]
        tasks = [self._begin() for _ in range(self._turns.free - len(self._idle) - len(self._unclaimed))]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def run(self, task: ChildTask, on_progress: OnProgress | None = None) -> bytes | None:
        """Run a task and answer its encoded result, None when the handler returned nothing; `on_progress` is called on
        the loop as the handler reports.

        Raises `ChildRaised` for what the handler raised and `ProcessDied` for a process that died by itself. When the
        awaiting task is cancelled, the process is killed with all that it has started, and `CancelledError` is raised
        after its death: nothing of the job runs on. A pool that is closed meanwhile counts as a cancellation.
        """
        await self._turns.take()
        try:
            self._check_open()
            process = await self._take()
            try:
                return await process.run(task, on_progress)
            except ChildRaised:
                raise
            except BaseException as error:
                await process.kill()
                if self._is_closed and isinstance(error, ProcessDied):
                    raise asyncio.CancelledError from error
                raise
            finally:
                self._give(process)
        finally:
            self._turns.give()

    async def close(self) -> None:
        """End all processes: idle ones may end by themselves for a moment, the others are killed with their jobs."""
        self._is_closed = True
        self._turns.cancel()
        idle = set(self._idle)
        self._idle.clear()
        for starting in self._starting:
            starting.cancel()
        for process in self._processes:
            self._chore(process.retire() if process in idle else process.kill())
        left = [*self._starting, *self._chores]
        if left:
            # Twice the time: even a kill may take a moment, and one that takes for ever is the system's fault.
            _, pending = await asyncio.wait(left, timeout=2 * PROCESS_EXIT_MS / 1000)
            if pending:
                LOGGER.warning("%d processes of handlers do not die; the system holds them", len(pending))
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("closed", "the pool of processes was closed; make a new one")

    async def _take(self) -> Process:
        """A process that is ready, or the next one that will be."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            self._processes.discard(process)  # it died while nobody used it
        starting = self._unclaimed[0] if self._unclaimed else self._begin()
        self._unclaimed.remove(starting)
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            self._unclaimed.append(starting)  # the next one has it
            if starting.done():
                self._on_start(starting)
            raise
        return starting.result()

    def _give(self, process: Process) -> None:
        """A process is done with its task, and well or dead."""
        if self._is_closed:
            return
        if process.is_alive and (self._jobs_max is None or process.jobs < self._jobs_max):
            self._idle.append(process)
            return
        self._processes.discard(process)
        if process.is_alive:
            self._chore(process.retire())
        self._begin()

    def _begin(self) -> asyncio.Task[Process]:
        task = asyncio.create_task(self._new())
        self._starting.add(task)
        self._unclaimed.append(task)
        task.add_done_callback(self._on_start)
        return task

    async def _new(self) -> Process:
        if self._guard is None:
            self._guard = OrphanKiller()
        process = await Process.start(self._guard)
        self._processes.add(process)
        return process

    def _on_start(self, task: asyncio.Task[Process]) -> None:
        """A process is ready, or failed to become so; if nobody waits for it, it is idle."""
        error = None if task.cancelled() else task.exception()
        self._starting.discard(task)
        if task not in self._unclaimed:
            return
        self._unclaimed.remove(task)
        if error is not None:
            LOGGER.warning("a process for handlers did not start: %s", error)
        elif not task.cancelled() and not self._is_closed:
            self._idle.append(task.result())

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, as long as the pool is there."""
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
