"""Procrastinate on PostgreSQL."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from procrastinate import App, PsycopgConnector

from benchmarks.peers.programs.harness import Job, observe

app = App(connector=PsycopgConnector(conninfo=os.environ["PEER_URL"]))


async def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = app.task(name="noop")(count_job)


async def setup() -> None:
    """Make its tables."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """A pool of connections."""
    async with app.open_async():
        yield


async def send(number: int, text: str) -> None:
    """Send one job."""
    await noop.defer_async(number=number, text=text)


async def send_many(jobs: list[Job]) -> None:
    """Send a thousand jobs in one call."""
    await noop.batch_defer_async(*({"number": number, "text": text} for number, text in jobs))


async def send_many_later(jobs: list[Job], due_ms: int) -> None:
    """Send jobs that are due at one instant."""
    later = noop.configure(schedule_at=datetime.fromtimestamp(due_ms / 1_000, UTC))
    await later.batch_defer_async(*({"number": number, "text": text} for number, text in jobs))


def work() -> None:
    """Run a worker."""

    async def run() -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=100, delete_jobs="successful", install_signal_handlers=False)

    asyncio.run(run())
