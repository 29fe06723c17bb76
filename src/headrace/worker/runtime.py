"""The crew of a worker: its roles put together, and what they say to each other about the jobs in hand."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from headrace.model.claim import Claim
from headrace.model.outcome import Outcome, Released
from headrace.stores.contract.store import Store
from headrace.worker.capacity import Capacity, Group
from headrace.worker.claimer import Claimer
from headrace.worker.config import WorkerSettings
from headrace.worker.events import JobsClaimed, LeaseLost, WorkerEvents
from headrace.worker.fetch_loop import FetchLoop
from headrace.worker.handlers import Handlers
from headrace.worker.heartbeat import Heartbeat, HeartbeatRunner, LoopHeartbeat, ThreadHeartbeat
from headrace.worker.job_run import JobRun
from headrace.worker.middleware import Middleware
from headrace.worker.outcomes import Outcomes
from headrace.worker.pools.process_pool import ProcessPool
from headrace.worker.pools.threads import ThreadPool
from headrace.worker.reconnect import Reconnect
from headrace.worker.runner import Runner
from headrace.worker.settler import Settler

ABANDONED_DELAY_MS = 1_000
"""A job whose thread could not be stopped waits this long: the process is gone by then."""


class Dependencies(Struct, frozen=True):
    """What a crew works with."""

    store: Store
    reopen: Callable[[], Awaitable[Store]] | None
    handlers: Handlers
    settings: WorkerSettings
    capacity: Capacity
    groups: Sequence[Group]
    middleware: Sequence[Middleware]
    notices: WorkerEvents
    chance: random.Random
    entropy: Callable[[int], bytes]


class Runtime:
    """Holds all deliveries from their claim to the answer to their settlement. Everything here happens on the loop that
    it was made on; only the heart may live elsewhere. `failed` takes what makes the worker impossible."""

    def __init__(self, means: Dependencies, failed: Callable[[BaseException], None]) -> None:
        settings, notices, chance = means.settings, means.notices, means.chance
        self._handlers = means.handlers
        self._capacity = means.capacity
        self._notices = notices
        self._failed = failed
        self._lease_seconds = settings.lease_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._is_starting = False
        self.runs: dict[int, JobRun] = {}
        self.changed = asyncio.Event()
        """Set whenever something has ended, or the exchange has come to rest."""
        self.threads = ThreadPool(settings.threads)
        self.processes = ProcessPool(settings.pool_size, jobs_max=settings.jobs_per_pool_process)
        self.outage = Reconnect(notices, chance)
        self._settler = Settler(self._forget, notices)
        self.claimer = Claimer(
            means.groups,
            means.capacity,
            worker=settings.name,
            lease_ms=settings.lease_ms,
            is_weighted=settings.is_weighted,
            entropy=means.entropy,
        )
        self._runner = Runner(
            means.handlers, Outcomes(chance), means.middleware, self.threads, self.processes, self._ended, notices
        )
        self.exchange = FetchLoop(
            means.store,
            self._settler,
            self.claimer,
            self.outage,
            self._start,
            failed,
            self.changed.set,
            list(settings.queues),
            settings.poll_ms,
        )
        report = self._report if means.reopen is None else self._report_from_thread
        self.heart = Heartbeat(self.runs, settings.lease_ms, settings.heartbeat_ms, report, chance)
        self.beat: HeartbeatRunner = (
            LoopHeartbeat(self.heart, means.store, failed)
            if means.reopen is None
            else ThreadHeartbeat(self.heart, means.reopen, self._fail_from_thread, chance)
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in hand and nothing is known to wait."""
        return not self.runs and self.exchange.is_resting

    @property
    def is_settled(self) -> bool:
        """Whether the store has been told everything that it can be told."""
        return not self.claimer.is_unanswered and all(run.is_lost for run in self.runs.values())

    def working(self) -> list[JobRun]:
        """The runs whose handlers have not ended, without those that are lost."""
        return [run for run in self.runs.values() if run.settlement is None and not run.is_lost]

    def stop_claiming(self) -> None:
        """Ask for nothing more; what was asked for and not answered is cleared up."""
        self.claimer.is_stopping = True
        self.outage.is_hurried = True
        self.exchange.notify()

    def stop_working(self) -> None:
        """Ask all handlers to end."""
        for run in self.working():
            self._runner.stop(run, "drain")

    def abandon(self) -> None:
        """Give back the jobs whose handlers cannot be stopped; they wait until this process has ended."""
        for run in self.working():
            self._notices.tell(LeaseLost(run.claim, "its handler could not be stopped; the job is given back"))
            self._settler.put(run, Released(ABANDONED_DELAY_MS), 0)
        self.exchange.notify()

    async def close(self) -> None:
        """Let go of threads and processes, and of whatever still runs in them."""
        self.threads.abandon()
        for run in self.runs.values():
            if run.task is not None:
                run.task.cancel()
        await self.beat.stop()
        await self.processes.close()
        self.threads.close()

    def _start(self, claims: Sequence[Claim], sent_at: float, is_more_to_send: bool) -> None:
        holds_until = sent_at + self._lease_seconds
        runs: list[JobRun] = []
        queue, kind, handler = None, None, None
        for claim in claims:
            # Neighbours are mostly alike: one look-up for all of them.
            if claim.record.kind != kind or claim.lease.queue is not queue:
                queue, kind = claim.lease.queue, claim.record.kind
                handler = self._handlers.find(queue, kind)
            self._number += 1
            run = self.runs[self._number] = JobRun(self._number, claim, handler, holds_until)
            self._capacity.take(handler)
            runs.append(run)
        self._notices.tell(JobsClaimed(runs))
        # The answer may be to a claim of before the stop, or so late that the leases could end before the heart sees
        # to them: what is not started is given back, and costs nothing.
        if self.claimer.is_stopping or not self.heart.has_time_for(holds_until, self._loop.time()):
            for run in runs:
                if not self.claimer.is_stopping:
                    self._notices.tell(LeaseLost(run.claim, "its claim was answered too late; the job is given back"))
                self._ended(run, Released(), 0)
        elif is_more_to_send:
            self._loop.call_soon(self._start_handlers, runs)  # behind the exchange, which sends it now
        else:
            self._start_handlers(runs)

    def _start_handlers(self, runs: Sequence[JobRun]) -> None:
        self._is_starting = True
        try:
            self._runner.start(runs)
        finally:
            self._is_starting = False
        self._tell_ended()

    def _ended(self, run: JobRun, outcome: Outcome | None, run_ms: int) -> None:
        self._capacity.give(run.handler)
        if run.settlement is not None:
            return  # given back already
        if outcome is None:
            self._forget([run])
        else:
            self._settler.put(run, outcome, run_ms)
        # Many handlers end where they are started, and are told of together.
        if not self._is_starting:
            self._tell_ended()

    def _tell_ended(self) -> None:
        self.exchange.notify()
        self.changed.set()

    def _forget(self, runs: Sequence[JobRun]) -> None:
        for run in runs:
            self.runs.pop(run.number, None)
        self.changed.set()

    def _report(self, lost: Sequence[tuple[JobRun, str]], asked: Sequence[JobRun]) -> None:
        for run, why in lost:
            if run.settlement is None:
                self._notices.tell(LeaseLost(run.claim, why))
                self._runner.stop(run, "lost")
        for run in asked:
            if run.stop is None:
                self._runner.stop(run, "cancel")
        self.exchange.notify()
        self.changed.set()

    def _report_from_thread(self, lost: Sequence[tuple[JobRun, str]], asked: Sequence[JobRun]) -> None:
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._report, lost, asked)

    def _fail_from_thread(self, error: BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._failed, error)
