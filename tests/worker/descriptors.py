"""A worker in a process that runs out of file descriptors when it is told to: `python -m tests.worker.descriptors URL
thread|loop`.

Reads a word a line: `start` the worker, `take` away all descriptors that are free, `give` them back, `stop`. Says each
word when it is done, and what the worker tells.
"""

import asyncio
import resource
import sys

from headrace.stores.open import open_store
from headrace.worker.events import JobsFinished, Lifecycle, WorkerEvent
from tests.worker.support import handling, worker_of

DESCRIPTORS = 256
STANDARD = 3
"""The three that every process has: none is free below, and poll() still takes a few."""


async def work() -> None:
    """Do nothing, well."""


def say(word: str) -> None:
    """Tell whoever has started this process."""
    print(word, flush=True)


def tell(notice: WorkerEvent) -> None:
    """Tell what the worker does."""
    match notice:
        case Lifecycle(event):
            say(event)
        case JobsFinished(runs):
            say(f"finished {','.join(run.claim.lease.id for run in runs)}")


def allow(descriptors: int) -> None:
    """Let no more descriptors be opened than these; the ones that are open stay."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))


async def main(url: str, beat: str) -> None:
    """Do as told, with the worker's heart on its loop or on a thread."""
    store = await open_store(url)
    reopen = (lambda: open_store(url)) if beat == "thread" else None
    worker = worker_of(store, handling(work=work), tell, reopen=reopen, poll="50ms", lease="2s")
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
