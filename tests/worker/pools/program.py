"""A program with a pool of processes and its own handlers, for tests that kill or inspect it from outside."""

import asyncio
import signal
import sys

from headrace.worker.context import ContextFacts
from headrace.worker.pools.process_pool import ChildRaised, ChildTask, ProcessPool

FACTS = ContextFacts("job-1", "try", "mail", "default", 1, 0, 1, None, 0, 0, None, {})


def say(*words: object) -> None:
    """Print a line that is seen at once."""
    print(*words, flush=True)


def own_handler() -> str:
    """Return the name of the main module here, and its arguments."""
    return f"{__name__} {' '.join(sys.argv[1:])}"


async def run(target: str, payload: bytes = b"{}") -> None:
    """Run one task, and print its progress and its answer."""
    pool = ProcessPool(1)
    try:
        say("answer", await pool.run(ChildTask(target, payload, FACTS), lambda _, note: say("begun", note)))
    except ChildRaised as raised:
        say("raised", raised.message)
    finally:
        await pool.close()


if __name__ == "__main__" or "unguarded" in sys.argv:
    # As a worker does: a signal asks it to end, and running jobs go on for a while.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: say("asked", number))
    asyncio.run(run(sys.argv[1], sys.argv[2].encode()))
