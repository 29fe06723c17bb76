"""SAQ on Redis."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from saq import Queue, Worker

from benchmarks.peers.programs.harness import observe

queue = Queue.from_url(os.environ["PEER_URL"])


async def noop(_: Any, *, number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """The queue's connections."""
    await queue.connect()
    yield
    await queue.disconnect()


async def send(number: int, text: str) -> None:
    """Send one job."""
    await queue.enqueue("noop", number=number, text=text)


async def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant, in whole seconds."""
    await queue.enqueue("noop", number=number, text=text, scheduled=due_ms // 1_000)


def work() -> None:
    """Run a worker."""
    import asyncio

    asyncio.run(Worker(queue, functions=[noop], concurrency=100).start())
