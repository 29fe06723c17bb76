"""The app of the runs that kill fleets: its handler notes in a file that it began, before it does anything else."""

import asyncio
import os
import time
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace import App, Fail, Retry, current
from tests.proof.fleet_faults import plant_here

QUEUE = "proof"
LEASE_MS = 2_000
RUNS = "runs.log"
STALLS_MAX = 3
"""After so many, what takes long takes no longer than others: also a fleet without hearts comes to its end."""
_SLOW_S = 1.5 * LEASE_MS / 1_000
"""Longer than a lease: without a heart another worker would begin meanwhile."""

plant_here()  # executors import this module, and nothing else of the proof

app = App(queue=QUEUE)


class Run(Struct, frozen=True, array_like=True):
    """A handler that began, or ended."""

    is_end: bool
    n: int
    """The row."""
    id: str
    fence: int
    at_ns: int
    """By the machine's monotonic clock, which all its processes share."""
    pid: int


_RUN = msgspec.json.Decoder(Run)


# Jobs may stall as often as somebody is killed; only attempts that a handler makes fail are counted.
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
    if is_moody(n) and current().attempt == 1:
        raise Retry(f"{n} is not in the mood")
    if is_endless(n) and current().attempt == 1 and is_early:
        await asyncio.sleep(60)  # its time is over before
    return {"square": n * n}


def is_hopeless(n: int) -> bool:
    """Whether its job dies."""
    return n % 97 == 5


def is_moody(n: int) -> bool:
    """Whether its first attempt fails."""
    return n % 53 == 7


def is_slow(n: int) -> bool:
    """Whether it takes longer than a lease."""
    return n % 503 == 17


def is_endless(n: int) -> bool:
    """Whether its first attempt takes longer than its time."""
    return n % 1_009 == 29


def is_deadly(n: int) -> bool:
    """Whether its first delivery ends the process that runs it."""
    return n % 10_007 == 41


def note(folder: Path, n: int, *, is_end: bool) -> None:
    """Written in one step, so that it is there whatever happens next."""
    context = current()
    run = Run(is_end, n, context.job.id, context.fence, time.monotonic_ns(), os.getpid())
    os.write(_file(folder), msgspec.json.encode(run) + b"\n")


@cache
def _file(folder: Path) -> int:
    return os.open(folder / RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def runs_in(folder: Path) -> list[Run]:
    """Everything that handlers have noted."""
    if not (folder / RUNS).exists():
        return []
    return [_RUN.decode(line) for line in (folder / RUNS).read_bytes().splitlines()]
