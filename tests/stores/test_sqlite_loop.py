"""Short writes of the SQLite store run on the event loop itself, and none of them makes it wait."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.sqlite.connection_thread import REST, SLOW_SECONDS, ConnectionThread, LoopWriter, Mode, Occupied
from headrace.stores.sqlite.store import SqliteStore

QUEUE = Queue("mail", "acme")
LOCKED_SECONDS = 0.5


class ThreadClock(SystemClock):
    """Records the thread in which a store reads the time, which it does inside each step."""

    def __init__(self) -> None:
        self.threads: list[bool] = []

    def now_ms(self) -> int:
        self.threads.append(threading.current_thread() is threading.main_thread())
        return super().now_ms()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "headrace.db")


def job(id: str, payload: bytes = b"1") -> Job:
    return new_job(QUEUE, "send", payload, fresh_id=id, id=id)


def size_of(path: str) -> int:
    return Path(path).stat().st_size


async def open_store(path: str, profile: str = "fast") -> tuple[SqliteStore, ThreadClock]:
    """A store after its first writes, with the clock that records the thread of the next ones."""
    clock = ThreadClock()
    store = await SqliteStore.open(path, profile=profile, clock=clock)
    await store.jobs.enqueue([job("first")])
    await store.jobs.enqueue([job("second")])
    clock.threads.clear()
    return store, clock


async def test_short_writes_of_a_fast_file_run_on_the_event_loop(path: str) -> None:
    store, clock = await open_store(path)

    await store.jobs.enqueue([job("a")])
    claims = await store.jobs.claim(ClaimRequest(queues=[QUEUE], worker="worker-1", nonce="nonce-000001", limit=3))
    await store.jobs.settle([claim.settle(Done()) for claim in claims.items])
    await store.close()

    assert clock.threads == [True, True, True]


async def test_writes_of_a_durable_file_run_on_the_thread_of_the_writer(path: str) -> None:
    """Each of their commits waits for the disk."""
    store, clock = await open_store(path, "durable")

    await store.jobs.enqueue([job("a")])
    await store.close()

    assert clock.threads == [False]


@pytest.mark.parametrize(
    "jobs",
    [[job(f"job-{number}") for number in range(501)], [job("large", b"x" * 200_000)]],
    ids=["many jobs", "a large one"],
)
async def test_a_long_write_runs_on_the_thread_and_a_short_one_soon_on_the_loop_again(
    path: str, jobs: list[Job]
) -> None:
    store, clock = await open_store(path)

    await store.jobs.enqueue(jobs)
    await store.jobs.enqueue([job("after the long write")])
    await store.jobs.enqueue([job("soon")])
    await store.close()

    assert clock.threads == [False, False, True]


async def test_claims_of_large_jobs_go_to_the_thread_after_the_first(path: str) -> None:
    """Their size is unknown before the first of them."""
    store, clock = await open_store(path)
    for number in range(0, 120, 40):
        await store.jobs.enqueue([job(f"job-{number + each}", b"x" * 200_000) for each in range(40)])
    await store.jobs.enqueue([job("last")])
    clock.threads.clear()

    for number in range(5):
        await store.jobs.claim(ClaimRequest(queues=[QUEUE], worker="worker-1", nonce=f"nonce-{number:06}", limit=41))
    await store.close()

    assert False in clock.threads


async def test_a_lock_of_another_process_never_holds_up_the_event_loop(path: str) -> None:
    store, clock = await open_store(path)
    loop = asyncio.get_running_loop()
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(loop.time())
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(store.jobs.enqueue([job(f"job-{number}")])) for number in range(3)]
        await asyncio.wait(waiting, timeout=LOCKED_SECONDS)
        done = [call.done() for call in waiting]
        other.execute("ROLLBACK")
    answers = [(await call)[0].status for call in waiting]
    ticking.cancel()
    await store.close()

    gaps = [after - before for before, after in pairwise(ticks)]
    assert done == [False, False, False]
    assert answers == ["created", "created", "created"]
    assert clock.threads == [False, False, False]
    assert len(ticks) > 5
    assert max(gaps) < LOCKED_SECONDS / 2


async def test_a_caller_that_only_enqueues_lets_other_tasks_run(path: str) -> None:
    store, _ = await open_store(path)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for number in range(20):
        await store.jobs.enqueue([job(f"job-{number}")])
    counting.cancel()
    await store.close()

    assert turns >= 20


async def test_the_thread_checkpoints_the_log_of_short_writes(path: str) -> None:
    store, clock = await open_store(path)
    longest = 0

    for number in range(1_500):
        await store.jobs.enqueue([job(f"job-{number}", b"x" * 30_000)])
        longest = max(longest, size_of(path + "-wal"))
    await store.close()

    assert longest < 32 * 1024 * 1024, "45 MB were written"
    assert 2 <= clock.threads.count(False) < 100


async def test_after_a_slow_call_the_thread_writes_for_a_while(path: str) -> None:
    """The cause, such as a busy disk, may be there for a while."""
    now = 100.0
    thread = ConnectionThread("writer", lambda: sqlite3.connect(path, check_same_thread=False))
    writer = LoopWriter(thread, "fast", lambda: now)

    def take(seconds: float) -> str:
        nonlocal now
        now += seconds
        return "written"

    await thread.run(lambda connection: take(0))
    writer.thread_mode(is_short=True)
    quick = writer.write(lambda connection: take(SLOW_SECONDS / 2), 1, 1)
    slow = writer.write(lambda connection: take(SLOW_SECONDS * 2), 1, 1)
    with pytest.raises(Occupied):
        writer.write(lambda connection: take(0), 1, 1)
    modes = [writer.thread_mode(is_short=True) for _ in range(3)]
    now += REST * SLOW_SECONDS * 2 + 1
    with pytest.raises(Occupied):
        writer.write(lambda connection: take(0), 1, 1)
    last = writer.thread_mode(is_short=True)
    rested = writer.write(lambda connection: take(0), 1, 1)
    await thread.close()

    assert [quick, slow, rested] == ["written", "written", "written"]
    assert (modes, last) == ([Mode.CHECKPOINT] * 3, Mode.APPEND)


def test_threads_with_loops_of_their_own_may_share_a_store(path: str) -> None:
    store, _ = asyncio.run(open_store(path))
    failures: list[BaseException] = []

    async def send(name: str) -> None:
        for number in range(100):
            await store.jobs.enqueue([job(f"{name}-{number}")])

    def run(name: str) -> None:
        try:
            asyncio.run(send(name))
        except BaseException as failure:  # noqa: BLE001 - the test shows it
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def count_and_close() -> int:
        waiting = (await store.queues.counts(QUEUE)).waiting
        await store.close()
        return waiting

    assert failures == []
    assert asyncio.run(count_and_close()) == 302
