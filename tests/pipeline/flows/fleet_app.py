"""An app for fleets: jobs that finish, fail, wait for a signal, hang, or crash their process."""

import asyncio
import os
import threading
from pathlib import Path

from headrace import App
from tests.support.process import wait_until

app = App(queue="fleet")


@app.job(max_attempts=2, backoff=0.05)
async def double(number: int) -> int:
    """Twice the number; every tenth fails for good."""
    if number % 10 == 9:
        raise ValueError(f"{number} is odd")
    return number * 2


@app.job
def crash(mark: str, go: str | None = None) -> str:
    """Crashes its process the first time, once `go` exists; the mark shows that it runs."""
    if is_first(mark):
        if go is not None:
            wait_until(Path(go).exists, "the signal to go")
        os._exit(1)
    return "survived"


@app.job
async def always_crash() -> None:
    """Crashes its process every time."""
    os._exit(1)


@app.job
async def hold(mark: str) -> None:
    """Leaves a mark and runs until it is stopped; the second time it ends at once."""
    if is_first(mark):
        await asyncio.Event().wait()


@app.job
def hang(mark: str) -> None:
    """As `hold`, in a thread, which cannot be stopped."""
    if is_first(mark):
        threading.Event().wait()


@app.job
async def hang_in_executor(mark: str) -> None:
    """As `hang`, in a thread of the event loop's executor."""
    await asyncio.to_thread(hang, mark)


@app.job(timeout=0.3, max_attempts=2, backoff=0.05)
async def slow() -> None:
    """Longer than its time."""
    await asyncio.Event().wait()


def is_first(mark: str) -> bool:
    """Whether no process has left this mark before; the mark holds its process id."""
    own = Path(f"{mark}.{os.getpid()}")
    own.write_text(str(os.getpid()))
    try:
        os.link(own, mark)  # whole or not at all, and once
    except FileExistsError:
        return False
    return True
