"""A worker in its own process, for the runs that kill and stop it; prints its steps on standard output.

python -m tests.proof.worker_program URL LEASE_MS GRACE_MS [deaths [FAULT]]

With `deaths` it is told of the jobs that die, too; FAULT is planted in the store first.
"""

import asyncio
import ctypes
import logging
import os
import random
import sys
import threading
import time

from headrace.model.names import FAIL_KIND, Queue
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.context import current
from headrace.worker.events import Lifecycle, WorkerEvent
from headrace.worker.exceptions import Fail
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker
from tests.support.fault_registry import plant

QUEUE = Queue("runs", "proof")
CAPACITY = 200


def say(*words: object) -> None:
    """One line in one piece, however many processes write."""
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


async def hang() -> None:
    """Never ends by itself."""
    say("began", current().job.id, os.getpid())
    await asyncio.Event().wait()


def stubborn() -> None:
    """Never ends, and a thread cannot be stopped."""
    say("began", current().job.id, os.getpid())
    threading.Event().wait()


def far_away() -> None:
    """Never ends, in a process."""
    say("began", current().job.id, os.getpid())
    time.sleep(3_600)


async def quick() -> None:
    """Ends at once."""
    say("began", current().job.id, os.getpid())


async def doomed() -> None:
    """Fails for good, after a moment."""
    say("began", *_delivery())
    await asyncio.sleep(random.random() / 100)
    raise Fail("as it must")


async def bury(id: str, payload: object, error: dict[str, str]) -> None:
    """Hears of a death, and takes a moment."""
    say("began", *_delivery())
    await asyncio.sleep(random.random() / 100)


def _delivery() -> tuple[object, ...]:
    job = current().job
    return job.id, os.getpid(), job.queue, job.fence


def hold_the_gil(seconds: float) -> None:
    """Lets no other Python code of its process run for so long."""
    say("began", current().job.id, os.getpid())
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


def handlers(*, hears_of_deaths: bool) -> Handlers:
    """All of these."""
    found = Handlers()
    for kind, here in {"hang": hang, "stubborn": stubborn, "quick": quick, "doomed": doomed}.items():
        found.register(handler_of(kind, here), QUEUE)
    found.register(handler_of("far_away", far_away, process=True), QUEUE)
    if hears_of_deaths:
        found.register_fail(handler_of(FAIL_KIND, bury, style="listed"), QUEUE)
    return found


def tell(notice: WorkerEvent) -> None:
    """What becomes of the worker."""
    if isinstance(notice, Lifecycle):
        say(notice.event)


async def main(url: str, lease_ms: int, grace_ms: int, deaths: str = "", fault: str = "") -> None:
    """Work until a signal comes."""
    if fault:
        plant(fault)
    logging.disable(logging.WARNING)  # what is lost here is lost on purpose
    store = await open_store(url)
    config = WorkerConfig(
        queues=[QUEUE], capacity=CAPACITY, threads=CAPACITY, lease=lease_ms / 1000, grace=grace_ms / 1000, pool_size=2
    )
    worker = Worker(
        store, handlers(hears_of_deaths=bool(deaths)), config, reopen=lambda: open_store(url), listeners=[tell]
    )
    await worker.run(signals=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
