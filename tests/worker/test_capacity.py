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
from tests.worker.support import MAIL, SOON_S, Ear, dead_letters, find, handling, job, jobs, work_off, worker_of

REPORTS = Queue("reports")


class Meter:
    """Counts what runs at once."""

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

    await work_off(store, handling(work=meter.work), capacity=7)

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

    handlers = handling(work=handler_of("work", heavy, weight=weight))
    for at in range(0, count, 1_000):
        await store.jobs.enqueue(jobs(count)[at : at + 1_000])
    worker = await work_off(store, handlers, capacity=10)

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

    handlers = handling(heavy=handler_of("heavy", heavy, weight=10), light=light)
    handlers.register(handler_of("plain", plain, weight=3), REPORTS)
    await store.jobs.enqueue([job(str(n), "heavy" if n % 3 == 2 else "light") for n in range(90)])
    await store.jobs.enqueue([job(f"{n}-plain", "plain", queue=REPORTS) for n in range(30)])
    worker = await work_off(store, handlers, capacity=10)

    assert worker.health().totals.done == 120
    assert meter.most <= 10


async def test_a_job_heavier_than_the_worker_is_refused_at_the_start(store: Store) -> None:
    """Q35: what could never be started is found before anything is claimed."""

    async def work() -> None:
        return

    with pytest.raises(BadConfig, match="weighs 11 units and the worker has 10"):
        worker_of(store, handling(work=handler_of("work", work, weight=11)), capacity=10)


async def test_a_full_worker_claims_nothing_that_would_have_to_wait(store: Store) -> None:
    """TB1: what is claimed starts at once; the rest stays in the store for others."""
    gate, ear = asyncio.Event(), Ear()
    started = []

    async def work() -> None:
        started.append(1)
        await gate.wait()

    await store.jobs.enqueue(jobs(10))
    worker = worker_of(store, handling(work=work), ear, capacity=3)
    async with worker, asyncio.timeout(SOON_S):
        await ear.hear(JobsClaimed, lambda _: worker.health().free == 0)
        counts = await store.queues.counts(MAIL)
        other = await work_off(store, handling(work=_nothing), name="worker-2")
        gate.set()

    assert (counts.active, counts.waiting) == (3, 7)
    assert len(started) == 3
    assert other.health().totals.done == 7


async def _nothing() -> None:
    return


async def test_no_more_plain_functions_are_claimed_than_there_are_threads(store: Store) -> None:
    """TB1: a job does not sit claimed before a pool that is full."""
    gate, ear = threading.Event(), Ear()
    started = []

    def plain() -> None:
        started.append(1)
        gate.wait(SOON_S)

    await store.jobs.enqueue([*jobs(10, "plain")])
    await store.jobs.enqueue([job("light", "light", queue=REPORTS)])
    handlers = handling(plain=plain)
    handlers.register(handler_of("light", _nothing), REPORTS)
    worker = worker_of(store, handlers, ear, capacity=100, threads=2)
    async with worker:
        # Other lanes go on meanwhile.
        await ear.hear(JobsFinished, lambda it: it.answers[0].id == "light")
        await ear.hear(JobsClaimed, lambda _: worker.health().free <= 98)
        counts = await store.queues.counts(MAIL)
        gate.set()
        await ear.hear(JobsFinished, lambda _: worker.health().totals.done == 11)

    assert (counts.active, counts.waiting) == (2, 8)
    assert len(started) == 10


async def test_capacity_is_exact_after_time_outs(store: Store) -> None:
    """QB15: what a job took is given back once, however it ended."""
    cancelled = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)

    meter = Meter()
    handlers = handling(slow=handler_of("slow", slow, weight=3), work=meter.work)
    await store.jobs.enqueue([job(f"slow-{n}", "slow", timeout_ms=20, max_attempts=1) for n in range(9)])
    await store.jobs.enqueue(jobs(60))
    worker = await work_off(store, handlers, capacity=10)

    assert len(cancelled) == 9
    assert worker.health().free == 10
    assert (meter.runs, worker.health().totals.dead) == (60, 9)


async def test_the_same_id_in_two_queues_is_two_jobs(store: Store) -> None:
    """QB15: deliveries of one worker are told apart by more than their id."""
    both, ear = asyncio.Event(), Ear()
    running = []

    async def work(where: str) -> str:
        running.append(where)
        if len(running) == 2:
            both.set()
        await both.wait()
        return where

    async def fail() -> None:
        raise ValueError("on reports")

    handlers = handling(MAIL, REPORTS, work=work, fail=fail)
    await store.jobs.enqueue([job("a", payload=b'{"where":"mail"}'), job("b")])
    await store.jobs.enqueue(
        [job("a", payload=b'{"where":"reports"}', queue=REPORTS), job("b", "fail", queue=REPORTS, max_attempts=1)]
    )
    worker = await work_off(store, handlers, ear)

    results = [(await find(store, "a", queue)).finished_job for queue in (MAIL, REPORTS)]
    assert [finished_job.result for finished_job in results if finished_job is not None] == [b'"mail"', b'"reports"']
    assert (await find(store, "b", MAIL)).state is State.DEAD
    assert [dead_letter.error for dead_letter in await dead_letters(store, REPORTS)] == [
        JobError("ValueError", "on reports")
    ]
    assert worker.health().free == worker.settings.capacity
