"""A store that hands every call on to another, and can lose replies, refuse or hold calls on command."""

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
    """All is well."""
    return None


class RelayJobs:
    """Hands calls on; remembers the batches of `enqueue`."""

    def __init__(self, store: Store) -> None:
        self._jobs = store.jobs
        self.batches: list[list[Job]] = []
        self.before: Fault = no_fault
        """What is raised instead of a call: nothing is changed."""
        self.lost: Callable[[Job], bool] = lambda _: False
        """Whose answers get lost: the call is made, and the others' answers are known."""
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Event()
        self.aloft: list[set[str]] = []
        """The ids of each call that is under way."""
        self.most_aloft = 0
        self.met: set[str] = set()
        """Ids that were in two calls at once."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        self.batches.append(list(jobs))
        self.arrived.set()
        async with self._flight({job.id for job in jobs}):
            await self.open.wait()
            if error := self.before(jobs):
                raise error
            answers = await self._jobs.enqueue(jobs, now_ms=now_ms)
        unknown = [job.id for job in jobs if self.lost(job)]
        if unknown:
            known = [answer for job, answer in zip(jobs, answers, strict=True) if not self.lost(job)]
            raise OutcomeUnknown("the line went dead; look, or ask again", known=known, unknown=unknown)
        return answers

    @asynccontextmanager
    async def _flight(self, ids: set[str]) -> AsyncIterator[None]:
        self.met |= ids & set().union(*self.aloft)
        self.aloft.append(ids)
        self.most_aloft = max(self.most_aloft, len(self.aloft))
        await asyncio.sleep(0)  # others may come meanwhile, as they do on a real line
        try:
            yield
        finally:
            self.aloft.remove(ids)


class RelaySignals:
    """Hands calls on; tells when somebody has begun to wait for a finished job, and how often."""

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
    """A store, in memory unless another is given, behind `RelayJobs` and `RelaySignals`."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or MemoryStore()
        self.jobs = RelayJobs(self._store)
        self.signals = RelaySignals(self._store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
