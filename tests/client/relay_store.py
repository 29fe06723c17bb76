"""A store that forwards every call to another, and can lose replies, refuse or hold calls on command."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headrace.model.errors import OutcomeUnknown
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Enqueued
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore

Fault = Callable[[Sequence[Job]], Exception | None]


def no_fault(_: Sequence[Job]) -> Exception | None:
    """No fault."""
    return None


class RelayJobs:
    """Forwards calls; keeps the batches of `enqueue`."""

    def __init__(self, store: Store) -> None:
        self._jobs = store.jobs
        self.batches: list[list[Job]] = []
        self.before: Fault = no_fault
        """The error instead of a call: nothing is changed."""
        self.lost: Callable[[Job], bool] = lambda _: False
        """Jobs whose answers get lost: the call is done, and the other answers are known."""
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Event()
        self.in_flight: list[set[str]] = []
        """The ids of each call that is under way."""
        self.most_in_flight = 0
        self.overlapping: set[str] = set()
        """Ids that were in two calls at the same time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        self.batches.append(list(jobs))
        self.arrived.set()
        async with self._call({job.id for job in jobs}):
            await self.open.wait()
            if error := self.before(jobs):
                raise error
            answers = await self._jobs.enqueue(jobs, now_ms=now_ms)
        unknown = [job.id for job in jobs if self.lost(job)]
        if unknown:
            known = [answer for job, answer in zip(jobs, answers, strict=True) if not self.lost(job)]
            raise OutcomeUnknown("the connection died; look, or ask again", known=known, unknown=unknown)
        return answers

    @asynccontextmanager
    async def _call(self, ids: set[str]) -> AsyncIterator[None]:
        self.overlapping |= ids & set().union(*self.in_flight)
        self.in_flight.append(ids)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        await asyncio.sleep(0)  # other calls may begin meanwhile, as on a real connection
        try:
            yield
        finally:
            self.in_flight.remove(ids)


class RelaySignals:
    """Forwards calls; counts the waits for finished jobs."""

    def __init__(self, store: Store) -> None:
        self._signals = store.signals
        self.waiting = asyncio.Event()
        self.waits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._signals, name)

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        self.waits += 1
        self.waiting.set()
        return await self._signals.ended(queue, ids, timeout_ms)


class RelayStore:
    """A store, by default in memory, behind `RelayJobs` and `RelaySignals`."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or MemoryStore()
        self.jobs = RelayJobs(self._store)
        self.signals = RelaySignals(self._store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
