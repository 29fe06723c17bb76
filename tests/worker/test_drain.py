"""A worker that is stopped claims no more, waits for handlers, and releases the other jobs uncharged."""

import asyncio
import os
import signal
import threading

import pytest

from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.outcome import Released
from headrace.stores.contract.store import Store
from headrace.testing.faults import DOWN, LOST, FaultyStore
from headrace.worker import fetch_loop
from headrace.worker import worker as worker_module
from headrace.worker.context import current
from headrace.worker.events import JobsClaimed, JobsFinished, LeaseLost, Lifecycle
from headrace.worker.handlers import handler_of
from headrace.worker.worker import Worker
from tests.worker import process_handlers
from tests.worker.support import (
    MAIL,
    SOON_S,
    EventRecorder,
    build_handlers,
    build_worker,
    find,
    job,
    jobs,
    run_until_idle,
)


class Gate:
    """A handler that waits for a gate, and records how it ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.open = asyncio.Event()
        self.ends: list[str] = []

    async def work(self) -> None:
        """Wait at the gate."""
        self.started.set()
        try:
            await self.open.wait()
            self.ends.append("passed")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise


async def begun(worker: Worker) -> "asyncio.Task[None]":
    """A worker at work."""
    task = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    return task


async def ended(task: "asyncio.Task[None]") -> None:
    """It must end soon."""
    async with asyncio.timeout(SOON_S):
        await task


async def uncharged(store: Store, id: str) -> bool:
    """Whether a job waits again and nothing was counted."""
    record = (await find(store, id)).record
    assert record is not None
    return (await find(store, id)).state is State.WAITING and record.attempts == record.stalls == 0


async def test_running_handlers_may_end_within_the_grace_and_nothing_new_is_claimed(store: Store) -> None:
    """T24, TB3: a stop is not a crash."""
    gate, recorder = Gate(), EventRecorder()
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=gate.work), recorder, poll="10ms")

    task = await begun(worker)
    await gate.started.wait()
    worker.stop()
    await recorder.wait_for(Lifecycle, lambda it: it.event == "stopping")
    await store.jobs.enqueue([job("b")])
    gate.open.set()
    await ended(task)

    assert gate.ends == ["passed"]
    assert [(await find(store, id)).state for id in "ab"] == [State.DONE, State.WAITING]


@pytest.mark.parametrize("grace_ms", [0, 60])
async def test_after_the_grace_handlers_are_cancelled_and_their_jobs_released_uncharged(
    store: Store, grace_ms: int
) -> None:
    """Q40, TB3: handlers are ended, their jobs wait again at once, and no attempt or stall is counted."""
    gate = Gate()
    await store.jobs.enqueue(jobs(3))
    worker = build_worker(store, build_handlers(work=gate.work))

    task = await begun(worker)
    await gate.started.wait()
    worker.stop(grace_ms)
    await ended(task)

    assert gate.ends == ["cancelled"] * 3
    assert [await uncharged(store, str(number)) for number in range(3)] == [True] * 3
    assert worker.health().totals.released == 3


async def test_stop_uses_the_grace_of_the_configuration_by_default(store: Store) -> None:
    """Q40: `grace` is how long handlers may go on."""
    gate = Gate()
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=gate.work), grace="30ms")

    task = await begun(worker)
    await gate.started.wait()
    worker.stop()
    await ended(task)

    assert await uncharged(store, "a")


@pytest.mark.parametrize("second_ms", [0, 50])
async def test_a_second_stop_shortens_the_grace(store: Store, second_ms: int) -> None:
    gate, recorder = Gate(), EventRecorder()
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=gate.work), recorder)

    task = await begun(worker)
    await gate.started.wait()
    worker.stop(3_600_000)
    await recorder.wait_for(Lifecycle, lambda it: it.event == "stopping")
    worker.stop(second_ms)
    await ended(task)

    assert await uncharged(store, "a")


async def test_a_second_stop_cannot_lengthen_the_grace(store: Store) -> None:
    gate = Gate()
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=gate.work))

    task = await begun(worker)
    await gate.started.wait()
    worker.stop(20)
    worker.stop(3_600_000)
    await ended(task)

    assert await uncharged(store, "a")


async def test_a_worker_may_be_stopped_from_another_thread(store: Store) -> None:
    gate, loop = Gate(), asyncio.get_running_loop()
    await store.jobs.enqueue([job("a")])
    # Nothing else is to wake the loop meanwhile.
    worker = build_worker(store, build_handlers(work=gate.work), poll="1h", repair="1h", lease="1h")

    task = await begun(worker)
    await gate.started.wait()
    began_at = loop.time()
    threading.Timer(0.05, worker.stop, [0]).start()
    await ended(task)

    assert worker.health().state == "stopped"
    assert loop.time() - began_at < SOON_S / 2
    worker.stop()  # and once more does no harm


async def test_a_handler_may_stop_its_worker(store: Store) -> None:
    workers: list[Worker] = []

    def plain() -> None:
        workers[0].stop()

    await store.jobs.enqueue([job("a", "plain")])
    workers.append(build_worker(store, build_handlers(plain=plain)))
    await ended(await begun(workers[0]))

    assert (await find(store, "a")).state is State.DONE


async def test_a_worker_that_was_stopped_before_it_ran_does_nothing(store: Store) -> None:
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=_nothing))

    worker.stop()
    await ended(await begun(worker))

    assert (await find(store, "a")).state is State.WAITING


async def _nothing() -> None:
    return


async def test_jobs_that_arrive_after_the_stop_are_released_unstarted(flaky: FaultyStore) -> None:
    """Q40, TB1: the answer to a claim that was under way is not lost, and not begun."""
    gate, recorder = Gate(), EventRecorder()
    held = flaky.hold("claim")
    await flaky.jobs.enqueue(jobs(4))
    worker = build_worker(flaky, build_handlers(work=gate.work), recorder)

    task = await begun(worker)
    await flaky.called("claim", 1)
    worker.stop()
    await recorder.wait_for(Lifecycle, lambda it: it.event == "stopping")
    held.release()
    await ended(task)

    assert not gate.started.is_set()
    assert [await uncharged(flaky, str(number)) for number in range(4)] == [True] * 4


async def test_a_claim_whose_answer_was_lost_is_repeated_before_the_end(flaky: FaultyStore) -> None:
    """Q40, TB4: jobs of a claim without an answer are found and released, and stall nowhere."""
    recorder = EventRecorder()
    flaky.lose("claim")
    await flaky.jobs.enqueue(jobs(4))
    worker = build_worker(flaky, build_handlers(work=_nothing), recorder)

    task = await begun(worker)
    await flaky.called("claim", 1)
    worker.stop(0)
    await ended(task)

    assert len(recorder.of_type(JobsClaimed)) == 1
    assert [await uncharged(flaky, str(number)) for number in range(4)] == [True] * 4


async def test_a_thread_that_checks_sees_that_it_should_stop(store: Store) -> None:
    """Q40, TB3: a plain function cannot be cancelled, but it can look."""
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def plain() -> None:
        loop.call_soon_threadsafe(started.set)
        while not current().is_stopping:
            threading.Event().wait(0.005)

    await store.jobs.enqueue([job("a", "plain")])
    worker = build_worker(store, build_handlers(plain=plain))
    task = await begun(worker)
    await started.wait()
    worker.stop(0)
    await ended(task)

    assert await uncharged(store, "a")


async def test_a_thread_that_does_not_end_is_abandoned_and_its_job_released(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q40: the job waits a moment, until the process is gone, and the worker ends all the same."""
    monkeypatch.setattr(worker_module, "END_SECONDS", 0.05)
    started, release, recorder = asyncio.Event(), threading.Event(), EventRecorder()
    loop = asyncio.get_running_loop()

    def plain() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(SOON_S)

    await store.jobs.enqueue([job("a", "plain")])
    worker = build_worker(store, build_handlers(plain=plain), recorder)
    task = await begun(worker)
    await started.wait()
    worker.stop(0)
    await ended(task)
    release.set()

    assert [lost.why for lost in recorder.of_type(LeaseLost)] == [
        "its handler could not be stopped; the job is released"
    ]
    [settlement] = [each for finished in recorder.of_type(JobsFinished) for each in finished.settlements]
    assert settlement.outcome == Released(1_000)
    assert await uncharged(store, "a")


async def test_a_process_is_killed_and_its_job_released(store: Store) -> None:
    """Q40: nothing of the worker is left."""
    async with process_handlers.Caller().open() as caller:
        payload = b'{"port":%d}' % caller.port
        await store.jobs.enqueue([job("a", "hangs", payload=payload)])
        worker = build_worker(
            store, build_handlers(hangs=handler_of("hangs", process_handlers.hangs, process=True)), pool_size=1
        )
        task = await begun(worker)
        async with asyncio.timeout(SOON_S):
            await caller.here.wait()
            worker.stop(0)
            await ended(task)
            await caller.gone.wait()

    assert await uncharged(store, "a")


async def test_a_handler_that_finishes_when_it_is_cancelled_has_finished(store: Store) -> None:
    started = asyncio.Event()

    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "just made it"
        return "never"

    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=work))
    task = await begun(worker)
    await started.wait()
    worker.stop(0)
    await ended(task)

    finished_job = (await find(store, "a")).finished_job
    assert finished_job is not None
    assert finished_job.result == b'"just made it"'


async def test_a_store_that_is_away_does_not_keep_a_worker_from_finished_job(
    flaky: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "SETTLE_SECONDS", 0.05)
    gate = Gate()
    await flaky.jobs.enqueue([job("a")])
    worker = build_worker(flaky, build_handlers(work=gate.work))

    task = await begun(worker)
    await gate.started.wait()
    flaky.is_down = True
    worker.stop(0)
    await ended(task)

    assert (await find(flaky.inner, "a")).state is State.ACTIVE


async def test_a_store_that_comes_back_in_time_gets_the_settlements(flaky: FaultyStore) -> None:
    """TB5: an outage at the end is waited for."""
    gate = Gate()
    await flaky.jobs.enqueue([job("a")])
    worker = build_worker(flaky, build_handlers(work=gate.work), poll="1h")

    task = await begun(worker)
    await flaky.called("wait", 1)
    for fault in (DOWN, LOST):
        flaky.fail("settle", error=fault)
    worker.stop(0)
    await ended(task)

    assert await uncharged(flaky, "a")


async def test_a_worker_that_ends_does_not_pause_for_long(flaky: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """TB5: the little time for the last settlements is used."""
    monkeypatch.setattr(fetch_loop, "PAUSE_MS", 60_000)
    monkeypatch.setattr(fetch_loop, "PAUSE_MS_MAX", 60_000)
    gate = Gate()
    await flaky.jobs.enqueue([job("a")])
    worker = build_worker(flaky, build_handlers(work=gate.work), poll="1h")

    task = await begun(worker)
    await flaky.called("wait", 1)
    flaky.fail("settle")
    worker.stop(0)
    await ended(task)

    assert await uncharged(flaky, "a")


async def test_cancelling_the_worker_releases_its_jobs(store: Store) -> None:
    """Q40: a cancelled worker ends at once, and releases its jobs uncharged."""
    gate = Gate()
    await store.jobs.enqueue([job("a")])
    task = await begun(build_worker(store, build_handlers(work=gate.work), grace="1h"))
    await gate.started.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(task)

    assert gate.ends == ["cancelled"]
    assert await uncharged(store, "a")


async def test_an_error_in_the_block_drains_the_worker_too(store: Store) -> None:
    gate = Gate()
    await store.jobs.enqueue([job("a")])

    with pytest.raises(Refused, match="enough"):
        await _fails_beside(build_worker(store, build_handlers(work=gate.work), grace="20ms"), gate)

    assert await uncharged(store, "a")


async def _fails_beside(worker: Worker, gate: Gate) -> None:
    async with worker:
        await gate.started.wait()
        raise Refused("enough", "enough")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_drains_and_the_second_ends_at_once(store: Store, number: signal.Signals) -> None:
    """Q40, T24: as a program that its host stops."""
    gate, recorder = Gate(), EventRecorder()
    await store.jobs.enqueue([job("a")])
    worker = build_worker(store, build_handlers(work=gate.work), recorder, grace="1h")

    task = asyncio.create_task(worker.run(signals=True))
    await gate.started.wait()
    os.kill(os.getpid(), number)
    await recorder.wait_for(Lifecycle, lambda it: it.event == "stopping")
    assert gate.ends == []
    os.kill(os.getpid(), number)
    await ended(task)

    assert gate.ends == ["cancelled"]
    assert await uncharged(store, "a")


async def test_all_events_are_emitted_from_start_to_stop(store: Store) -> None:
    """Q39, Q41: one event for each step of a worker's life, each with its reason."""
    recorder = EventRecorder()

    await run_until_idle(store, build_handlers(work=_nothing), recorder)

    assert [event.event for event in recorder.of_type(Lifecycle)] == ["started", "stopping", "stopped"]
    assert recorder.of_type(Lifecycle)[0].why == f"on default/{MAIL.name}"
