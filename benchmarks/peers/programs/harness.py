"""Runs one role of a queue's program: it sends jobs, or works them off, and reports in lines on its standard output.

    PEER_URL=… python -m benchmarks.peers.programs NAME setup
    … NAME single|tasks|bulk COUNT       send so many jobs: one after the other, by 50 tasks at once, 1,000 a call
    … NAME later COUNT DUE_MS            send jobs that are due at one instant
    … NAME picks COUNT                   after a line of input, send jobs 20 to 60 ms apart
    … NAME work drain|picks|due COUNT    work until so many jobs were seen; ends with the input

It runs in the queue's own environment, so it needs nothing but Python. A program is a module with `send` and `work`; it
may have `setup`, `opened`, `send_many`, `send_later` and `send_many_later`. `send` is a coroutine function or a plain
one, which then is called by threads.
"""

import asyncio
import inspect
import itertools
import json
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

AT_ONCE = 50
"""So many tasks, or threads of a client that blocks, send at once."""
BATCH = 1_000
PAUSE_S = (0.02, 0.06)
"""So long a worker is left idle between two jobs."""
STEADY = 0.1
"""A drain counts from here on: the first jobs pay for caches and connections, and their batch was claimed before."""
TEXT = "x" * 75
"""With its number a job carries about 100 bytes, as JSON."""
WARM_UP = -1
"""The number of a job that is not counted."""
Job = tuple[int, str]

_REPORT = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
os.dup2(2, 1)  # what libraries print goes to the log


def report(line: str) -> None:
    """Tell the benchmark."""
    _REPORT.write(line + "\n")
    _REPORT.flush()


def cpu_s() -> float:
    """How long this process has computed."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def batches(jobs: list[Job]) -> Iterator[list[Job]]:
    """The jobs in calls."""
    return (jobs[start : start + BATCH] for start in range(0, len(jobs), BATCH))


class Observer:
    """What a worker's handlers saw. Handlers may run in threads: what is shared is only appended to."""

    def __init__(self, mode: str, total: int) -> None:
        self._total = total
        self._seen: set[int] = set()
        self._runs = itertools.count()
        self._times: list[int] = []
        self._start = self._cpu = 0.0
        self._from = 0
        self._reported = threading.Lock()
        self.observe = {"drain": self._drain, "picks": self._pick, "due": self._due}[mode]

    def _drain(self, number: int, _: str) -> None:
        if number < 0:
            return
        self._seen.add(number)
        next(self._runs)
        done = len(self._seen)
        if not self._start and done >= self._total * STEADY:
            self._start, self._cpu, self._from = time.perf_counter(), cpu_s(), done
        if done >= self._total:
            seconds, cpu, jobs = time.perf_counter() - self._start, cpu_s() - self._cpu, done - self._from
            self.tell(per_s=jobs / seconds, cpu_us=cpu / jobs * 1e6)

    def _pick(self, number: int, text: str) -> None:
        now = time.monotonic_ns()
        if number < 0:
            report("ready")
            return
        self._times.append(now - int(text))
        self._count(number)

    def _due(self, number: int, _: str) -> None:
        now = time.time_ns()
        if number < 0:
            report("ready")
            return
        self._times.append(now)
        self._count(number)

    def _count(self, number: int) -> None:
        self._seen.add(number)
        next(self._runs)
        if len(self._seen) >= self._total:
            self.tell()

    def tell(self, **figures: float) -> None:
        """Report once: when all jobs were seen, or at the end of the input."""
        if self._reported.acquire(blocking=False):
            report(json.dumps({"jobs": len(self._seen), "runs": next(self._runs), "times": self._times, **figures}))


_observer: Observer | None = None


def observe(number: int, text: str) -> None:
    """Count a job; what each program's handler does, and all it does."""
    assert _observer is not None, "only a worker runs jobs"
    _observer.observe(number, text)


def work(program: Any, mode: str, total: int) -> None:
    """Run the program's worker until the input ends."""
    global _observer  # noqa: PLW0603 - handlers are found by their names and get nothing but a job's arguments
    _observer = observer = Observer(mode, total)

    def end() -> None:
        while os.read(0, 1_024):  # not through sys.stdin, whose lock a scheduler that is forked would wait for
            pass
        observer.tell()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    program.work()


@asynccontextmanager
async def nothing_to_open() -> Any:
    """Serve a program that connects by itself."""
    yield


def opened(program: Any) -> AbstractAsyncContextManager[None]:
    """The program's connections."""
    manager: AbstractAsyncContextManager[None] = getattr(program, "opened", nothing_to_open)()
    return manager


async def at_once(send: Callable[..., Any], jobs: list[tuple[Any, ...]]) -> None:
    """Send by fifty tasks, or fifty threads where sending blocks; each sends the next job when its last one is safe."""
    waiting = iter(jobs)
    if inspect.iscoroutinefunction(send):

        async def task() -> None:
            for job in waiting:
                await send(*job)

        await asyncio.gather(*[task() for _ in range(AT_ONCE)])
        return

    def thread(share: list[tuple[Any, ...]]) -> None:
        for job in share:
            send(*job)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(thread, [jobs[place::AT_ONCE] for place in range(AT_ONCE)]))


async def call(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a coroutine function or a plain one."""
    answer = function(*arguments)
    if inspect.isawaitable(answer):
        await answer


async def send_singly(program: Any, jobs: list[Job]) -> None:
    """Send one after the other, with nothing between client and caller."""
    if inspect.iscoroutinefunction(program.send):
        for number, text in jobs:
            await program.send(number, text)
    else:
        for number, text in jobs:
            program.send(number, text)


async def send(program: Any, role: str, count: int, due_ms: int) -> None:
    """Send in one way, and report how long it took."""
    jobs = [(number, TEXT) for number in range(count)]
    async with opened(program):
        await call(program.send, WARM_UP, TEXT)  # connects, and brings scripts to the server
        start, cpu = time.perf_counter(), cpu_s()
        if role == "single":
            await send_singly(program, jobs)
        elif role == "tasks":
            await at_once(program.send, jobs)
        elif role == "bulk":
            for batch in batches(jobs):
                await call(program.send_many, batch)
        elif hasattr(program, "send_many_later"):
            for batch in batches(jobs):
                await call(program.send_many_later, batch, due_ms)
        else:
            await at_once(program.send_later, [(*job, due_ms) for job in jobs])
        seconds, cpu = time.perf_counter() - start, cpu_s() - cpu
    report(json.dumps({"jobs": count, "seconds": seconds, "cpu_us": cpu / count * 1e6}))


async def send_picks(program: Any, count: int) -> None:
    """Send jobs to a worker that is idle, each with the instant of its call."""
    async with opened(program):
        await call(program.send, WARM_UP, "0")
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(count):
            await asyncio.sleep(random.uniform(*PAUSE_S))
            if inspect.iscoroutinefunction(program.send):
                await program.send(number, str(time.monotonic_ns()))
            else:
                program.send(number, str(time.monotonic_ns()))
    report(json.dumps({"jobs": count}))


async def set_up(program: Any) -> None:
    """Make what the queue needs on a fresh server, if anything."""
    if hasattr(program, "setup"):
        await call(program.setup)
    report("{}")


def main(program: Any, role: str, words: list[str]) -> None:
    """Run one role."""
    if role == "work":
        work(program, words[0], int(words[1]))
    elif role == "setup":
        asyncio.run(set_up(program))
    elif role == "picks":
        asyncio.run(send_picks(program, int(words[0])))
    else:
        asyncio.run(send(program, role, int(words[0]), int(words[1]) if len(words) > 1 else 0))
