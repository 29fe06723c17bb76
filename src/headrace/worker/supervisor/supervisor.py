"""Supervises worker processes: starts and restarts them, passes signals on and adds up their reports."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError, Refused
from headrace.model.limits import (
    PROCESS_CALM_MS,
    PROCESS_DEATHS_MAX,
    PROCESS_RESTART_MS,
    PROCESS_RESTART_MS_MAX,
    PROCESS_STOP_MARGIN_MS,
)
from headrace.model.policy import backoff
from headrace.worker.config import WorkerSettings
from headrace.worker.health import ProcessesHealth, ProcessHealth, Totals, WorkerCounts
from headrace.worker.log_format import WORKER_LOG, log_event
from headrace.worker.supervisor.messages import WorkerSpec, error_of
from headrace.worker.supervisor.process import WorkerProcess
from headrace.worker.worker import stop_on_signals

POLL_SECONDS = 1.0
"""How often each process is asked for a report: a killed process loses the counts since its last report."""
IDLE_POLL_SECONDS = 0.1
"""The same with `until_idle`."""
POLL_SECONDS_MAX = 5.0
"""How long another thread waits for a poll, at most."""
ANSWER_SECONDS = 1.0
"""How long a process may take to answer: a handler that holds the GIL delays it."""


class _Slot:
    """A slot for one process after the other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: WorkerProcess | None = None
        self.deaths = 0
        """Deaths in a row."""
        self.is_responding = True
        """Whether the process answered the last request."""
        self.why = "it has not started yet"


class ProcessSupervisor:
    """Runs `count` worker processes on the event loop that calls `run`. It opens no store and claims no jobs.

    `spec_of` builds the spec of a process from its number; the flag says whether it replaces a dead one.
    """

    def __init__(
        self,
        spec_of: Callable[[int, bool], WorkerSpec],
        count: int,
        settings: WorkerSettings,
        *,
        until_idle: bool = False,
    ) -> None:
        self.settings = settings
        """The settings of each worker; the name is that of the supervisor."""
        self.count = count
        self.restarts = 0
        self._spec_of = spec_of
        self._until_idle = until_idle
        self._slots = [_Slot(number) for number in range(1, count + 1)]
        self._ended = WorkerCounts()
        """The counts of ended processes: without them the sums would fall, which looks like a restart to Prometheus."""
        self._ended_totals = Totals()
        self._stopping = asyncio.Event()
        self._grace_ms: int | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._failure: HeadraceError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop`, or with `until_idle` until all processes are idle. With `signals`, the first SIGTERM or
        SIGINT stops with the grace time and the second at once; for the main thread of a program.

        If the worker cannot run in one of the processes, raises the error after all have ended.
        """
        self._loop = asyncio.get_running_loop()
        with stop_on_signals(self._stop) if signals else contextlib.nullcontext():
            running_slots = [asyncio.create_task(self._run_slot(slot)) for slot in self._slots]
            watching = asyncio.create_task(self._watch())
            try:
                await asyncio.gather(*running_slots)
            finally:
                for task in (watching, *running_slots):
                    task.cancel()
                await asyncio.wait([watching, *running_slots])
                self._kill_all()
                if self._kill_timer is not None:
                    self._kill_timer.cancel()
                self._loop = None
        if self._failure is not None:
            raise self._failure

    def stop(self, grace_ms: int | None = None) -> None:
        """Stop all workers, as `Worker.stop`. May be called from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the supervisor with it
                self._loop.call_soon_threadsafe(self._stop, grace_ms)

    def poll(self) -> tuple[ProcessesHealth, WorkerCounts]:
        """The health of the processes and the sums of their counts; for another thread than the loop's."""
        loop = self._loop
        if loop is None:
            return self.health(), self._counts()

        async def poll() -> tuple[ProcessesHealth, WorkerCounts]:
            await self._poll(running=True)
            return self.health(), self._counts()

        return asyncio.run_coroutine_threadsafe(poll(), loop).result(POLL_SECONDS_MAX)

    def health(self) -> ProcessesHealth:
        """The health of the processes by their last reports; on the loop, or when it has ended."""
        alive = [slot for slot in self._slots if slot.process is not None]
        totals = Totals()
        totals.add(self._ended_totals)
        reports: list[ProcessHealth] = []
        capacity = free = 0
        for slot in self._slots:
            process = slot.process
            report = None if process is None else process.report
            worker = None if report is None else report.health
            why = slot.why
            if process is not None and not slot.is_responding:
                why = "it does not answer"
            elif worker is not None:
                why = worker.why
            if worker is not None:
                totals.add(worker.totals)
                capacity, free = capacity + worker.capacity, free + worker.free
            reports.append(ProcessHealth(slot.number, None if process is None else process.pid, why, worker))
        wrong = [f"process {each.number}: {each.why}" for each in reports if each.why]
        return ProcessesHealth(
            not wrong,
            "; ".join(wrong),
            self.settings.name,
            len(alive),
            self.restarts,
            capacity,
            free,
            totals,
            reports,
        )

    def _counts(self) -> WorkerCounts:
        sums = WorkerCounts()
        sums.add(self._ended)
        for slot in self._slots:
            if slot.process is not None and slot.process.report is not None:
                sums.add(slot.process.report.counts)
        return sums

    async def _run_slot(self, slot: _Slot) -> None:
        """Run one process after the other until the supervisor stops."""
        while not self._stopping.is_set():
            began_ms = monotonic_ms()
            try:
                process = await WorkerProcess.start(self._spec_of(slot.number, slot.deaths > 0), self.count)
            except OSError as error:
                why = f"could not be started: {error.strerror or error}"
                code = None
            else:
                slot.process, slot.is_responding, slot.why = process, True, "it has not reported yet"
                if self._stopping.is_set():
                    process.stop(self._grace_ms)
                try:
                    code = await process.wait()
                finally:
                    self._add_final_counts(slot, process)
                if process.failed is not None:
                    self._fail(error_of(process.failed))
                    return
                why = f"(pid {process.pid}) {_end_text(code)}"
            if self._stopping.is_set():
                return
            slot.deaths = 1 if monotonic_ms() - began_ms > PROCESS_CALM_MS else slot.deaths + 1
            await self._pause(slot, why, code)

    def _add_final_counts(self, slot: _Slot, process: WorkerProcess) -> None:
        slot.process = None
        if process.report is not None:
            self._ended.add(process.report.counts)
            self._ended_totals.add(process.report.health.totals)

    async def _pause(self, slot: _Slot, why: str, code: int | None) -> None:
        """Wait before a restart: a process that dies at once must not take a core with its starts."""
        if self._until_idle and slot.deaths >= PROCESS_DEATHS_MAX:
            self._fail(
                Refused(
                    "process_died", f"worker process {slot.number} {why}, {slot.deaths} times in a row; see its log"
                )
            )
            return
        pause_ms = backoff(slot.deaths, PROCESS_RESTART_MS, PROCESS_RESTART_MS_MAX)
        slot.why = f"the last one {why}; the next starts within {pause_ms / 1000:g} s"
        text = f"worker process {slot.number} {why}; the next starts in {pause_ms / 1000:g} s"
        fields = {"process": slot.number, "deaths": slot.deaths, "pause_ms": pause_ms, "message": text}
        # A process that exits with code 0 was stopped from outside, to be restarted.
        log_event(WORKER_LOG, logging.INFO if code == 0 else logging.WARNING, "process_ended", text, fields)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1000):
                await self._stopping.wait()
        if not self._stopping.is_set():
            self.restarts += 1

    async def _watch(self) -> None:
        """Poll the processes: for their counts, and with `until_idle` for the end of all work."""
        while not self._stopping.is_set():
            if self._until_idle:
                # Twice: work may pass from one process to another between two answers. Processes that were idle both
                # times and claimed nothing in between were all idle when the second round began.
                claims = await self._idle_claims()
                if claims is not None and claims == await self._idle_claims():
                    self._stop(None)
                    return
            else:
                await self._poll()
            await asyncio.sleep(IDLE_POLL_SECONDS if self._until_idle else POLL_SECONDS)

    async def _idle_claims(self) -> list[tuple[int, int]] | None:
        """The number of claims of each process, if all processes are running and idle; else None."""
        await self._poll()
        found: list[tuple[int, int]] = []
        for slot in self._slots:
            process = slot.process
            if process is None or process.report is None or not slot.is_responding or not process.report.is_idle:
                return None
            found.append((process.pid, process.report.health.totals.claimed))
        return found

    async def _poll(self, *, running: bool = False) -> None:
        async def ask(slot: _Slot, process: WorkerProcess) -> None:
            is_responding = await process.request_report(ANSWER_SECONDS, running=running)
            # A process without a first report is still importing its app.
            slot.is_responding = is_responding or process.report is None

        await asyncio.gather(*(ask(slot, slot.process) for slot in self._slots if slot.process is not None))

    def _fail(self, error: HeadraceError) -> None:
        self._failure = self._failure or error
        self._stop(None)

    def _stop(self, grace_ms: int | None) -> None:
        grace_ms = self.settings.grace_ms if grace_ms is None else grace_ms
        self._grace_ms = grace_ms if self._grace_ms is None else min(grace_ms, self._grace_ms)
        self._stopping.set()
        for slot in self._slots:
            if slot.process is not None:
                slot.process.stop(self._grace_ms)
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        loop = asyncio.get_running_loop()
        self._kill_timer = loop.call_later((self._grace_ms + PROCESS_STOP_MARGIN_MS) / 1000, self._kill_overdue)

    def _kill_overdue(self) -> None:
        """Kill overdue processes: a handler may hold the GIL, or SIGSTOP the process."""
        numbers = [slot.number for slot in self._slots if slot.process is not None]
        names = ", ".join(map(str, numbers))
        self._failure = self._failure or Refused(
            "process_died",
            f"worker processes {names} did not end in time and were killed; their jobs go on when their leases end",
        )
        self._kill_all()

    def _kill_all(self) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()


def _end_text(code: int) -> str:
    """The end of a process, as a part of a sentence."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
