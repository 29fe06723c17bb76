"""A worker has so many units, and never has more in hand than it can start."""

import asyncio
import threading

import pytest

from headrace.model.errors import BadConfig
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.stores.contract.store import Store
from headrace.worker.events import JobsClaimed, JobsFinished
from headrace.worker.handlers import handler_of
from tests.worker.support import (
    MAIL,
    SOON_S,
    EventRecorder,
    build_handlers,
    build_worker,
    dead_letters,
    find,
    job,
    jobs,
    run_until_idle,
)

REPORTS = Queue("reports")


class Meter:
    """Counts the handlers that run at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.runs = 0

    async def work(self, units: int = 1) -> None:
        """Take so many units for a few turns of the loop."""
        self.runs += 1
        self.now += units
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= units


async def test_no_more_runs_at_once_than_the_capacity_says(store: Store) -> None:
    """Q35, T24: concurrency is bounded, and used."""
    meter = Meter()
    await store.jobs.enqueue(jobs(100))

    await run_until_idle(store, build_handlers(work=meter.work), capacity=7)

    assert meter.runs == 100
    assert meter.most == 7


@pytest.mark.parametrize(
    ("count", "weight"), [(5, 10), (20, 2), (2_000, 1)], ids=["5-of-10-units", "20-of-2", "2000-of-1"]
)
async def test_jobs_of_any_weight_all_finish(store: Store, count: int, weight: int) -> None:
    """Q35, QB11: a full worker goes on with the queue as soon as there is room; no job is left behind."""
    meter = Meter()

    async def heavy() -> None:
        await meter.work(weight)

    handlers = build_handlers(work=handler_of("work", heavy, weight=weight))
    for at in range(0, count, 1_000):
        await store.jobs.enqueue(jobs(count)[at : at + 1_000])
    worker = await run_until_idle(store, handlers, capacity=10)

    assert meter.runs == count
    assert meter.most == 10
    assert worker.health().totals.done == count
    assert worker.health().free == 10


async def test_heavy_and_light_jobs_side_by_side_all_finish_within_the_units(store: Store) -> None:
    """QB11: a heavy job is not starved by light ones, nor the other way round."""
    meter = Meter()

    async def heavy() -> None:
        await meter.work(10)

    async def light() -> None:
        await meter.work()

    def plain() -> None:
        return

    handlers = build_handlers(heavy=handler_of("heavy", heavy, weight=10), light=light)
    handlers.register(handler_of("plain", plain, weight=3), REPORTS)
    await store.jobs.enqueue([job(str(n), "heavy" if n % 3 == 2 else "light") for n in range(90)])
    await store.jobs.enqueue([job(f"{n}-plain", "plain", queue=REPORTS) for n in range(30)])
    worker = await run_until_idle(store, handlers, capacity=10)

    assert worker.health().totals.done == 120
    assert meter.most <= 10


async def test_a_job_heavier_than_the_worker_is_refused_at_the_start(store: Store) -> None:
    """Q35: a job that could never start is refused before anything is claimed."""

    async def work() -> None:
        return

    with pytest.raises(BadConfig, match="weighs 11 units and the worker has 10"):
        build_worker(store, build_handlers(work=handler_of("work", work, weight=11)), capacity=10)


async def test_a_full_worker_claims_nothing_that_would_have_to_wait(store: Store) -> None:
    """TB1: claimed jobs start at once; the others stay in the store for other workers."""
    gate, recorder = asyncio.Event(), EventRecorder()
    started = []

    async def work() -> None:
        started.append(1)
        await gate.wait()

    await store.jobs.enqueue(jobs(10))
    worker = build_worker(store, build_handlers(work=work), recorder, capacity=3)
    async with worker, asyncio.timeout(SOON_S):
        await recorder.wait_for(JobsClaimed, lambda _: worker.health().free == 0)
        counts = await store.queues.counts(MAIL)
        other = await run_until_idle(store, build_handlers(work=_nothing), name="worker-2")
        gate.set()

    assert (counts.active, counts.waiting) == (3, 7)
    assert len(started) == 3
    assert other.health().totals.done == 7


async def _nothing() -> None:
    return


async def test_no_more_plain_functions_are_claimed_than_there_are_threads(store: Store) -> None:
    """TB1: a job does not sit claimed before a pool that is full."""
    gate, recorder = threading.Event(), EventRecorder()
    started = []

    def plain() -> None:
        started.append(1)
        gate.wait(SOON_S)

    await store.jobs.enqueue([*jobs(10, "plain")])
    await store.jobs.enqueue([job("light", "light", queue=REPORTS)])
    handlers = build_handlers(plain=plain)
    handlers.register(handler_of("light", _nothing), REPORTS)
    worker = build_worker(store, handlers, recorder, capacity=100, threads=2)
    async with worker:
        # Other lanes go on meanwhile.
        await recorder.wait_for(JobsFinished, lambda it: it.answers[0].id == "light")
        await recorder.wait_for(JobsClaimed, lambda _: worker.health().free <= 98)
        counts = await store.queues.counts(MAIL)
        gate.set()
        await recorder.wait_for(JobsFinished, lambda _: worker.health().totals.done == 11)

    assert (counts.active, counts.waiting) == (2, 8)
    assert len(started) == 10


async def test_capacity_is_exact_after_time_outs(store: Store) -> None:
    """QB15: the units of a job are freed once, whatever its outcome."""
    cancelled = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)

    meter = Meter()
    handlers = build_handlers(slow=handler_of("slow", slow, weight=3), work=meter.work)
    await store.jobs.enqueue([job(f"slow-{n}", "slow", timeout_ms=20, max_attempts=1) for n in range(9)])
    await store.jobs.enqueue(jobs(60))
    worker = await run_until_idle(store, handlers, capacity=10)

    assert len(cancelled) == 9
    assert worker.health().free == 10
    assert (meter.runs, worker.health().totals.dead) == (60, 9)


async def test_the_same_id_in_two_queues_is_two_jobs(store: Store) -> None:
    """QB15: deliveries of one worker are distinguished by more than their id."""
    both, recorder = asyncio.Event(), EventRecorder()
    running = []

    async def work(where: str) -> str:
        running.append(where)
        if len(running) == 2:
            both.set()
        await both.wait()
        return where

    async def fail() -> None:
        raise ValueError("on reports")

    handlers = build_handlers(MAIL, REPORTS, work=work, fail=fail)
    await store.jobs.enqueue([job("a", payload=b'{"where":"mail"}'), job("b")])
    await store.jobs.enqueue(
        [job("a", payload=b'{"where":"reports"}', queue=REPORTS), job("b", "fail", queue=REPORTS, max_attempts=1)]
    )
    worker = await run_until_idle(store, handlers, recorder)

    results = [(await find(store, "a", queue)).finished_job for queue in (MAIL, REPORTS)]
    assert [finished_job.result for finished_job in results if finished_job is not None] == [b'"mail"', b'"reports"']
    assert (await find(store, "b", MAIL)).state is State.DEAD
    assert [dead_letter.error for dead_letter in await dead_letters(store, REPORTS)] == [
        JobError("ValueError", "on reports")
    ]
    assert worker.health().free == worker.settings.capacity
