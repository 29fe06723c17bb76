"""The app of fleets under kills: its handler notes its start and end in a file."""

import asyncio
import os
import time
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace import App, Fail, Retry, current
from tests.proof.fleet_faults import plant_fault

QUEUE = "proof"
LEASE_MS = 2_000
RUNS = "runs.log"
STALLS_MAX = 3
"""After so many stalls a slow row is fast, so that a fleet without heartbeats ends, too."""
_SLOW_S = 1.5 * LEASE_MS / 1_000
"""Longer than a lease: without a heartbeat another worker would start meanwhile."""

plant_fault()  # executors import this module, and nothing else of the proof

app = App(queue=QUEUE)


class Run(Struct, frozen=True, array_like=True):
    """A note of a handler that started or ended."""

    is_end: bool
    n: int
    """The row."""
    id: str
    fence: int
    at_ns: int
    """By the monotonic clock of the machine, which all processes share."""
    pid: int


_RUN = msgspec.json.Decoder(Run)


# Every kill stalls jobs, so stalls are unlimited; only failed attempts are limited.
@app.job(timeout="4s", max_attempts=20, max_stalls=1_000, backoff="20ms", backoff_max="100ms")
async def square(n: int, folder: str, ms: int) -> dict[str, int]:
    """The square of a number, after `ms` on average; some numbers are hopeless, some need two attempts, some take
    longer than a lease, some are deadly."""
    is_first = current().attempt == 1 and current().job.stalls == 0
    is_early = current().job.stalls < STALLS_MAX
    note(Path(folder), n, is_end=False)
    await asyncio.sleep(_SLOW_S if is_slow(n) and is_early else ms * (n % 20) / 10_000)
    if is_deadly(n) and is_first:
        os._exit(13)
    note(Path(folder), n, is_end=True)
    if is_hopeless(n):
        raise Fail(f"{n} is hopeless")
    if is_flaky(n) and current().attempt == 1:
        raise Retry(f"{n} is flaky")
    if is_endless(n) and current().attempt == 1 and is_early:
        await asyncio.sleep(60)  # until its time-out
    return {"square": n * n}


def is_hopeless(n: int) -> bool:
    """Whether its job dies."""
    return n % 97 == 5


def is_flaky(n: int) -> bool:
    """Whether its first attempt fails."""
    return n % 53 == 7


def is_slow(n: int) -> bool:
    """Whether it takes longer than a lease."""
    return n % 503 == 17


def is_endless(n: int) -> bool:
    """Whether its first attempt runs into the time-out."""
    return n % 1_009 == 29


def is_deadly(n: int) -> bool:
    """Whether its first delivery crashes the process."""
    return n % 10_007 == 41


def note(folder: Path, n: int, *, is_end: bool) -> None:
    """Append a note in one write, which survives a crash right after it."""
    context = current()
    run = Run(is_end, n, context.job.id, context.fence, time.monotonic_ns(), os.getpid())
    os.write(_file(folder), msgspec.json.encode(run) + b"\n")


@cache
def _file(folder: Path) -> int:
    return os.open(folder / RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read_runs(folder: Path) -> list[Run]:
    """All notes of handlers."""
    if not (folder / RUNS).exists():
        return []
    return [_RUN.decode(line) for line in (folder / RUNS).read_bytes().splitlines()]
