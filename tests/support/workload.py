"""A workload on one store whose server comes and goes: enqueues and works without pause, and records all answers."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import TypeVar

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.event import Event
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store

PATIENCE_S = 90
LEASE_MS = 10 * 60_000
"""Longer than any run: a delivery whose answer was lost must come back by its nonce, not by running out."""
Answer = TypeVar("Answer")


class Workload:
    """Some tasks enqueue, others claim, extend and settle. Each goes on after an error of the contract; any other
    error, or an impossible answer, ends the run."""

    def __init__(self, store: Store, queue: Queue) -> None:
        self._store = store
        self._queue = queue
        self._is_enqueuing = True
        self._is_running = True
        self._changed = asyncio.Event()
        self.answers: Counter[str] = Counter()
        """The number of answered calls, by task."""
        self.errors: Counter[type] = Counter()
        self.enqueued: set[str] = set()
        self.uncertain: set[str] = set()
        self.rejected: set[str] = set()
        """Ids that were enqueued, that may have been, and that were not."""
        self.done: Counter[str] = Counter()

    async def run(self, scenario: Callable[["Workload"], Awaitable[None]], pairs: int = 2) -> None:
        """Work until the scenario is over, then until the queue is empty."""
        try:
            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
                for number in range(pairs):
                    group.create_task(self._enqueue(f"enqueuer-{number}"))
                    group.create_task(self._work(f"worker-{number}"))
                await scenario(self)
                self._is_enqueuing = False
                await self.until(lambda: self.enqueued <= set(self.done))
                await self._empty()
                self._is_running = False
        except TimeoutError as late:
            missing = sorted(self.enqueued - set(self.done))
            raise AssertionError(
                f"after {PATIENCE_S} s {len(missing)} of {len(self.enqueued)} enqueued jobs are not done, among "
                f"them {missing[:5]}; calls answered: {dict(self.answers)}, failed: {dict(self.errors)}"
            ) from late

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the answers fulfil a condition."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def until_all_go_on(self, calls: int) -> None:
        """Wait until each task has so many more answers."""
        before = self.answers.copy()
        await self.until(lambda: all(self.answers[name] >= before[name] + calls for name in before))

    async def until_errors(self, errors: int) -> None:
        """Wait until so many more calls have failed."""
        before = self.errors.total()
        await self.until(lambda: self.errors.total() >= before + errors)

    async def _empty(self) -> None:
        while True:
            counts = await self._retry("", lambda: self._store.queues.counts(self._queue))
            if counts.waiting == counts.active == 0:
                return

    async def _retry(self, name: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeat a call until it is answered; for calls that may be repeated."""
        while True:
            try:
                return await self._once(name, call)
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0)

    async def _once(self, name: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await call()
        except (StoreUnavailable, OutcomeUnknown) as error:
            self.errors[type(error)] += 1
            raise
        else:
            if name:
                self.answers[name] += 1
            return answer
        finally:
            self._changed.set()

    async def _enqueue(self, name: str) -> None:
        numbers = count()
        while self._is_enqueuing:
            ids = [f"{name}-{next(numbers):06}" for _ in range(3)]
            jobs = [new_job(self._queue, "send", b"1", fresh_id="", id=id) for id in ids]
            try:
                answers = await self._once(name, partial(self._store.jobs.enqueue, jobs))
            except StoreUnavailable:
                self.rejected.update(ids)
            except OutcomeUnknown as lost:
                self.uncertain.update(lost.unknown)
                self.enqueued.update(set(ids) - set(lost.unknown))
            else:
                assert [answer.status for answer in answers] == ["created"] * len(ids), answers
                self.enqueued.update(ids)
            # Not too many: the run is about a server that comes and goes, not about a backlog.
            await self.until(lambda: len(self.enqueued) - len(self.done) < 200 or not self._is_enqueuing)
            await asyncio.sleep(0)

    async def _work(self, name: str) -> None:
        numbers = count()
        while self._is_running:
            request = ClaimRequest(
                queues=[self._queue], worker=name, nonce=f"{name}-{next(numbers):06}", limit=4, lease_ms=LEASE_MS
            )
            claims = await self._claim(name, request)
            if claims:
                await self._extend(name, claims)
                await self._settle(name, claims)
            else:
                await self._retry(name, lambda: self._store.signals.wait([self._queue], 5))

    async def _claim(self, name: str, request: ClaimRequest) -> list[Claim]:
        """Claim once; repeat a claim whose answer was lost."""
        try:
            return (await self._once(name, lambda: self._store.jobs.claim(request))).items
        except StoreUnavailable:
            return []
        except OutcomeUnknown:
            return (await self._retry(name, lambda: self._store.jobs.claim(request))).items

    async def _extend(self, name: str, claims: list[Claim]) -> None:
        leases = [claim.lease for claim in claims]
        extended = await self._retry(name, lambda: self._store.jobs.extend(leases, lease_ms=LEASE_MS))
        assert [each.status for each in extended] == ["extended"] * len(claims), extended

    async def _settle(self, name: str, claims: list[Claim]) -> None:
        left = {claim.lease.id: claim.settle(Done()) for claim in claims}
        lost: set[str] = set()
        while left:
            try:
                answers = await self._once(name, partial(self._store.jobs.settle, list(left.values())))
            except StoreUnavailable:
                await asyncio.sleep(0)
            except OutcomeUnknown as unknown:
                lost.update(unknown.unknown)
                self.done.update(set(left) - set(unknown.unknown))
                left = {id: left[id] for id in left if id in unknown.unknown}
            else:
                for answer in answers:
                    assert answer.status == "done" or (answer.status == "not_active" and answer.id in lost), answer
                self.done.update(list(left))
                left = {}

    def check(self, events: list[Event]) -> None:
        """Compare the answers with the journal: nothing is missing, and nothing happened twice."""
        histories: dict[str, list[str]] = defaultdict(list)
        for event in events:
            if event.line.id is not None:
                histories[event.line.id].append(event.line.event)
        whole = ["enqueued", "claimed", "done"]
        assert {id: histories[id] for id in self.enqueued if histories[id] != whole} == {}
        assert {id: histories[id] for id in self.uncertain if histories[id] not in ([], whole)} == {}
        assert {id: histories[id] for id in self.rejected if histories[id]} == {}
        assert {id for id, number in self.done.items() if number > 1} == set()
        assert set(self.done) == {id for id, events in histories.items() if events}
