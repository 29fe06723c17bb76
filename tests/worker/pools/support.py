"""Tasks for the processes of the tests, and their state in the operating system."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.worker.context import ContextFacts
from headrace.worker.pools.process_pool import ChildTask, ProcessPool

SOON_S = 60
"""A test that would hang fails instead; a loaded machine needs seconds to start a Python."""
HERE = "tests.worker.pools.handlers"
FACTS = ContextFacts("job-1", "try", "mail", "default", 2, 0, 7, None, 0, 0, None, {"trace": "abc"})


def task_of(name: str, /, **arguments: Any) -> ChildTask:
    """A task for one of the handlers of the tests."""
    return ChildTask(f"{HERE}:{name}", json.dumps(arguments).encode(), FACTS)


async def answer_of(pool: ProcessPool, name: str, /, **arguments: Any) -> Any:
    """What a handler answers."""
    async with asyncio.timeout(SOON_S):
        result = await pool.run(task_of(name, **arguments))
    return None if result is None else json.loads(result)


@asynccontextmanager
async def open_pool(size: int, *, jobs_max: int | None = None) -> AsyncIterator[ProcessPool]:
    """A pool, closed in the end."""
    pool = ProcessPool(size, jobs_max=jobs_max)
    try:
        yield pool
    finally:
        async with asyncio.timeout(SOON_S):
            await pool.close()


async def turn_over() -> None:
    """Let everything that can run on the loop do so."""
    for _ in range(5):
        await asyncio.sleep(0)


class Running:
    """A task that has started in its process."""

    def __init__(self, task: asyncio.Task[bytes | None], note: str) -> None:
        self.task = task
        self.pids = [int(pid) for pid in note.split()]

    async def cancel(self) -> None:
        """Cancel it, as a time-out does; returns when it has ended."""
        self.task.cancel()
        async with asyncio.timeout(SOON_S):
            await asyncio.wait([self.task])
        assert self.task.cancelled()


async def begin(pool: ProcessPool, name: str, /, **arguments: Any) -> Running:
    """A task that has started, known by its first progress, with the ids of its processes."""
    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    run = pool.run(task_of(name, **arguments), lambda _, note: None if begun.done() else begun.set_result(note))
    task = asyncio.create_task(run)
    async with asyncio.timeout(SOON_S):
        either: list[asyncio.Future[Any]] = [task, begun]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    assert begun.done(), task
    return Running(task, begun.result())


async def gone(*pids: int) -> None:
    """Returns when these processes have ended; raises TimeoutError when they do not."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SOON_S):
        for pid in pids:
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            ended = asyncio.Event()
            loop.add_reader(pidfd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(pidfd)
                os.close(pidfd)


def is_alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    return _state(pid) not in ("", "Z", "X")


def children() -> list[int]:
    """The children of this process, zombies included."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if _field(pid, 1) == str(os.getpid())]


def open_files() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the names are gone when they are looked at


def _state(pid: int) -> str:
    return _field(pid, 0)


def _field(pid: int, place: int) -> str:
    try:
        # The name of the program stands in brackets and may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[place]
    except (FileNotFoundError, ProcessLookupError):
        return ""
