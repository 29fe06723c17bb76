"""The exchange with the store: what has ended goes, what can be started comes, one call at a time."""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from headrace.model.claim import Claim, Claims
from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.names import Queue
from headrace.stores.contract.jobs import NowaitJobs
from headrace.stores.contract.signals import HintSource
from headrace.stores.contract.store import Store
from headrace.worker.claimer import Claimer, PendingClaim
from headrace.worker.events import settlement_of
from headrace.worker.job_run import JobRun
from headrace.worker.reconnect import AWAY, Reconnect
from headrace.worker.settler import Settler

BLIND_SECONDS = 0.5
"""How often a worker asks that cannot wait for signals."""


BESIDE_MIN = 50
"""Settlements that leave beside a claim under way: fewer are not worth a call of their own, and go with the next. So
do all where the store works in this process, and has only one hand to write with."""


class FetchLoop:
    """A loop over `turn`, `claim` and `settle`: a call carries all that has gathered while the last one was under way.
    Claims are asked for one at a time; under load settlements leave beside them, so that the store is never without
    work while this process reads what it was handed."""

    def __init__(
        self,
        store: Store,
        settler: Settler,
        claimer: Claimer,
        outage: Reconnect,
        start: Callable[[Sequence[Claim], float, bool], None],
        failed: Callable[[BaseException], None],
        rested: Callable[[], None],
        queues: Sequence[Queue],
        poll_ms: int,
    ) -> None:
        self._store = store
        self._settler = settler
        self._claimer = claimer
        self._outage = outage
        self._start = start
        self._failed = failed
        self._rested = rested
        self._queues = list(queues)
        self._poll_ms = poll_ms
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._is_calling = False
        self._is_asleep = False
        """Nothing is to be done until there is news."""
        can_post = hasattr(store.jobs, "claim_nowait") and hasattr(store.signals, "wait_unless")
        self._nowait_jobs = cast("NowaitJobs", store.jobs) if can_post else None
        self._posted: asyncio.Future[None] | None = None
        """A claim that left where a hint arrived, and is not answered yet."""
        self._context = contextvars.Context()
        """That of `run`, for handlers that are started by an answer."""
        self._gathered = asyncio.Event()
        """Set when enough has ended for a call beside the one under way."""
        self._waiting: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None
        self._ahead_ms = 0.0
        """The store's clock minus this loop's: both in milliseconds."""
        self.claimed_at: float | None = None
        """When the store last answered a claim: the proof that this worker consumes."""
        self.is_resting = False
        """Nothing is to be sent, and nothing is known to wait."""
        self.is_thorough = False
        """Whether to ask again after every settlement before resting: one may free a blocked job, or put a job on a
        fail queue. Otherwise a signal tells."""

    def notify(self) -> None:
        """Something has ended, or may have come: think again."""
        self._news.set()
        if self._is_calling and len(self._settler) >= BESIDE_MIN and self._store.is_remote:
            self._gathered.set()

    async def run(self) -> None:
        """Until cancelled; nothing is under way then that the store might have half done."""
        beside = asyncio.create_task(self._settle_beside(), name="headrace-settler")
        beside.add_done_callback(self._beside_ended)
        self._context = contextvars.copy_context()
        try:
            while True:
                if self._posted is not None:
                    await self._posted
                self._news.clear()
                ended = self._settler.take()
                asked = self._claimer.ask(self._loop.time())
                if ended or asked is not None:
                    self.is_resting = False
                    self._is_calling = True
                    await self._call(ended, asked)
                    self._is_calling = False
                else:
                    self._rest()
                    self._is_asleep = True
                    await self._news.wait()
                    self._is_asleep = False
        finally:
            self._is_asleep, self._posted = False, None
            beside.cancel()
            self._stop_watching()

    async def _settle_beside(self) -> None:
        while True:
            await self._gathered.wait()
            self._gathered.clear()
            ended = self._settler.take() if self._is_calling else []
            if ended:
                await self._call(ended, None)
                self._news.set()

    def _beside_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _call(self, ended: list[JobRun], asked: PendingClaim | None) -> None:
        settlements = [settlement_of(run) for run in ended]
        jobs = self._store.jobs
        try:
            if asked is None:
                settled, claims, next_at_ms, now_ms = await jobs.settle(settlements), [], None, None
            elif not ended:
                answer = await jobs.claim(asked.request)
                settled, claims, next_at_ms, now_ms = [], answer.items, answer.next_at_ms, answer.now_ms
            else:
                turned = await jobs.turn(settlements, asked.request)
                settled, claims, next_at_ms, now_ms = turned.settled, turned.claimed, turned.next_at_ms, turned.now_ms
        except AWAY as error:
            self._settler.unanswered(ended, error)
            if asked is not None:
                self._claimer.unanswered(not isinstance(error, StoreUnavailable))
            await self._outage.wait(error)
            return
        except HeadraceError as error:
            # Asking again will not help: no more claims, and what has ended goes alone.
            if asked is None:
                self._settler.refused(ended, error)
            else:
                self._settler.unanswered(ended, error)
                self._claimer.give_up()
            self._failed(error)
            return
        self._outage.over()
        seen = () if asked is None else asked.request.queues
        waiting = [at for at, answer in enumerate(settled) if answer.run_at_ms is not None]
        is_again = any(settlements[at].lease.queue not in seen for at in waiting)
        if is_again or (ended and self.is_thorough):
            # A job waits again, perhaps for no time at all, and no claim has looked at its queue since: the answer to
            # one tells until when. And a handler may have sent jobs to a queue that was not looked at, either.
            self._claimer.hint()
            self.is_resting = False
        if ended:
            self._settler.answered(ended, settled)
        if asked is not None and now_ms is not None:
            self._take(asked, claims, next_at_ms, now_ms)

    def _take(self, asked: PendingClaim, claims: Sequence[Claim], next_at_ms: int | None, now_ms: int) -> None:
        now = self.claimed_at = self._loop.time()
        self._ahead_ms = now_ms - now * 1000
        is_more_there = next_at_ms is not None and next_at_ms <= now_ms
        self._claimer.answered(is_more_there)
        if next_at_ms is not None and not is_more_there:
            self._wake_at(next_at_ms)
        if claims:
            # A next call leaves before these start: the store works while the handlers do.
            is_more_to_send = is_more_there or len(self._settler) > 0
            if is_more_to_send:
                self._news.set()
            self._start(claims, asked.sent_at, is_more_to_send)

    def _wake_at(self, at_ms: int) -> None:
        when = max((at_ms - self._ahead_ms) / 1000, self._loop.time())
        if self._due is not None and not self._due.cancelled() and self._due.when() <= when:
            return
        if self._due is not None:
            self._due.cancel()
        self._due = self._loop.call_at(when, self._is_due)

    def _is_due(self) -> None:
        self._due = None
        self._claimer.hint()
        self.notify()

    def _rest(self) -> None:
        """Wait until the store says that work may be there, and look by ourselves once in a while."""
        self.is_resting = self._claimer.is_certain_of_nothing
        if self._waiting is None and self.is_resting and not self._claimer.is_stopping:
            self._waiting = asyncio.create_task(self._wait())
        self._rested()

    def _claim_at_once(self) -> bool:
        """Claim where a hint arrives and nothing else is to be done, without waking the waiter and then the exchange:
        the claim leaves after 64 instead of 134 µs, and the waiter need not look again for each job."""
        if not self._is_asleep or self._news.is_set() or self._nowait_jobs is None:
            return False
        self._claimer.hint()
        asked = self._claimer.ask(self._loop.time())
        if asked is None or not self._nowait_jobs.claim_nowait(asked.request, partial(self._answer, asked)):
            return False  # the waiter is woken, and wakes the exchange
        self._is_asleep, self.is_resting, self._is_calling = False, False, True
        self._posted = self._loop.create_future()
        return True

    def _answer(self, asked: PendingClaim, found: Claims | Exception | None) -> None:
        """Take the answer to a claim that left where a hint arrived."""
        if self._posted is None:
            return  # the exchange has ended
        if not self._posted.done():
            self._posted.set_result(None)
        self._posted, self._is_calling = None, False
        if isinstance(found, Claims):
            self._outage.over()
            self._context.run(self._take, asked, found.items, found.next_at_ms, found.now_ms)
        elif found is None or isinstance(found, HeadraceError):
            self._claimer.unanswered(isinstance(found, OutcomeUnknown))  # the exchange asks, and is told what is wrong
        else:
            self._failed(found)
        self._news.set()

    async def _wait(self) -> None:
        try:
            if self._nowait_jobs is None:
                await self._store.signals.wait(self._queues, self._poll_ms)
            else:
                signals = cast("HintSource", self._store.signals)
                await signals.wait_unless(self._queues, self._poll_ms, self._claim_at_once)
        except (HeadraceError, OSError):
            # Who cannot wait has to ask, and is told what is wrong; but a store that answers claims while its signals
            # are away must not be asked without end.
            await asyncio.sleep(min(self._poll_ms / 1000, BLIND_SECONDS))
        except Exception as error:  # noqa: BLE001 - a worker that silently looks no more would be worse than one that ends
            self._failed(error)
            return
        self._waiting = None
        self._claimer.hint()
        self.notify()

    def _stop_watching(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        if self._due is not None:
            self._due.cancel()
