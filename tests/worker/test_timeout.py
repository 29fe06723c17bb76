"""A handler is stopped at its time-out; the attempt failed, and it keeps its capacity until it has really ended."""

import asyncio
import threading

import pytest

from headrace.model.clock import ManualClock
from headrace.model.job import State
from headrace.model.outcome import JobError
from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker import runner as runner_module
from headrace.worker.context import current
from headrace.worker.events import CallbackRaised, HandlerStuck, JobsFinished
from headrace.worker.handlers import handler_of
from tests.worker import process_handlers
from tests.worker.support import (
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

TIMED_OUT = JobError("TimedOut", "the handler was still running after its 0.05 s")


async def test_a_handler_that_takes_too_long_is_cancelled_and_tried_again(store: Store) -> None:
    """Q36, T27, Q41: a time-out is a failed attempt, like any other; nothing else counts it."""
    ends, recorder = [], EventRecorder()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(current().attempt)

    await store.jobs.enqueue([job("a", "slow", timeout_ms=50, max_attempts=3, backoff_ms=0)])
    worker = await run_until_idle(store, build_handlers(slow=slow), recorder)

    assert ends == [1, 2, 3]
    [dead_letter] = await dead_letters(store)
    assert (dead_letter.reason, dead_letter.error) == ("attempts", TIMED_OUT)
    assert (dead_letter.record.attempts, dead_letter.record.stalls) == (3, 0)
    assert recorder.of_type(CallbackRaised) == []
    assert worker.health().totals.retried == 2


async def test_a_handler_within_its_time_is_left_alone(store: Store) -> None:
    """Q36: and so is one without a limit."""
    gate = asyncio.Event()

    async def work() -> int | None:
        asyncio.get_running_loop().call_later(0.05, gate.set)
        await gate.wait()
        return current().remaining_ms

    await store.jobs.enqueue([job("a", timeout_ms=60_000), job("b", timeout_ms=0)])
    await run_until_idle(store, build_handlers(work=work))

    results = [
        finished_job.result or b"" for id in "ab" if (finished_job := (await find(store, id)).finished_job) is not None
    ]
    assert 0 < int(results[0]) < 60_000
    assert results[1] == b""


async def test_the_others_go_on_while_one_is_timed_out(store: Store) -> None:
    """Q36: a time-out concerns that job alone."""

    async def slow() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        return

    await store.jobs.enqueue([job("slow", "slow", timeout_ms=50, max_attempts=1)])
    await store.jobs.enqueue(jobs(50))
    worker = await run_until_idle(store, build_handlers(slow=slow, work=work), capacity=2)

    assert (worker.health().totals.done, worker.health().totals.dead) == (50, 1)


async def test_a_process_is_killed_and_replaced_at_its_time_out(store: Store) -> None:
    """Q36, TB7: nothing of it runs on beside the next attempt, and the next job has a process again."""
    async with process_handlers.Caller().open() as caller, asyncio.timeout(SOON_S):
        await store.jobs.enqueue(
            [
                job("a", "hangs", payload=b'{"port":%d}' % caller.port, timeout_ms=1_500, max_attempts=1),
                job("b", "name"),
            ]
        )
        handlers = build_handlers(
            hangs=handler_of("hangs", process_handlers.hangs, process=True),
            name=handler_of("name", process_handlers.name, process=True),
        )
        await run_until_idle(store, handlers, pool_size=1)
        await caller.gone.wait()

    [dead_letter] = await dead_letters(store)
    assert dead_letter.error.cls == "TimedOut"
    assert (await find(store, "b")).state is State.DONE


async def test_a_coroutine_that_swallows_its_cancellation_and_returns_is_done(store: Store) -> None:
    """Q36: a late result counts."""

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    await store.jobs.enqueue([job("a", timeout_ms=50)])
    await run_until_idle(store, build_handlers(work=work))

    finished_job = (await find(store, "a")).finished_job
    assert finished_job is not None
    assert finished_job.result == b'"late"'


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_a_handler_that_ignores_its_end_keeps_capacity_and_lease_and_is_reported(
    timed: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Q36, TB7, T32: while it runs here, it starts nowhere else, and it is reported as stuck."""
    monkeypatch.setattr(runner_module, "REMIND_SECONDS", 0.05)
    flaky, recorder, gate, release = FaultyStore(timed), EventRecorder(), asyncio.Event(), threading.Event()

    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("at last")

    def plain() -> None:
        release.wait(SOON_S)

    await flaky.jobs.enqueue([job("a", timeout_ms=50, max_attempts=1)])
    handlers = build_handlers(work=plain if mode == "thread" else stubborn)
    worker = build_worker(flaky, handlers, recorder, lease="3s", heartbeat="20ms", capacity=1)
    async with worker:
        wedged = await recorder.wait_for(HandlerStuck)
        for _ in range(3):
            await flaky.called("extend", flaky.calls["extend"] + 2)
            clock.advance(2_000)
        other = await run_until_idle(timed, build_handlers(work=stubborn), name="worker-2")
        health = worker.health()
        gate.set()
        release.set()
        await recorder.wait_for(JobsFinished)

    assert (wedged.claim.record.id, wedged.stop) == ("a", "timeout")
    assert (health.free, [running.stop for running in health.running]) == (0, ["timeout"])
    assert other.health().totals.claimed == 0
    [dead_letter] = await dead_letters(timed)
    assert (dead_letter.error, dead_letter.record.stalls) == (TIMED_OUT, 0)


async def test_a_coroutine_that_swallowed_one_cancellation_is_cancelled_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TB7: a stray `except` does not make a handler immortal."""
    monkeypatch.setattr(runner_module, "REMIND_SECONDS", 0.02)
    swallowed = []

    async def work() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append(1)
        await asyncio.Event().wait()

    await store.jobs.enqueue([job("a", timeout_ms=50, max_attempts=1)])
    await run_until_idle(store, build_handlers(work=work))

    assert len(swallowed) == 2
    assert [dead_letter.error for dead_letter in await dead_letters(store)] == [TIMED_OUT]


async def test_a_time_limit_covers_the_middleware(store: Store) -> None:
    """T27: the time-out lies around all of it."""

    async def stuck(_: object, __: object) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        return

    await store.jobs.enqueue([job("a", timeout_ms=50, max_attempts=1)])
    await run_until_idle(store, build_handlers(work=work), middleware=[stuck])

    assert [dead_letter.error for dead_letter in await dead_letters(store)] == [TIMED_OUT]
