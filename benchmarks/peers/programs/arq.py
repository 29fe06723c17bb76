"""arq on Redis."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from arq import Worker, create_pool, func
from arq.connections import RedisSettings

from benchmarks.peers.programs.harness import observe

settings = RedisSettings.from_dsn(os.environ["PEER_URL"])
pools: list[Any] = []


async def noop(_: Any, number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """A pool of connections."""
    pools.append(await create_pool(settings))
    yield
    await pools.pop().aclose()


async def send(number: int, text: str) -> None:
    """Send one job."""
    await pools[0].enqueue_job("noop", number, text)


async def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant."""
    await pools[0].enqueue_job("noop", number, text, _defer_until=datetime.fromtimestamp(due_ms / 1_000, UTC))


def work() -> None:
    """Run a worker."""

    async def run() -> None:
        worker = Worker(
            [func(noop, name="noop")], redis_settings=settings, max_jobs=100, keep_result=0, handle_signals=False
        )
        await worker.main()

    asyncio.run(run())
