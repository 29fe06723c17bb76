"""A pool of processes for handlers that can be killed: at a time-out the process is killed and replaced."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import PROCESS_EXIT_MS
from headrace.worker.pools import main_module
from headrace.worker.pools.messages import ChildRaised, ChildTask, ProcessDied
from headrace.worker.pools.process import OnProgress, OrphanKiller, Process
from headrace.worker.pools.threads import FifoSemaphore

__all__ = ["ChildRaised", "ChildTask", "OnProgress", "ProcessDied", "ProcessPool"]

LOGGER = logging.getLogger("headrace.worker")


class ProcessPool:
    """Runs tasks in at most `size` processes, each in its own session. For one event loop.

    Processes are started when they are first needed, or all at once by `start`, and reused; after `jobs_max` jobs a
    process is replaced. Each runs one job at a time, so killing it affects no other job. All die with this program, and
    on Linux already with the thread that has started them.
    """

    def __init__(self, size: int, *, jobs_max: int | None = None) -> None:
        main_module.check_is_program()
        if size < 1 or (jobs_max is not None and jobs_max < 1):
            raise BadConfig(f"a pool of processes needs numbers of at least 1; found size {size!r}, jobs {jobs_max!r}")
        self._jobs_max = jobs_max
        self._slots = FifoSemaphore(size)
        self._orphan_killer: OrphanKiller | None = None
        self._processes: set[Process] = set()
        """Started processes, except those known to be dead."""
        self._idle: list[Process] = []
        self._starting: set[asyncio.Task[Process]] = set()
        self._unclaimed: list[asyncio.Task[Process]] = []
        """Processes that are being started without a waiting task."""
        self._background: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many tasks would start without waiting for a slot."""
        return self._slots.free

    async def start(self) -> None:
        """Start all processes at once; raises the error of a process that did not start."""
        self._check_open()
        self._idle = [process for process in self._idle if process.is_alive]
        tasks = [self._start_process() for _ in range(self._slots.free - len(self._idle) - len(self._unclaimed))]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def run(self, task: ChildTask, on_progress: OnProgress | None = None) -> bytes | None:
        """Run a task and return its encoded result, None when the handler returned nothing; `on_progress` is called on
        the loop for each report of the handler.

        Raises `ChildRaised` for an exception of the handler and `ProcessDied` for a process that died by itself. When
        the awaiting task is cancelled, the process is killed with its children, and `CancelledError` is raised after
        its death: no part of the job continues. Closing the pool counts as a cancellation.
        """
        await self._slots.acquire()
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
                self._put_back(process)
        finally:
            self._slots.release()

    async def close(self) -> None:
        """End all processes: idle ones get a moment to exit, the others are killed with their jobs."""
        self._is_closed = True
        self._slots.cancel_waiters()
        idle = set(self._idle)
        self._idle.clear()
        for starting in self._starting:
            starting.cancel()
        for process in self._processes:
            self._in_background(process.retire() if process in idle else process.kill())
        left = [*self._starting, *self._background]
        if left:
            # Twice the exit time: a kill may take a moment, too.
            _, pending = await asyncio.wait(left, timeout=2 * PROCESS_EXIT_MS / 1000)
            if pending:
                LOGGER.warning("%d processes of handlers do not die; the system holds them", len(pending))
        if self._orphan_killer is not None:
            self._orphan_killer.close()
            self._orphan_killer = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("closed", "the pool of processes was closed; make a new one")

    async def _take(self) -> Process:
        """An idle process, or the next one to start."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            self._processes.discard(process)  # it died while it was idle
        starting = self._unclaimed[0] if self._unclaimed else self._start_process()
        self._unclaimed.remove(starting)
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            self._unclaimed.append(starting)  # for the next task
            if starting.done():
                self._on_start(starting)
            raise
        return starting.result()

    def _put_back(self, process: Process) -> None:
        """Reuse or replace a process after its task."""
        if self._is_closed:
            return
        if process.is_alive and (self._jobs_max is None or process.jobs < self._jobs_max):
            self._idle.append(process)
            return
        self._processes.discard(process)
        if process.is_alive:
            self._in_background(process.retire())
        self._start_process()

    def _start_process(self) -> asyncio.Task[Process]:
        task = asyncio.create_task(self._launch())
        self._starting.add(task)
        self._unclaimed.append(task)
        task.add_done_callback(self._on_start)
        return task

    async def _launch(self) -> Process:
        if self._orphan_killer is None:
            self._orphan_killer = OrphanKiller()
        process = await Process.start(self._orphan_killer)
        self._processes.add(process)
        return process

    def _on_start(self, task: asyncio.Task[Process]) -> None:
        """After a start, or a failed one: without a waiting task the process is idle."""
        error = None if task.cancelled() else task.exception()
        self._starting.discard(task)
        if task not in self._unclaimed:
            return
        self._unclaimed.remove(task)
        if error is not None:
            LOGGER.warning("a process for handlers did not start: %s", error)
        elif not task.cancelled() and not self._is_closed:
            self._idle.append(task.result())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background until the pool is closed."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
