"""The heartbeat: extends the leases of all deliveries, and gives up deliveries whose lease was not extended in time."""

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
from headrace.worker.events import ActiveDelivery
from headrace.worker.fetch_loop import UNAVAILABLE

MARGIN = 0.1
"""The part of a lease that a handler has to stop in, once the lease cannot be extended."""
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 2.0

Report = Callable[[Sequence[tuple[ActiveDelivery, str]], Sequence[ActiveDelivery]], None]
"""Called with the lost deliveries, each with the reason, and with the deliveries to cancel."""


class Heartbeat:
    """Extends leases periodically, if possible on its own loop, so that a handler that blocks the worker's loop loses
    no lease. A lease counts as lost before it ends in the store, so two workers never hold it at once."""

    def __init__(
        self,
        deliveries: dict[int, ActiveDelivery],
        lease_ms: int,
        heartbeat_ms: int,
        report: Report,
        rng: random.Random,
    ) -> None:
        self._deliveries = deliveries
        self._lease_ms = lease_ms
        self._lease = lease_ms / 1000
        self._interval = heartbeat_ms / 1000
        self._margin = self._lease * MARGIN
        self._report = report
        self._rng = rng
        self._failures = 0
        self.extended_at: float | None = None
        """When all leases due for it were last extended."""

    def has_time_for(self, holds_until: float, now: float) -> bool:
        """Whether the next heartbeat, however late, can extend a lease that holds until then."""
        return holds_until - self._margin - self._interval > now

    async def run(self, store: Store) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            self.fence(began_at)
            await self._extend(store, began_at)
            now = loop.time()
            self.fence(now)
            await asyncio.sleep(max(self._next_at(began_at, now) - now, 0))

    def _next_at(self, began_at: float, now: float) -> float:
        next_at = began_at + self._interval
        if self._failures:
            pause = min(RETRY_SECONDS * (1 << min(self._failures, 16)), RETRY_SECONDS_MAX, self._interval)
            next_at = now + pause * self._rng.uniform(0.5, 1.0)
        ends = [self._fence_time(delivery) for delivery in self._owned()]
        return min([next_at, *(end for end in ends if end > now)])

    def _owned(self) -> list[ActiveDelivery]:
        # The other thread adds and removes; copying a dict's values is one step for the interpreter.
        return [delivery for delivery in list(self._deliveries.values()) if not delivery.is_lost]

    def _fence_time(self, delivery: ActiveDelivery) -> float:
        return delivery.holds_until - self._margin

    def fence(self, now: float) -> None:
        """Give up the deliveries that could not be extended in time."""
        lost = [delivery for delivery in self._owned() if self._fence_time(delivery) <= now]
        for delivery in lost:
            delivery.is_lost = True
        if lost:
            self._report([(delivery, "its lease could not be extended in time") for delivery in lost], ())

    async def _extend(self, store: Store, now: float) -> None:
        # A fresh lease has time until the next heartbeat.
        old = [delivery for delivery in self._owned() if delivery.holds_until - now < self._lease - self._interval / 2]
        failed = False
        for at in range(0, len(old), BATCH_MAX):
            failed = not await self._extend_batch(store, old[at : at + BATCH_MAX]) or failed
        if failed:
            self._failures += 1
        else:
            self._failures = 0
            self.extended_at = asyncio.get_running_loop().time()

    async def _extend_batch(self, store: Store, deliveries: Sequence[ActiveDelivery]) -> bool:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        # No longer than an interval: later claims wait for the next heartbeat.
        timeout = min(min(self._fence_time(delivery) for delivery in deliveries) - sent_at, self._interval)
        leases = [delivery.claim.lease for delivery in deliveries]
        try:
            async with asyncio.timeout(max(timeout, 0)):
                answers = await store.jobs.extend(leases, lease_ms=self._lease_ms)
        except OutcomeUnknown as unknown:
            known = [answer for answer in unknown.known if isinstance(answer, Extended)]
            if len({lease.id for lease in leases}) == len(leases):  # else an id is ambiguous
                by_id = {answer.id: answer for answer in known}
                self._apply(
                    [
                        (delivery, by_id[delivery.claim.lease.id])
                        for delivery in deliveries
                        if delivery.claim.lease.id in by_id
                    ],
                    sent_at,
                )
            return False
        except (HeadraceError, OSError):  # TimeoutError is an OSError
            return False
        self._apply(list(zip(deliveries, answers, strict=True)), sent_at)
        return True

    def _apply(self, answers: Sequence[tuple[ActiveDelivery, Extended]], sent_at: float) -> None:
        lost: list[tuple[ActiveDelivery, str]] = []
        to_cancel: list[ActiveDelivery] = []
        for delivery, answer in answers:
            if answer.ok:
                delivery.holds_until = max(delivery.holds_until, sent_at + self._lease)
                if answer.cancel_asked:
                    to_cancel.append(delivery)
            elif not delivery.is_settling and not delivery.is_uncertain and delivery.number in self._deliveries:
                # A settled delivery has no lease: the answer to its settlement counts.
                delivery.is_lost = True
                lost.append((delivery, f"the store replied {answer.status}"))
        if lost or to_cancel:
            self._report(lost, to_cancel)


OPEN_SECONDS = 0.2
JOIN_SECONDS = 2.0
WATCH_SECONDS = 0.5
STOPPED_CHECKS_MAX = 10
"""After this many checks in a row that find the worker's loop stopped, the heartbeat gives up its leases. A loop that
runs is never stopped, however long a handler blocks it."""


class HeartbeatRunner(Protocol):
    """Runs a heartbeat somewhere."""

    def start(self) -> None:
        """Start the heartbeat."""

    async def stop(self) -> None:
        """Stop the heartbeat for good."""


class LoopHeartbeat:
    """Runs on the worker's loop, with its store: for stores that are bound to one loop, and for simulations."""

    def __init__(self, heartbeat: Heartbeat, store: Store, on_failure: Callable[[BaseException], None]) -> None:
        self._heartbeat = heartbeat
        self._store = store
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._heartbeat.run(self._store), name="headrace-heartbeat")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class ThreadHeartbeat:
    """Runs on a thread: handlers that block the worker's loop do not stop it. It ends with that loop: else a worker
    that was dropped without `stop`, in a process that goes on, would keep its leases for ever."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        reopen: Callable[[], Awaitable[Store]],
        on_failure: Callable[[BaseException], None],
        rng: random.Random,
    ) -> None:
        self._heartbeat = heartbeat
        self._reopen = reopen
        self._on_failure = on_failure
        self._rng = rng
        self._worker_loop: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="headrace-heartbeat", daemon=True)
        self._stopping = threading.Event()

    def start(self) -> None:
        self._worker_loop = asyncio.get_running_loop()
        self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                runner = self._runner()
                if runner is not None:
                    with runner:
                        runner.run(self._run_heartbeat())
            except Exception as error:  # noqa: BLE001 - the worker ends with this error
                self._on_failure(error)

    def _runner(self) -> asyncio.Runner | None:
        """A runner with its loop, as soon as file descriptors are free; leases that end before are given up. None if
        the worker has ended."""
        assert self._worker_loop is not None  # started
        while not self._stopping.is_set():
            if _can_make_loop():
                with contextlib.suppress(OSError):  # another thread took the descriptors
                    runner = asyncio.Runner()
                    runner.get_loop()
                    return runner
            self._heartbeat.fence(self._worker_loop.time())
            self._stopping.wait(OPEN_SECONDS)
        return None

    async def _run_heartbeat(self) -> None:
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
                await self._heartbeat.run(store)
        finally:
            watching.cancel()
            await store.close()

    async def _watch(self) -> None:
        """Give up all leases when the worker's loop is gone."""
        assert self._worker_loop is not None  # started
        assert self._task is not None
        stopped_checks = 0
        while stopped_checks < STOPPED_CHECKS_MAX and not self._worker_loop.is_closed():
            await asyncio.sleep(WATCH_SECONDS)
            stopped_checks = 0 if self._worker_loop.is_running() else stopped_checks + 1
        self._heartbeat.fence(math.inf)
        # Noticed only by a loop that was stopped and continues.
        self._on_failure(
            Refused(
                "loop_stopped",
                "the worker's event loop stood still, and its leases were given up; keep the loop of a worker running",
            )
        )
        self._task.cancel()

    async def _keep_fencing(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up leases that end before the store is open."""
        while True:
            await asyncio.sleep(OPEN_SECONDS)
            self._heartbeat.fence(loop.time())

    async def _open(self) -> Store:
        while True:
            try:
                return await self._reopen()
            except UNAVAILABLE:
                await asyncio.sleep(OPEN_SECONDS * self._rng.uniform(0.5, 1.5))

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
