"""A store that fails on command: it forwards to another one, and refuses, delays or loses replies as it was told."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headrace.model.answers import Cancellation, Enqueued, Extended, Removed, Repaired, Settled, Turned
from headrace.model.claim import ClaimRequest, Claims, Lease, Settlement
from headrace.model.config import QueueConfig
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.snapshot import Health
from headrace.stores.contract.dead import Dead
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.store import Store

T = TypeVar("T")

DOWN = StoreUnavailable("the store is away")
"""Nothing is done."""
LOST = OutcomeUnknown("the reply was lost")
"""All is done, and nobody hears of it."""


class Partly(OutcomeUnknown):
    """All is done, and of the answers only the first `heard` are heard of."""

    def __init__(self, heard: int) -> None:
        super().__init__("a part of the reply was lost")
        self.heard = heard


Fault = Exception | asyncio.Event
"""An error is raised (before anything is done, unless it is about a lost reply); an event is waited for first."""


class FlakyStore:
    """Does what the store inside does, but for the calls that were told to fail. `calls` counts by verb; `settled` and
    `claims` keep what was sent; `heard` is called with each verb, on the thread of the caller."""

    is_remote = True
    """A wire that fails leads somewhere."""

    def __init__(self, inner: Store, heard: Callable[[str], None] = lambda _: None) -> None:
        self.inner = inner
        self.jobs = FlakyJobs(self)
        self.signals = FlakySignals(self)
        self.configs = FlakyQueues(self)
        self.is_down = False
        self.calls: Counter[str] = Counter()
        self.claims: list[ClaimRequest] = []
        self.settled: list[Settlement] = []
        self._faults: list[tuple[frozenset[str], Fault]] = []
        self._heard = heard
        self._news = asyncio.Event()

    def fail(self, fault: Fault, *verbs: str) -> None:
        """Let the next call of one of these verbs end so; several faults are taken one by one, in order."""
        self._faults.append((frozenset(verbs), fault))

    async def called(self, verb: str, times: int) -> None:
        """Wait until a verb was called so often."""
        while self.calls[verb] < times:
            self._news.clear()
            await self._news.wait()

    async def call(self, verb: str, act: Callable[[], Awaitable[T]]) -> T:
        """Forward one call, or fail it."""
        self.calls[verb] += 1
        self._news.set()
        self._heard(verb)
        fault = DOWN if self.is_down else self._fault_of(verb)
        if isinstance(fault, asyncio.Event):
            await fault.wait()
        elif fault is not None and not isinstance(fault, OutcomeUnknown):
            raise fault
        answer = await act()
        if isinstance(fault, Partly):
            assert isinstance(answer, list)
            raise OutcomeUnknown(
                str(fault), known=answer[: fault.heard], unknown=[each.id for each in answer[fault.heard :]]
            )
        if isinstance(fault, OutcomeUnknown):
            raise fault
        return answer

    def _fault_of(self, verb: str) -> Fault | None:
        for at, (verbs, fault) in enumerate(self._faults):
            if verb in verbs:
                del self._faults[at]
                return fault
        return None

    @property
    def dead(self) -> Dead:
        return self.inner.dead

    @property
    def queues(self) -> Queues:
        return self.configs

    @property
    def reads(self) -> Reads:
        return self.inner.reads

    @property
    def journal(self) -> Journal:
        return self.inner.journal

    async def health(self) -> Health:
        return await self.inner.health()

    async def close(self) -> None:
        await self.inner.close()


class FlakyJobs:
    """The transitions."""

    def __init__(self, store: FlakyStore) -> None:
        self._store = store
        self._jobs = store.inner.jobs

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        return await self._store.call("enqueue", lambda: self._jobs.enqueue(jobs, now_ms=now_ms))

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        self._store.claims.append(request)
        return await self._store.call("claim", lambda: self._jobs.claim(request, now_ms=now_ms))

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        return await self._store.call("extend", lambda: self._jobs.extend(leases, lease_ms=lease_ms, now_ms=now_ms))

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        self._store.settled.extend(settlements)
        return await self._store.call("settle", lambda: self._jobs.settle(settlements, now_ms=now_ms))

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        self._store.settled.extend(settlements)
        self._store.claims.append(request)
        return await self._store.call("turn", lambda: self._jobs.turn(settlements, request, now_ms=now_ms))

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        return await self._store.call("repair", lambda: self._jobs.repair(queue, limit=limit, now_ms=now_ms))

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        return await self._store.call("cancel", lambda: self._jobs.cancel(queue, ids, running=running, now_ms=now_ms))

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        return await self._store.call("remove", lambda: self._jobs.remove(queue, ids, now_ms=now_ms))


class FlakySignals:
    """The hints."""

    def __init__(self, store: FlakyStore) -> None:
        self._store = store
        self._signals = store.inner.signals

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        return await self._store.call("wait", lambda: self._signals.wait(queues, timeout_ms))

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        return await self._store.call("ended", lambda: self._signals.ended(queue, ids, timeout_ms))


class FlakyQueues:
    """The configurations; the rest is the inner store's."""

    def __init__(self, store: FlakyStore) -> None:
        self._store = store
        queues = self._queues = store.inner.queues
        self.counts = queues.counts
        self.names = queues.names
        self.tenants = queues.tenants
        self.purge = queues.purge
        self.delete = queues.delete

    async def configure(
        self, queue: Queue, changes: Mapping[str, object], *, version: int | None = None, now_ms: int | None = None
    ) -> QueueConfig:
        return await self._store.call(
            "configure", lambda: self._queues.configure(queue, changes, version=version, now_ms=now_ms)
        )

    async def configuration(self, queue: Queue) -> QueueConfig:
        return await self._store.call("configuration", lambda: self._queues.configuration(queue))
