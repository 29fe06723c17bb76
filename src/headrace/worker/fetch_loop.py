"""The fetch loop: settles and claims, one call at a time, and waits out an outage of the store."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from headrace.client.tasks import UNANSWERED, Backoff
from headrace.model.claim import Claim, Claims
from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.names import Queue
from headrace.stores.contract.jobs import NowaitJobs
from headrace.stores.contract.signals import HintSource
from headrace.stores.contract.store import Store
from headrace.worker.claimer import Claimer, PendingClaim
from headrace.worker.events import ActiveDelivery, EventEmitter, Lifecycle, settlement_of
from headrace.worker.settler import Settler

UNAVAILABLE = (*UNANSWERED, OSError)
"""Errors for which a retry may succeed. After an error of the operating system, such as no free file descriptor, the
outcome of the call is unknown."""
PAUSE_MS = 50
PAUSE_MS_MAX = 5_000
HURRIED_MS_MAX = 250


class Reconnect:
    """Counts failures in a row, pauses after each, and reports the loss and the return of the store."""

    def __init__(self, events: EventEmitter, rng: random.Random) -> None:
        self._events = events
        self._backoff = Backoff(PAUSE_MS, PAUSE_MS_MAX, rng)
        self.is_hurried = False
        """Whether the worker is stopping and has no time for long pauses."""

    async def wait(self, error: Exception) -> None:
        """Pause after a failure."""
        if self._backoff.failures == 1:  # the first failure may be a mere hiccup
            self._events.emit(Lifecycle("store_lost", str(error)))
        await self._backoff.pause(HURRIED_MS_MAX if self.is_hurried else None)

    def reset(self) -> None:
        """Note that the store answered."""
        if self._backoff.failures > 1:
            self._events.emit(Lifecycle("store_back", f"after {self._backoff.failures} attempts"))
        self._backoff.reset()


BLIND_SECONDS = 0.5
"""The pause between claims while the store's signals are unavailable."""


CONCURRENT_SETTLE_MIN = 50
"""Settlements that make a second call worth while a claim is under way; fewer go with the next call. A store in this
process allows one writer, and gets no second call."""


class FetchLoop:
    """A loop over `turn`, `claim` and `settle`: each call carries everything collected during the last one. One claim
    is in flight at a time; under load settlements are sent beside it, so that the store works while this process reads
    its answer."""

    def __init__(
        self,
        store: Store,
        settler: Settler,
        claimer: Claimer,
        reconnect: Reconnect,
        start: Callable[[Sequence[Claim], float, bool], None],
        on_failure: Callable[[BaseException], None],
        on_rest: Callable[[], None],
        queues: Sequence[Queue],
        poll_ms: int,
    ) -> None:
        self._store = store
        self._settler = settler
        self._claimer = claimer
        self._reconnect = reconnect
        self._start = start
        self._on_failure = on_failure
        self._on_rest = on_rest
        self._queues = list(queues)
        self._poll_ms = poll_ms
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._is_calling = False
        self._is_asleep = False
        """Whether the loop waits for `_wakeup`."""
        can_claim_nowait = hasattr(store.jobs, "claim_nowait") and hasattr(store.signals, "wait_unless")
        self._nowait_jobs = cast("NowaitJobs", store.jobs) if can_claim_nowait else None
        self._posted_claim: asyncio.Future[None] | None = None
        """Done when the claim sent by a hint is answered; None without such a claim."""
        self._context = contextvars.Context()
        """The context of `run`, for handlers that are started by an answer."""
        self._batch_ready = asyncio.Event()
        """Set when there are enough settlements for a second call."""
        self._signal_wait: asyncio.Task[None] | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._clock_offset_ms = 0.0
        """The store's clock minus the loop's clock."""
        self.claimed_at: float | None = None
        """When the store last answered a claim: the proof that this worker consumes."""
        self.is_resting = False
        """Whether nothing is to be sent, and no job is known to be due."""
        self.is_thorough = False
        """Whether to claim again after every settlement before resting: it may unblock a job, or enqueue a fail job.
        Otherwise a signal announces such jobs."""

    def notify(self) -> None:
        """Wake the loop: there may be a settlement to send or a job to claim."""
        self._wakeup.set()
        if self._is_calling and len(self._settler) >= CONCURRENT_SETTLE_MIN and self._store.is_remote:
            self._batch_ready.set()

    async def run(self) -> None:
        """Run until cancelled."""
        concurrent = asyncio.create_task(self._settle_concurrently(), name="headrace-settler")
        concurrent.add_done_callback(self._concurrent_ended)
        self._context = contextvars.copy_context()
        try:
            while True:
                if self._posted_claim is not None:
                    await self._posted_claim
                self._wakeup.clear()
                finished = self._settler.take()
                pending = self._claimer.next_claim(self._loop.time())
                if finished or pending is not None:
                    self.is_resting = False
                    self._is_calling = True
                    await self._call(finished, pending)
                    self._is_calling = False
                else:
                    self._rest()
                    self._is_asleep = True
                    await self._wakeup.wait()
                    self._is_asleep = False
        finally:
            self._is_asleep, self._posted_claim = False, None
            concurrent.cancel()
            self._stop_watching()

    async def _settle_concurrently(self) -> None:
        while True:
            await self._batch_ready.wait()
            self._batch_ready.clear()
            finished = self._settler.take() if self._is_calling else []
            if finished:
                await self._call(finished, None)
                self._wakeup.set()

    def _concurrent_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def _call(self, finished: list[ActiveDelivery], pending: PendingClaim | None) -> None:
        settlements = [settlement_of(delivery) for delivery in finished]
        jobs = self._store.jobs
        try:
            if pending is None:
                settled, claims, next_at_ms, now_ms = await jobs.settle(settlements), [], None, None
            elif not finished:
                answer = await jobs.claim(pending.request)
                settled, claims, next_at_ms, now_ms = [], answer.items, answer.next_at_ms, answer.now_ms
            else:
                turn = await jobs.turn(settlements, pending.request)
                settled, claims, next_at_ms, now_ms = turn.settled, turn.claimed, turn.next_at_ms, turn.now_ms
        except UNAVAILABLE as error:
            self._settler.record_failure(finished, error)
            if pending is not None:
                self._claimer.record_failure(not isinstance(error, StoreUnavailable))
            await self._reconnect.wait(error)
            return
        except HeadraceError as error:
            # A repetition would fail as well: claim nothing more, and send the settlements alone.
            if pending is None:
                self._settler.give_up(finished, error)
            else:
                self._settler.record_failure(finished, error)
                self._claimer.stop()
            self._on_failure(error)
            return
        self._reconnect.reset()
        visited = () if pending is None else pending.request.queues
        requeued = [at for at, answer in enumerate(settled) if answer.run_at_ms is not None]
        is_requeued = any(settlements[at].lease.queue not in visited for at in requeued)
        if is_requeued or (finished and self.is_thorough):
            # A job was requeued, perhaps without delay, in a queue that the claim did not visit: the next claim tells
            # when it is due. A handler may also have sent jobs to such a queue.
            self._claimer.hint()
            self.is_resting = False
        if finished:
            self._settler.record_answers(finished, settled)
        if pending is not None and now_ms is not None:
            self._take(pending, claims, next_at_ms, now_ms)

    def _take(self, pending: PendingClaim, claims: Sequence[Claim], next_at_ms: int | None, now_ms: int) -> None:
        now = self.claimed_at = self._loop.time()
        self._clock_offset_ms = now_ms - now * 1000
        has_more = next_at_ms is not None and next_at_ms <= now_ms
        self._claimer.record_answer(has_more)
        if next_at_ms is not None and not has_more:
            self._wake_at(next_at_ms)
        if claims:
            # Send the next call before these start: the store works while the handlers run.
            is_more_to_send = has_more or len(self._settler) > 0
            if is_more_to_send:
                self._wakeup.set()
            self._start(claims, pending.sent_at, is_more_to_send)

    def _wake_at(self, at_ms: int) -> None:
        when = max((at_ms - self._clock_offset_ms) / 1000, self._loop.time())
        if self._due_timer is not None and not self._due_timer.cancelled() and self._due_timer.when() <= when:
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer = self._loop.call_at(when, self._on_due)

    def _on_due(self) -> None:
        self._due_timer = None
        self._claimer.hint()
        self.notify()

    def _rest(self) -> None:
        """Wait for a signal that a job may be due, or for the poll interval."""
        self.is_resting = self._claimer.is_out_of_work
        if self._signal_wait is None and self.is_resting and not self._claimer.is_stopping:
            self._signal_wait = asyncio.create_task(self._wait())
        self._on_rest()

    def _claim_at_once(self) -> bool:
        """Claim in the callback of a hint while the loop is idle, without waking the waiting task and then the loop:
        the claim leaves after 64 instead of 134 µs, and the waiting task goes on waiting."""
        if not self._is_asleep or self._wakeup.is_set() or self._nowait_jobs is None:
            return False
        self._claimer.hint()
        pending = self._claimer.next_claim(self._loop.time())
        if pending is None or not self._nowait_jobs.claim_nowait(pending.request, partial(self._on_answer, pending)):
            return False  # the waiting task wakes up, and wakes the loop
        self._is_asleep, self.is_resting, self._is_calling = False, False, True
        self._posted_claim = self._loop.create_future()
        return True

    def _on_answer(self, pending: PendingClaim, answer: Claims | Exception | None) -> None:
        """Take the answer to a claim sent by a hint."""
        if self._posted_claim is None:
            return  # the loop has stopped
        if not self._posted_claim.done():
            self._posted_claim.set_result(None)
        self._posted_claim, self._is_calling = None, False
        if isinstance(answer, Claims):
            self._reconnect.reset()
            self._context.run(self._take, pending, answer.items, answer.next_at_ms, answer.now_ms)
        elif answer is None or isinstance(answer, HeadraceError):
            # The loop claims again, and gets the error if there still is one.
            self._claimer.record_failure(isinstance(answer, OutcomeUnknown))
        else:
            self._on_failure(answer)
        self._wakeup.set()

    async def _wait(self) -> None:
        try:
            if self._nowait_jobs is None:
                await self._store.signals.wait(self._queues, self._poll_ms)
            else:
                signals = cast("HintSource", self._store.signals)
                await signals.wait_unless(self._queues, self._poll_ms, self._claim_at_once)
        except (HeadraceError, OSError):
            # Claim instead, which reports an outage; with a pause, since a store may answer claims while its signals
            # are unavailable.
            await asyncio.sleep(min(self._poll_ms / 1000, BLIND_SECONDS))
        except Exception as error:  # noqa: BLE001 - better a worker that ends than one that silently claims no more
            self._on_failure(error)
            return
        self._signal_wait = None
        self._claimer.hint()
        self.notify()

    def _stop_watching(self) -> None:
        if self._signal_wait is not None:
            self._signal_wait.cancel()
        if self._due_timer is not None:
            self._due_timer.cancel()
