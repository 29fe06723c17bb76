"""The health of a worker proves that it consumes."""

import asyncio
import logging
import threading

import pytest

from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker.events import JobsClaimed, JobsFinished, WorkerEvent
from headrace.worker.health import find_problem
from headrace.worker.log_format import JOB_LOG
from tests.worker.support import (
    SOON_S,
    EventRecorder,
    build_handlers,
    build_worker,
    dead_letters,
    job,
    jobs,
    run_until_idle,
)


async def _nothing() -> None:
    return


async def test_a_worker_whose_claims_are_answered_is_well(flaky: FaultyStore) -> None:
    """Q39: idle or not."""
    async with build_worker(flaky, build_handlers(work=_nothing)) as worker, asyncio.timeout(SOON_S):
        await flaky.called("claim", 2)
        health = worker.health()

    assert (health.ok, health.why, health.state) == (True, "", "running")
    assert health.claimed_ms_ago is not None
    assert health.beaten_ms_ago is not None


async def test_a_worker_whose_claims_are_not_answered_is_not_well(flaky: FaultyStore) -> None:
    """TB6: a process that lives and does nothing is found."""
    hold = flaky.hold("claim")

    async with build_worker(flaky, build_handlers(work=_nothing)) as worker:
        await flaky.called("claim", 1)
        health = worker.health()
        hold.release()

    assert not health.ok
    assert health.why == "no claim was answered for the whole time; does the store answer, or is the loop blocked?"


@pytest.mark.parametrize("is_plain", [False, True], ids=["units", "threads"])
async def test_a_worker_that_is_full_is_well_though_it_does_not_ask(store: Store, is_plain: bool) -> None:
    """Q39: a worker without free units or threads is consuming all the same."""
    gate, recorder, release = asyncio.Event(), EventRecorder(), threading.Event()

    async def work() -> None:
        await gate.wait()

    def plain() -> None:
        release.wait(SOON_S)

    await store.jobs.enqueue(jobs(10))
    handlers = build_handlers(work=plain if is_plain else work)
    worker = build_worker(store, handlers, recorder, capacity=100 if is_plain else 2, threads=2)
    async with worker:
        await recorder.wait_for(JobsClaimed, lambda _: worker.health().totals.claimed == 2)
        crew = worker._runtime
        assert crew is not None  # it runs
        is_full = crew.claimer.is_full
        gate.set()
        release.set()
        await recorder.wait_for(JobsFinished, lambda _: worker.health().totals.done == 10)

    assert is_full
    assert not crew.claimer.is_full


@pytest.mark.parametrize(
    ("state", "is_full", "claimed_ms_ago", "beaten_ms_ago", "why"),
    [
        ("running", False, 5_000, 5_000, ""),
        ("running", False, 21_001, 5_000, "no claim was answered for 21.0 s; does the store answer"),
        ("running", True, 999_000, 5_000, ""),
        ("running", False, None, 5_000, "no claim was answered for the whole time"),
        ("running", True, 5_000, 30_001, "leases were not extended for 30.0 s; does the store answer?"),
        ("running", True, 5_000, None, "leases were not extended for the whole time"),
        ("new", False, None, None, "the worker is new"),
        ("stopping", False, 5, 5, "the worker is stopping"),
    ],
)
def test_problems_are_described_in_words(
    state: str, is_full: bool, claimed_ms_ago: int | None, beaten_ms_ago: int | None, why: str
) -> None:
    found = find_problem(state, is_full, claimed_ms_ago, beaten_ms_ago, poll_ms=10_000, lease_ms=30_000)  # type: ignore[arg-type]

    assert found.startswith(why)
    assert bool(found) == bool(why)


async def test_health_may_be_read_from_another_thread_while_the_loop_is_blocked(store: Store) -> None:
    """Q39: a probe must not depend on the loop that it checks."""
    is_read, seen = threading.Event(), []

    def probe() -> None:
        is_read.wait(SOON_S)
        seen.append(worker.health())
        is_read.clear()

    async def blocking() -> None:
        is_read.set()
        thread.join(SOON_S)  # the loop stands still until the probe has its answer

    await store.jobs.enqueue([job("a", "blocking")])
    worker = build_worker(store, build_handlers(blocking=blocking))
    thread = threading.Thread(target=probe)
    thread.start()
    async with asyncio.timeout(SOON_S):
        await worker.run(until_idle=True)

    assert [running.id for running in seen[0].running] == ["a"]


async def test_a_worker_that_has_not_run_or_has_ended_says_so(store: Store) -> None:
    new = build_worker(store, build_handlers(work=_nothing)).health()
    over = (await run_until_idle(store, build_handlers(work=_nothing))).health()

    assert (new.ok, new.why) == (False, "the worker is new")
    assert (over.ok, over.why) == (False, "the worker is stopped")


async def test_totals_count_what_became_of_deliveries(store: Store) -> None:
    """Q39: by outcome."""

    async def bad() -> None:
        raise ValueError("no")

    await store.jobs.enqueue([job("a"), job("b", "bad"), job("c", "bad", max_attempts=1), job("d", "what")])
    worker = await run_until_idle(store, build_handlers(work=_nothing, bad=bad))

    totals = worker.health().totals
    assert (totals.claimed, totals.done, totals.retried, totals.dead) == (4, 1, 1, 2)


class BrokenFilter(logging.Filter):
    """A user's own filter for secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise ValueError(f"no {record.levelname} today")


async def test_a_log_that_raises_does_no_harm(store: Store) -> None:
    """Q39: a job whose error cannot be logged ends all the same, with its error."""
    recorder, broken = EventRecorder(), BrokenFilter()

    async def bad() -> None:
        raise KeyError("user")

    def deaf(_: WorkerEvent) -> None:
        raise ValueError("deaf")

    await store.jobs.enqueue([job("a", "bad", max_attempts=1)])
    JOB_LOG.addFilter(broken)
    try:
        worker = await run_until_idle(store, build_handlers(bad=bad), deaf, recorder)
    finally:
        JOB_LOG.removeFilter(broken)

    assert [dead_letter.error.cls for dead_letter in await dead_letters(store)] == ["KeyError"]
    assert len(recorder.of_type(JobsFinished)) == 1
    assert worker.health().free == worker.settings.capacity


async def test_a_listener_that_raises_does_no_harm(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Q39: neither to the worker nor to the listeners after it."""
    recorder = EventRecorder()

    def broken(_: WorkerEvent) -> None:
        raise ValueError("deaf")

    await store.jobs.enqueue(jobs(3))
    worker = await run_until_idle(store, build_handlers(work=_nothing), broken, recorder)

    assert worker.health().totals.done == 3
    assert len(recorder.of_type(JobsFinished)) >= 1
    assert "a listener failed on JobsFinished" in caplog.text
