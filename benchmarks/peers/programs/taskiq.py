"""taskiq on the streams of Redis, whose messages are acknowledged."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.peers.programs.harness import observe

broker = RedisStreamBroker(os.environ["PEER_URL"])


async def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = broker.task(task_name="noop")(count_job)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """The stream with its group of consumers."""
    await broker.startup()
    yield
    await broker.shutdown()


async def send(number: int, text: str) -> None:
    """Send one job."""
    await noop.kiq(number, text)


def work() -> None:
    """Run a receiver on uvloop, as the command line does where it is installed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_receiver_task(broker, max_async_tasks=100, run_startup=True))
