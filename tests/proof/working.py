"""A worker as a process of its own, for the runs that kill and stop it: says on its standard output what it does.

python -m tests.proof.working URL LEASE_MS GRACE_MS
"""

import asyncio
import ctypes
import logging
import os
import sys
import threading
import time

from headrace.model.names import Queue
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.context import current
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.notices import Lifecycle, Notice
from headrace.worker.worker import Worker

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
    """Never ends, and a thread cannot be made to."""
    say("began", current().job.id, os.getpid())
    threading.Event().wait()


def far_away() -> None:
    """Never ends, in a process."""
    say("began", current().job.id, os.getpid())
    time.sleep(3_600)


async def quick() -> None:
    """Ends at once."""
    say("began", current().job.id, os.getpid())


def hold_the_gil(seconds: float) -> None:
    """Lets no other Python code of its process run for so long."""
    say("began", current().job.id, os.getpid())
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


def handlers() -> Handlers:
    """All of these."""
    found = Handlers()
    for kind, here in {"hang": hang, "stubborn": stubborn, "quick": quick}.items():
        found.register(handler_of(kind, here), QUEUE)
    found.register(handler_of("far_away", far_away, process=True), QUEUE)
    return found


def tell(notice: Notice) -> None:
    """What becomes of the worker."""
    if isinstance(notice, Lifecycle):
        say(notice.event)


async def main(url: str, lease_ms: int, grace_ms: int) -> None:
    """Work until a signal comes."""
    logging.disable(logging.WARNING)  # what is lost here is lost on purpose
    store = await open_store(url)
    config = WorkerConfig(
        queues=[QUEUE], capacity=CAPACITY, threads=CAPACITY, lease=lease_ms / 1000, grace=grace_ms / 1000, processes=2
    )
    worker = Worker(store, handlers(), config, reopen=lambda: open_store(url), listeners=[tell])
    await worker.run(signals=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
