"""A worker that runs out of file descriptors on request: `python -m tests.worker.descriptor_program URL thread|loop`.

Reads commands, one a line: `start` the worker, `take` all free descriptors, `give` them back, `stop`. Prints each
command when it is done, and the events of the worker.
"""

import asyncio
import resource
import sys

from headrace.stores.open import open_store
from headrace.worker.events import JobsFinished, Lifecycle, WorkerEvent
from tests.worker.support import build_handlers, build_worker

DESCRIPTORS = 256
STANDARD = 3
"""The three that every process has: no lower number is free, and poll() still takes a few."""


async def work() -> None:
    """Do nothing, well."""


def say(word: str) -> None:
    """Print a line for the parent process."""
    print(word, flush=True)


def print_event(worker_event: WorkerEvent) -> None:
    """Print an event of the worker."""
    match worker_event:
        case Lifecycle(event):
            say(event)
        case JobsFinished(runs):
            say(f"finished {','.join(run.claim.lease.id for run in runs)}")


def allow(descriptors: int) -> None:
    """Limit the number of descriptors; open ones stay open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))


async def main(url: str, heartbeat: str) -> None:
    """Run the commands, with the worker's heartbeat on its loop or on a thread."""
    store = await open_store(url)
    reopen = (lambda: open_store(url)) if heartbeat == "thread" else None
    worker = build_worker(store, build_handlers(work=work), print_event, reopen=reopen, poll="50ms", lease="2s")
    words = asyncio.Queue[str]()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: words.put_nowait(sys.stdin.readline().strip()))
    running: asyncio.Task[None] | None = None
    while (word := await words.get()) != "stop":
        match word:
            case "start":
                running = asyncio.create_task(worker.run())
                running.add_done_callback(lambda _: words.put_nowait("stop"))
            case "take":
                allow(STANDARD)
            case "give":
                allow(DESCRIPTORS)
        say(word)
    say("stop")
    worker.stop()
    if running is not None:
        await running
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
