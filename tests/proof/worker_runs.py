"""Runs that kill, stop and block real workers on real stores; each returns the events of the journal."""

import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.events import JobsFinished, WorkerEvent
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker
from tests.proof.worker_program import QUEUE, hold_the_gil
from tests.support.stores import SHARED_URLS, STORES

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60


class Figures(Struct):
    """What a run found: events of the journal by name, and how long the part took that counts."""

    events: Counter[str]
    seconds: float = 0.0
    exit_code: int | None = None
    attempts: int = 0
    stalls: int = 0
    orphans: int = 0


async def events_of(store: Store, queue: Queue = QUEUE) -> Counter[str]:
    """How often what happened, by the journal."""
    found: Counter[str] = Counter()
    for shard in queue.all_shards():
        last = (await store.journal.bounds(shard)).last_seq
        for entry in await store.journal.read(shard, after=0, upto=last):
            found.update(event.line.event for event in entry.events(shard))
    return found


async def enqueue(store: Store, kinds: Sequence[str], payload: bytes = b"{}") -> list[str]:
    """One job of each given kind, named by its position."""
    jobs = [Job(queue=QUEUE, id=f"{kind}-{at}", kind=kind, payload=payload) for at, kind in enumerate(kinds)]
    await store.jobs.enqueue(jobs)
    return [job.id for job in jobs]


@asynccontextmanager
async def program(url: str, lease_ms: int, grace_ms: int, *more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process, killed at the end of the block if it still runs."""
    words = [sys.executable, "-m", "tests.proof.worker_program", url, str(lease_ms), str(grace_ms), *more]
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines(process: asyncio.subprocess.Process, word: str, number: int) -> list[list[str]]:
    """Wait for so many lines that begin with a word."""
    assert process.stdout is not None
    found: list[list[str]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < number:
            line = (await process.stdout.readline()).decode().split()
            assert line, f"the worker ended after {len(found)} of {number} lines '{word}'"
            if line[0] == word:
                found.append(line)
    return found


def is_there(pid: str) -> bool:
    """Whether a process lives."""
    return Path("/proc", pid).exists()


class Tally:
    """Counts the settlements of a worker, and wakes waiters for a number."""

    def __init__(self) -> None:
        self.done = 0
        self._changed = asyncio.Event()

    def __call__(self, notice: WorkerEvent) -> None:
        if isinstance(notice, JobsFinished):
            self.done += sum(answer.status == "done" for answer in notice.answers)
            self._changed.set()

    async def reached(self, number: int) -> None:
        """Wait until so many are done."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.done < number:
                self._changed.clear()
                await self._changed.wait()


async def kill(url: str, jobs: int, lease_ms: int) -> Figures:
    """Kill -9 a worker with jobs in hand while another one is idle; the seconds are those until all are done."""
    store = await open_store(url)
    await enqueue(store, ["hang"] * jobs)
    tally, handlers = Tally(), Handlers()

    async def hang() -> None:
        """Does here what it does not do there."""

    handlers.register(handler_of("hang", hang), QUEUE)
    config = WorkerConfig(capacity=jobs, lease=lease_ms / 1000)
    heir = Worker(store, handlers, config, reopen=lambda: open_store(url), listeners=[tally])
    async with program(url, lease_ms, 0) as victim:
        await lines(victim, "began", jobs)
        async with heir:
            victim.send_signal(signal.SIGKILL)
            killed_at = time.monotonic()
            await tally.reached(jobs)
            seconds = time.monotonic() - killed_at
    figures = Figures(await events_of(store), seconds)
    await store.close()
    return figures


async def terminate(url: str, kinds: Sequence[str], grace_ms: int, signals: int = 1) -> Figures:
    """SIGTERM a worker with jobs in hand, once or twice; the seconds are those until it has ended."""
    store = await open_store(url)
    ids = await enqueue(store, kinds)
    async with program(url, 10_000, grace_ms) as process:
        began = await lines(process, "began", len(kinds))
        asked_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        if signals > 1:
            await lines(process, "stopping", 1)
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            exit_code = await process.wait()
        seconds = time.monotonic() - asked_at
    records = [found.record for found in await store.reads.find(QUEUE, ids) if found is not None and found.record]
    figures = Figures(
        await events_of(store),
        seconds,
        exit_code,
        sum(record.attempts for record in records),
        sum(record.stalls for record in records),
        sum(is_there(pid) for _, _, pid in began),
    )
    await store.close()
    return figures


async def block(url: str, seconds: float, lease_ms: int, *, in_a_process: bool) -> Figures:
    """One handler lets nothing else run for longer than the lease, in the worker's loop or, holding the GIL, in a
    process; its neighbours wait for it, and the repair of another worker would take back what is not extended."""
    store = await open_store(url)
    neighbours = [f"neighbour-{at}" for at in range(10)]
    tally, handlers, is_over = Tally(), Handlers(), asyncio.Event()

    async def neighbour() -> None:
        await is_over.wait()

    async def blocker() -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - the very thing that must do no harm
        is_over.set()

    handlers.register(handler_of("neighbour", neighbour), QUEUE)
    blocking = handler_of("blocker", hold_the_gil, process=True) if in_a_process else handler_of("blocker", blocker)
    handlers.register(blocking, QUEUE)
    config = WorkerConfig(lease=lease_ms / 1000, pool_size=1, capacity=20)
    worker = Worker(store, handlers, config, reopen=lambda: open_store(url), listeners=[tally])
    await store.jobs.enqueue([Job(queue=QUEUE, id=id, kind="neighbour", payload=b"{}") for id in neighbours])
    payload = f'{{"seconds": {seconds}}}'.encode() if in_a_process else b"{}"
    await store.jobs.enqueue([Job(queue=QUEUE, id="blocker", kind="blocker", payload=payload)])
    async with program(url, lease_ms, 0) as thief, worker:
        await lines(thief, "started", 1)
        if in_a_process:
            await tally.reached(1)
            is_over.set()
        await tally.reached(len(neighbours) + 1)
    figures = Figures(await events_of(store))
    await store.close()
    return figures


LEASE_MS = 5_000
STORE_NAMES = ("sqlite", "redis", "postgres")
EXPECTED = {
    "kill": Counter(enqueued=100, claimed=200, stalled=100, done=100),
    "terminate": Counter(enqueued=37, claimed=37, released=37),
    "block": Counter(enqueued=11, claimed=11, done=11),
    "hold": Counter(enqueued=11, claimed=11, done=11),
}


async def emptied(store_name: str, folder: Path) -> str:
    """The URL of a store that has nothing in it."""
    async with STORES[store_name](folder):
        return SHARED_URLS[store_name](folder)


async def run_workers(say: Callable[[str], None]) -> int:
    """Every run on every store at its full length; returns the number of wrong runs."""
    violations = 0
    for store_name in STORE_NAMES:
        for name, expected in EXPECTED.items():
            with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
                url = await emptied(store_name, Path(folder))
                match name:
                    case "kill":
                        figures = await kill(url, 100, LEASE_MS)
                        is_right = figures.seconds < LEASE_MS / 1000 + 2
                    case "terminate":
                        figures = await terminate(url, ["hang"] * 30 + ["stubborn"] * 5 + ["far_away"] * 2, 1_000)
                        is_right = not (figures.exit_code or figures.attempts or figures.stalls or figures.orphans)
                    case _:
                        in_a_process = name == "hold"
                        seconds = 20.0 if in_a_process else 5.0
                        figures, is_right = await block(url, seconds, 2_000, in_a_process=in_a_process), True
            is_right = is_right and figures.events == expected
            violations += not is_right
            judgement = "as it must be" if is_right else f"VIOLATION, expected {dict(expected)}"
            say(f"workers: {name} on {store_name}: {dict(figures.events)}, {figures.seconds:.1f} s: {judgement}")
    return violations
