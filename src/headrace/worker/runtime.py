"""The runtime of a worker: wires its parts together, and passes deliveries between them."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from headrace.model.claim import Claim
from headrace.model.outcome import Outcome, Released
from headrace.stores.contract.store import Store
from headrace.worker.claimer import Capacity, Claimer, Group
from headrace.worker.config import WorkerSettings
from headrace.worker.events import ActiveDelivery, EventEmitter, JobsClaimed, LeaseLost
from headrace.worker.fetch_loop import FetchLoop, Reconnect
from headrace.worker.handlers import Handlers, Middleware
from headrace.worker.heartbeat import Heartbeat, HeartbeatRunner, LoopHeartbeat, ThreadHeartbeat
from headrace.worker.outcomes import Outcomes
from headrace.worker.pools.process_pool import ProcessPool
from headrace.worker.pools.threads import ThreadPool
from headrace.worker.runner import Runner
from headrace.worker.settler import Settler

ABANDONED_DELAY_MS = 1_000
"""Delay of a job whose thread could not be stopped: the process has ended by then."""


class Dependencies(Struct, frozen=True):
    """The parts that a runtime is built from."""

    store: Store
    reopen: Callable[[], Awaitable[Store]] | None
    handlers: Handlers
    settings: WorkerSettings
    capacity: Capacity
    groups: Sequence[Group]
    middleware: Sequence[Middleware]
    events: EventEmitter
    rng: random.Random
    random_bytes: Callable[[int], bytes]


class Runtime:
    """Holds all deliveries from their claim to the answer to their settlement. Everything runs on the loop that it was
    built on, except the heartbeat, which may have its own thread. `on_failure` gets the error that ends the worker."""

    def __init__(self, dependencies: Dependencies, on_failure: Callable[[BaseException], None]) -> None:
        settings, events, rng = dependencies.settings, dependencies.events, dependencies.rng
        self._handlers = dependencies.handlers
        self._capacity = dependencies.capacity
        self._events = events
        self._on_failure = on_failure
        self._lease_seconds = settings.lease_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._is_starting = False
        self.deliveries: dict[int, ActiveDelivery] = {}
        self.changed = asyncio.Event()
        """Set whenever a handler ends, a job is settled, or the fetch loop comes to rest."""
        self.threads = ThreadPool(settings.threads)
        self.processes = ProcessPool(settings.pool_size, jobs_max=settings.jobs_per_pool_process)
        self.reconnect = Reconnect(events, rng)
        self._settler = Settler(self._forget, events)
        self.claimer = Claimer(
            dependencies.groups,
            dependencies.capacity,
            worker=settings.name,
            lease_ms=settings.lease_ms,
            is_weighted=settings.is_weighted,
            random_bytes=dependencies.random_bytes,
        )
        self._runner = Runner(
            dependencies.handlers,
            Outcomes(rng),
            dependencies.middleware,
            self.threads,
            self.processes,
            self._finish,
            events,
        )
        self.fetch_loop = FetchLoop(
            dependencies.store,
            self._settler,
            self.claimer,
            self.reconnect,
            self._start,
            on_failure,
            self.changed.set,
            list(settings.queues),
            settings.poll_ms,
        )
        report = self._report if dependencies.reopen is None else self._report_from_thread
        self.heartbeat = Heartbeat(self.deliveries, settings.lease_ms, settings.heartbeat_ms, report, rng)
        self.heartbeat_runner: HeartbeatRunner = (
            LoopHeartbeat(self.heartbeat, dependencies.store, on_failure)
            if dependencies.reopen is None
            else ThreadHeartbeat(self.heartbeat, dependencies.reopen, self._fail_from_thread, rng)
        )

    @property
    def is_idle(self) -> bool:
        """Whether no job is held and none is known to be due."""
        return not self.deliveries and self.fetch_loop.is_resting

    @property
    def is_settled(self) -> bool:
        """Whether every claim is answered and every delivery is settled or lost."""
        return not self.claimer.has_pending and all(delivery.is_lost for delivery in self.deliveries.values())

    def working(self) -> list[ActiveDelivery]:
        """The deliveries whose handlers are running, without those that are lost."""
        return [
            delivery for delivery in self.deliveries.values() if delivery.settlement is None and not delivery.is_lost
        ]

    def stop_claiming(self) -> None:
        """Claim nothing more; an unanswered claim is still resolved."""
        self.claimer.is_stopping = True
        self.reconnect.is_hurried = True
        self.fetch_loop.notify()

    def stop_working(self) -> None:
        """Ask all handlers to stop."""
        for delivery in self.working():
            self._runner.stop(delivery, "drain")

    def abandon(self) -> None:
        """Release the jobs whose handlers cannot be stopped, with a delay: this process has ended by then."""
        for delivery in self.working():
            self._events.emit(LeaseLost(delivery.claim, "its handler could not be stopped; the job is released"))
            self._settler.put(delivery, Released(ABANDONED_DELAY_MS), 0)
        self.fetch_loop.notify()

    async def close(self) -> None:
        """Abandon threads and processes, with the handlers in them."""
        self.threads.abandon()
        for delivery in self.deliveries.values():
            if delivery.task is not None:
                delivery.task.cancel()
        await self.heartbeat_runner.stop()
        await self.processes.close()
        self.threads.close()

    def _start(self, claims: Sequence[Claim], sent_at: float, is_more_to_send: bool) -> None:
        holds_until = sent_at + self._lease_seconds
        deliveries: list[ActiveDelivery] = []
        queue, kind, handler = None, None, None
        for claim in claims:
            # Neighbours are mostly of one kind: one look-up for all of them.
            if claim.record.kind != kind or claim.lease.queue is not queue:
                queue, kind = claim.lease.queue, claim.record.kind
                handler = self._handlers.find(queue, kind)
            self._number += 1
            delivery = self.deliveries[self._number] = ActiveDelivery(self._number, claim, handler, holds_until)
            self._capacity.acquire(handler)
            deliveries.append(delivery)
        self._events.emit(JobsClaimed(deliveries))
        # The claim may be older than the stop, or its answer so late that leases could end before the next heartbeat:
        # release such jobs without starting them or counting an attempt.
        if self.claimer.is_stopping or not self.heartbeat.has_time_for(holds_until, self._loop.time()):
            for delivery in deliveries:
                if not self.claimer.is_stopping:
                    self._events.emit(LeaseLost(delivery.claim, "its claim was answered too late; the job is released"))
                self._finish(delivery, Released(), 0)
        elif is_more_to_send:
            self._loop.call_soon(self._start_handlers, deliveries)  # after the fetch loop has sent its next call
        else:
            self._start_handlers(deliveries)

    def _start_handlers(self, deliveries: Sequence[ActiveDelivery]) -> None:
        self._is_starting = True
        try:
            self._runner.start(deliveries)
        finally:
            self._is_starting = False
        self._notify()

    def _finish(self, delivery: ActiveDelivery, outcome: Outcome | None, run_ms: int) -> None:
        self._capacity.release(delivery.handler)
        if delivery.settlement is not None:
            return  # already released
        if outcome is None:
            self._forget([delivery])
        else:
            self._settler.put(delivery, outcome, run_ms)
        # Many handlers end in their first step; one notification for all of them.
        if not self._is_starting:
            self._notify()

    def _notify(self) -> None:
        self.fetch_loop.notify()
        self.changed.set()

    def _forget(self, deliveries: Sequence[ActiveDelivery]) -> None:
        for delivery in deliveries:
            self.deliveries.pop(delivery.number, None)
        self.changed.set()

    def _report(self, lost: Sequence[tuple[ActiveDelivery, str]], to_cancel: Sequence[ActiveDelivery]) -> None:
        for delivery, why in lost:
            if delivery.settlement is None:
                self._events.emit(LeaseLost(delivery.claim, why))
                self._runner.stop(delivery, "lost")
        for delivery in to_cancel:
            if delivery.stop is None:
                self._runner.stop(delivery, "cancel")
        self.fetch_loop.notify()
        self.changed.set()

    def _report_from_thread(
        self, lost: Sequence[tuple[ActiveDelivery, str]], to_cancel: Sequence[ActiveDelivery]
    ) -> None:
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._report, lost, to_cancel)

    def _fail_from_thread(self, error: BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the worker has ended
            self._loop.call_soon_threadsafe(self._on_failure, error)
