"""Producers: processes that send, cancel, remove and wait for jobs through the real client."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from headrace.client.client import Client
from headrace.client.handle import Handle
from headrace.model.errors import JobCancelled, JobFailed, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue
from tests.simulation.audit import Acknowledgements
from tests.simulation.checker import Checker
from tests.simulation.handlers import draw_plan

SINGLETONS = tuple(f"one-{number}" for number in range(4))
KEYS = tuple(f"key-{number}" for number in range(5))


class Producer:
    """Draws one action after the other, and records what the store has acknowledged."""

    def __init__(
        self,
        name: str,
        client: Client,
        queues: list[Queue],
        rng: Random,
        checker: Checker,
        acknowledgements: Acknowledgements,
        lease_ms: int,
    ) -> None:
        self._name = name
        self._client = client
        self._queues = queues
        self._rng = rng
        self._checker = checker
        self._acknowledgements = acknowledgements
        self._lease_ms = lease_ms
        self._number = 0
        self._ids: list[tuple[Queue, str]] = []
        self._waiting: list[asyncio.Task[None]] = []

    async def run(self, actions: int) -> None:
        """Run a number of actions, then wait for the requested results."""
        for _ in range(actions):
            await self._act()
            await asyncio.sleep(self._rng.random() * self._rng.choice((0.1, 1.0, 4.0)))
        for task in self._waiting:
            await task

    async def _act(self) -> None:
        roll = self._rng.random()
        if roll < 0.45:
            await asyncio.gather(*(self._send(self._draw()) for _ in range(self._rng.randrange(1, 4))))
        elif roll < 0.6:
            await self._send_many()
        elif roll < 0.75:
            await self._send_keyed()
        elif roll < 0.9:
            await self._end(self._client.cancel, running=self._rng.random() < 0.7)
        elif roll < 0.94:
            await self._end(self._client.remove)
        else:
            await asyncio.gather(*(self._send(self._draw_singleton()) for _ in range(3)))

    # Sending.

    def _draw(self) -> tuple[Job, bool]:
        if self._rng.random() < 0.25:
            return self._draw_singleton()
        self._number += 1
        return self._job(id=f"{self._name}-{self._number}"), True

    def _draw_singleton(self) -> tuple[Job, bool]:
        flags = {"update_payload": self._rng.random() < 0.7, "update_policy": False}
        return self._job(id=self._rng.choice(SINGLETONS), **flags), False

    def _job(self, **arguments: Any) -> Job:
        rng = self._rng
        self._number += 1
        roll = rng.random()
        kind = "quick" if roll < 0.7 else "heavy" if roll < 0.97 else "nobody-knows"
        payload: Any = {"plan": draw_plan(rng, self._lease_ms), "mark": f"{self._name}.{self._number}"}
        if rng.random() < 0.02:
            payload = "bad"
        if rng.random() < 0.3:
            arguments["delay"] = rng.randrange(0, 15_000) / 1000
        if rng.random() < 0.3:
            arguments["timeout"] = rng.randrange(100, 3 * self._lease_ms) / 1000
        return self._client.job(
            kind,
            payload,
            queue=rng.choice(self._queues),
            priority=rng.choice((None, 1, 9)),
            max_attempts=4,
            max_stalls=4,
            backoff=1,
            backoff_max=5,
            **arguments,
        )

    async def _send(self, drawn: tuple[Job, bool]) -> None:
        job, is_fresh = drawn
        key = (job.queue.full_name, job.id)
        try:
            handle = await self._client.send(job)
        except StoreUnavailable:
            if is_fresh:
                self._acknowledgements.rejected.add(key)
            return
        except OutcomeUnknown:
            return
        self._take(job, handle)
        if self._rng.random() < 0.25:
            self._waiting.append(asyncio.create_task(self._wait(handle)))

    async def _send_many(self) -> None:
        drawn = [self._draw() for _ in range(self._rng.randrange(2, 5))]
        jobs = [job for job, _ in drawn]
        try:
            handles = await self._client.enqueue_many(jobs)
        except (StoreUnavailable, OutcomeUnknown):
            return
        for job, handle in zip(jobs, handles, strict=True):
            self._take(job, handle)

    async def _send_keyed(self) -> None:
        """With an idempotency key, a sender may repeat until it gets an answer."""
        key = self._rng.choice(KEYS)
        queue = self._queues[0]
        self._number += 1
        payload = {"plan": [["ok", 10, 0]], "mark": key}
        job = self._client.job("quick", payload, queue=queue, idempotency_key=key, max_attempts=4, max_stalls=4)
        self._acknowledgements.keyed.add((queue.full_name, job.id))
        for _ in range(self._rng.randrange(1, 4)):
            try:
                handle = await self._client.send(job)
            except (StoreUnavailable, OutcomeUnknown):
                continue
            self._take(job, handle)
            return

    def _take(self, job: Job, handle: Handle[Any]) -> None:
        key = (job.queue.full_name, job.id)
        self._ids.append((job.queue, job.id))
        if handle.id != job.id or handle.queue != job.queue:
            self._checker.violate(f"{self._name} sent {key} and was told of {handle!r}")
        if handle.status not in self._checker.statuses[key]:
            self._checker.violate(
                f"{self._name} was told {handle.status} of {key}; the store said {self._checker.statuses[key]}"
            )
        self._acknowledgements.accepted.add(key)

    # Later actions on jobs.

    async def _end(self, verb: Callable[..., Coroutine[Any, Any, Any]], **arguments: Any) -> None:
        if not self._ids:
            return
        queue, id = self._rng.choice(self._ids[-8:])
        try:
            await verb(queue, id, **arguments)
        except (StoreUnavailable, OutcomeUnknown):
            return

    async def _wait(self, handle: Handle[Any]) -> None:
        key = (handle.queue.full_name, handle.id)
        try:
            value = await handle.result(timeout=self._rng.randrange(1, 60))
        except (StoreUnavailable, OutcomeUnknown, TimeoutError, JobCancelled, JobFailed):
            return
        except Refused as refused:
            if refused.reason != "not_found" or key not in self._checker.removed:
                self._checker.violate(f"the result of {key} was refused: {refused}")
            return
        if value not in self._checker.results[key]:
            self._checker.violate(f"the result of {key} is {value!r}; its handlers gave {self._checker.results[key]}")
