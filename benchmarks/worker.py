"""Measures the worker: jobs a second of one process with handlers that do nothing, beside the raw LPUSH reference; how
soon an idle worker picks a job up, beside a bare enqueue-and-wake; and many jobs that are due at one instant.

    python -m benchmarks.worker [--quick] [--json] [--stores redis,sqlite]
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import IO, NamedTuple

from benchmarks.bare import waker
from benchmarks.contenders import Contender
from benchmarks.costs import cpu_s, fill
from benchmarks.load import PAYLOAD, QUEUE, ids_of
from benchmarks.running import Say, run
from headrace.client.client import Client
from headrace.model.clock import SystemClock
from headrace.model.job import Job
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tools.servers import redis_program

CAPACITY = 1_000
ByStore = dict[str, dict[str, dict[str, float]]]


class Sizes(NamedTuple):
    """How much is done."""

    jobs: int
    picks: int
    due: int
    pushes: int
    rounds: int


FULL = Sizes(30_000, 500, 20_000, 1_000_000, 3)
QUICK = Sizes(1_000, 20, 500, 50_000, 1)


@contextmanager
def process(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python program beside this one, ended with the block."""
    child = subprocess.Popen([sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        _pipe(child.stdin).close()
        try:
            child.wait(0.5 if "benchmarks.bare" in words else 10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        _pipe(child.stdout).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # both were asked for
    return pipe


def pushes_per_second(port: int, pushes: int) -> float:
    """The raw reference: LPUSH of 100 bytes, 50 clients, pipelines of 16, by redis-benchmark."""
    program = Path(redis_program() or "redis-server").with_name("redis-benchmark")
    words = [program, "-p", port, "-t", "lpush", "-d", 100, "-P", 16, "-c", 50, "-n", pushes, "-q"]
    said = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout
    return float(re.findall(r"LPUSH: ([\d.]+) requests per second", said)[-1])


async def drain(place: Contender, sizes: Sizes, workers: int = 1) -> dict[str, float]:
    """Jobs a second of worker processes on a queue that was filled before."""
    url = place.fresh_url()
    store = await open_store(url)
    await fill(store, sizes.jobs * workers, 1)
    await store.close()
    redis_cpu = cpu_s(place.redis) if place.redis else 0.0
    words = [sys.executable, "-m", "benchmarks.working", url, "drain", str(CAPACITY)]
    children = [await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE) for _ in range(workers)]
    found = [json.loads((await child.communicate())[0]) for child in children]
    jobs = sum(each["jobs"] for each in found)
    assert jobs == sizes.jobs * workers, f"{place.name}: {jobs:,} of {sizes.jobs * workers:,} jobs were done"
    figures = {
        "jobs_per_second": jobs / max(each["seconds"] for each in found),
        "worker_cpu_us": sum(each["cpu_us_per_job"] * each["jobs"] for each in found) / jobs,
    }
    if place.redis:
        figures["redis_cpu_us"] = (cpu_s(place.redis) - redis_cpu) / jobs * 1e6
    return figures


async def pick_ups(url: str, picks: int) -> list[float]:
    """Milliseconds from the call of enqueue to the first line of the handler, in another process that was idle."""
    with process("benchmarks.working", url, "watch", "100") as child:
        told = _pipe(child.stdout)
        assert told.readline() == "ready\n"
        store = await open_store(url)
        client = Client(store, tenant=QUEUE.tenant, queue=QUEUE.name)
        times = []
        for _ in range(picks + 10):
            await asyncio.sleep(0.005)  # idle, as workers are: nothing is under way between the two
            start = time.monotonic_ns()
            await client.enqueue("send", {})
            began = int(await asyncio.to_thread(told.readline))
            times.append((began - start) / 1e6)
        await store.close()
    return times[10:]


def bare_wakes(kind: str, where: str, picks: int) -> list[float]:
    """Milliseconds from the call that puts something to the sleeper's next line."""
    with process("benchmarks.bare", kind, where) as child:
        told = _pipe(child.stdout)
        assert told.readline() == "ready\n"
        wake, times = waker(kind, where), []
        for _ in range(picks + 10):
            time.sleep(0.005)
            start = time.monotonic_ns()
            wake(PAYLOAD)
            times.append((int(told.readline()) - start) / 1e6)
        child.kill()
    return times[10:]


async def left(store: Store) -> int:
    """How many jobs are not done yet."""
    counts = await store.queues.counts(QUEUE)
    return counts.waiting + counts.active


async def due_at_once(place: Contender, due: int) -> dict[str, float]:
    """Milliseconds by which jobs that are due at one instant start late, and the share that started early."""
    url = place.fresh_url()
    store = await open_store(url)
    run_at_ms = SystemClock().now_ms() + (5_000 if due > 1_000 else 1_500)
    for ids in ids_of(due, 1_000, 5):
        await store.jobs.enqueue(
            [Job(queue=QUEUE, id=id, kind="send", payload=b"{}", run_at_ms=run_at_ms) for id in ids]
        )
    assert SystemClock().now_ms() < run_at_ms - 500, "enqueuing took too long"
    with process("benchmarks.working", url, "due", str(CAPACITY)) as child:
        told = _pipe(child.stdout)
        assert told.readline() == "ready\n"
        while await left(store):  # noqa: ASYNC110 - those who end them are in another process
            await asyncio.sleep(0.5)  # often enough to see the end, and too seldom to disturb
        _pipe(child.stdin).close()
        lines = told.read().split()
    assert len(lines) == due, f"{place.name}: {len(lines):,} of {due:,} jobs were started"
    late = sorted(int(line) / 1e6 - run_at_ms for line in lines)
    await store.close()
    return {"p50": late[due // 2], "max": late[-1], "early": sum(each < 0 for each in late)}


def where(place: Contender, folder: str) -> tuple[str, str] | None:
    """How the bare counterpart reaches the same server."""
    kind = place.name.split()[0]
    if kind == "redis" and place.redis:
        return kind, str(place.redis.port)
    if kind == "postgres":
        return kind, place.fresh_url()
    return (kind, str(Path(folder) / "bare.db")) if kind == "sqlite" else None


def spread(times: list[float]) -> dict[str, float]:
    """Median and the slowest in a hundred."""
    return {"p50": median(times), "p99": quantiles(times, n=100)[98]}


async def measure_all(places: list[Contender], sizes: Sizes, say: Say) -> ByStore:
    """Everything, by store."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    raw = next((place.redis for place in places if place.redis), None)
    for place in places:
        found = figures.setdefault(place.name, {})
        rounds, references = [], []
        for number in range(sizes.rounds):
            say(f"{place.name}: draining {sizes.jobs:,} jobs, round {number + 1} of {sizes.rounds}")
            if raw is not None:
                raw.ask("FLUSHALL")
                references.append(pushes_per_second(raw.port, sizes.pushes))
            rounds.append(await drain(place, sizes))
        found["drain"] = {name: median(each[name] for each in rounds) for name in rounds[0]}
        if references:
            found["drain"]["lpush_per_second"] = median(references)
            found["drain"]["share_of_lpush"] = found["drain"]["jobs_per_second"] / median(references)
        say(f"{place.name}: two worker processes")
        found["two_processes"] = await drain(place, sizes, 2)
        say(f"{place.name}: picking up when idle")
        with tempfile.TemporaryDirectory(prefix="headrace-bare-") as folder:
            bare = where(place, folder)
            if bare is not None:
                found["bare_wake_ms"] = spread(bare_wakes(*bare, sizes.picks))
            found["pick_up_ms"] = spread(await pick_ups(place.fresh_url(), sizes.picks))
        say(f"{place.name}: {sizes.due:,} jobs due at once")
        found["due_at_once_ms"] = await due_at_once(place, sizes.due)
    return figures


def show(figures: ByStore) -> None:
    """Print the figures as a table."""
    names = (
        "store", "jobs/s", "LPUSH/s", "of LPUSH", "2 procs", "worker µs", "redis µs", "bare p50", "p99", "pick-up p50",
        "p99", "ratio p50", "p99", "due p50", "max",
    )  # fmt: skip
    print("\n" + "".join(f"{name:>13}" for name in names))
    for place, found in figures.items():
        drained, bare, pick = found["drain"], found.get("bare_wake_ms", {}), found["pick_up_ms"]
        late = found["due_at_once_ms"]
        cells = [
            place,
            f"{drained['jobs_per_second']:,.0f}",
            f"{drained.get('lpush_per_second', 0):,.0f}",
            f"{drained.get('share_of_lpush', 0):.3f}",
            f"{found['two_processes']['jobs_per_second']:,.0f}",
            f"{drained['worker_cpu_us']:.1f}",
            f"{drained.get('redis_cpu_us', 0):.1f}",
            *(f"{bare.get(each, 0):.2f}" for each in ("p50", "p99")),
            *(f"{pick[each]:.2f}" for each in ("p50", "p99")),
            *(f"{pick[each] / bare[each]:.2f}" if bare else "" for each in ("p50", "p99")),
            f"{late['p50']:,.0f}",
            f"{late['max']:,.0f}",
        ]
        print("".join(f"{cell:>13}" for cell in cells))


async def measure(places: list[Contender], quick: bool, say: Say) -> ByStore:
    """Measure where a worker may be in another process: not in memory."""
    shared = [place for place in places if place.name != "memory"]
    return await measure_all(shared, QUICK if quick else FULL, say)


if __name__ == "__main__":
    run(__doc__, measure, dict, show)
