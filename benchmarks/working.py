"""A worker as a process of its own, for the benchmark: works, and says on its standard output what it saw.

python -m benchmarks.working URL drain CAPACITY     work off what is due, then say how fast
python -m benchmarks.working URL watch CAPACITY     say when each job was picked up, until the input ends
"""

import asyncio
import json
import resource
import sys
import time

from benchmarks.load import QUEUE
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker


def cpu_s() -> float:
    """How long this process has computed."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def drain(url: str, capacity: int) -> None:
    """Jobs a second from the first claim to the last settlement."""
    seen = 0

    async def nothing(user_id: int, text: str) -> None:  # noqa: ARG001 - checked before it runs, as arguments are
        nonlocal seen
        seen += 1

    store = await open_store(url)
    worker = Worker(store, _handlers(nothing), WorkerConfig(capacity=capacity), reopen=lambda: open_store(url))
    cpu, start = cpu_s(), time.perf_counter()
    await worker.run(until_idle=True)
    seconds, cpu = time.perf_counter() - start, cpu_s() - cpu
    await store.close()
    print(json.dumps({"jobs": seen, "seconds": seconds, "cpu_us_per_job": cpu / max(seen, 1) * 1e6}))


async def watch(url: str, capacity: int) -> None:
    """A line for each job: when its handler began, on the machine's monotonic clock."""

    async def tell() -> None:
        print(time.monotonic_ns(), flush=True)

    await _until_the_input_ends(url, capacity, tell)


async def due(url: str, capacity: int) -> None:
    """A line for each job in the end: when its handler began, on the wall clock. Nothing is written meanwhile, which
    would take longer than the job."""
    began: list[int] = []

    async def keep() -> None:
        began.append(time.time_ns())

    await _until_the_input_ends(url, capacity, keep)
    print("\n".join(map(str, began)))


async def _until_the_input_ends(url: str, capacity: int, function: object) -> None:
    store = await open_store(url)
    async with Worker(store, _handlers(function), WorkerConfig(capacity=capacity), reopen=lambda: open_store(url)):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await store.close()


def _handlers(function: object) -> Handlers:
    handlers = Handlers()
    handlers.register(handler_of("send", function), QUEUE)  # type: ignore[arg-type]  # one of those above
    return handlers


if __name__ == "__main__":
    asyncio.run({"drain": drain, "watch": watch, "due": due}[sys.argv[2]](sys.argv[1], int(sys.argv[3])))
