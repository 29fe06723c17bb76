"""Sends jobs of a task: the next are made while the last are under way, and what was not answered is sent again."""

import asyncio
from collections import deque
from collections.abc import Sequence

from headrace.client.batching import EnqueueOutcome, enqueue_batch, is_lost
from headrace.client.retry import write_backoff
from headrace.model.job import Job
from headrace.model.limits import WRITE_TRIES_MAX, WRITES_IN_FLIGHT
from headrace.model.results import Enqueued
from headrace.stores.contract.jobs import Jobs

Sent = tuple[Sequence[Job], list[EnqueueOutcome]]


class BatchSender:
    """Keeps calls under way. Jobs have keys, so that sending one twice is harmless."""

    def __init__(self, jobs: Jobs, *, ordered: bool) -> None:
        self._jobs = jobs
        self._ordered = ordered
        """Whether jobs have ids of their own: then two calls with the same one are never under way at once, so that
        the later row wins."""
        self._flights: deque[tuple[Sequence[Job], asyncio.Task[list[EnqueueOutcome]]]] = deque()

    async def send(self, jobs: Sequence[Job]) -> list[Sent]:
        """Send jobs; returns what has been answered of earlier ones meanwhile."""
        landed = await self.land(0 if self._meets(jobs) else WRITES_IN_FLIGHT - 1)
        self._flights.append((jobs, asyncio.create_task(_answers(self._jobs, jobs))))
        await asyncio.sleep(0)  # lets it go out before the next jobs are made, which does not wait for anybody
        return landed

    async def land(self, flights_max: int = 0) -> list[Sent]:
        """Wait until so few are under way; returns what became of the others."""
        landed: list[Sent] = []
        while len(self._flights) > flights_max:
            jobs, flight = self._flights[0]
            landed.append((jobs, await flight))
            self._flights.popleft()
        return landed

    async def stop(self) -> None:
        """Let what is under way come to its end, whatever that is."""
        await asyncio.gather(*(flight for _, flight in self._flights), return_exceptions=True)

    def _meets(self, jobs: Sequence[Job]) -> bool:
        if not self._ordered or not self._flights:
            return False
        aloft = {job.id for sent, _ in self._flights for job in sent}
        return any(job.id in aloft for job in jobs)


async def _answers(store: Jobs, jobs: Sequence[Job]) -> list[EnqueueOutcome]:
    """An answer or a refusal for each job; raises when the store does not answer for longer than a moment."""
    truths = await enqueue_batch(store, jobs)
    backoff = write_backoff()
    for _ in range(WRITE_TRIES_MAX - 1):
        lost = [at for at, truth in enumerate(truths) if is_lost(truth)]
        if not lost:
            return truths
        await backoff.pause()
        for at, truth in zip(lost, await enqueue_batch(store, [jobs[at] for at in lost]), strict=True):
            truths[at] = truth
    for truth in truths:
        if not isinstance(truth, Enqueued) and is_lost(truth):
            raise truth
    return truths
