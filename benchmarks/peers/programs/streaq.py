"""streaQ on the streams of Redis."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from streaq import Worker

from benchmarks.peers.programs.harness import Job, observe

worker = Worker(redis_url=os.environ["PEER_URL"], concurrency=100, handle_signals=False)


async def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = worker.task(name="noop", silent=True, ttl=0)(count_job)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """The worker's connections, which its clients share."""
    async with worker:
        yield


async def send(number: int, text: str) -> None:
    """Send one job."""
    await noop.enqueue(number, text)


async def send_many(jobs: list[Job]) -> None:
    """Send a thousand jobs in one pipeline."""
    await worker.enqueue_many([noop.enqueue(number, text) for number, text in jobs])


async def send_many_later(jobs: list[Job], due_ms: int) -> None:
    """Send jobs that are due at one instant."""
    due = datetime.fromtimestamp(due_ms / 1_000, UTC)
    await worker.enqueue_many([noop.enqueue(number, text).start(schedule=due) for number, text in jobs])


def work() -> None:
    """Run the worker."""
    worker.run_sync()
