"""A running job that is cancelled is asked to stop with the next heartbeat."""

import asyncio
import threading

import pytest

from headrace.model.job import State
from headrace.model.outcome import Cancelled
from headrace.stores.contract.store import Store
from headrace.worker.context import current
from headrace.worker.events import CallbackRaised, JobsFinished
from headrace.worker.exceptions import Fail, Release, Retry
from headrace.worker.handlers import handler_of
from tests.worker import process_handlers
from tests.worker.support import MAIL, SOON_S, EventRecorder, build_handlers, build_worker, find, job


async def test_a_running_job_that_is_cancelled_ends_cancelled(store: Store) -> None:
    """T28: its handler is cancelled, and that is not an error."""
    started, recorder = asyncio.Event(), EventRecorder()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    await store.jobs.enqueue([job("a")])
    async with build_worker(store, build_handlers(work=work), recorder, heartbeat="30ms") as worker:
        await started.wait()
        await store.jobs.cancel(MAIL, ["a"], running=True)
        finished = await recorder.wait_for(JobsFinished)

    assert [settlement.outcome for settlement in finished.settlements] == [Cancelled()]
    assert (await find(store, "a")).state is State.CANCELLED
    assert worker.health().totals.cancelled == 1
    assert recorder.of_type(CallbackRaised) == []


async def test_a_cancelled_thread_ends_when_it_looks(store: Store) -> None:
    started, recorder = asyncio.Event(), EventRecorder()
    loop = asyncio.get_running_loop()

    def plain() -> None:
        loop.call_soon_threadsafe(started.set)
        while not current().is_stopping:
            threading.Event().wait(0.005)

    await store.jobs.enqueue([job("a", "plain")])
    async with build_worker(store, build_handlers(plain=plain), recorder, heartbeat="30ms"):
        await started.wait()
        await store.jobs.cancel(MAIL, ["a"], running=True)
        await recorder.wait_for(JobsFinished)

    assert (await find(store, "a")).state is State.CANCELLED


async def test_a_cancelled_process_is_killed(store: Store) -> None:
    """TB7: a process that cannot check is killed."""
    recorder = EventRecorder()
    async with process_handlers.Caller().open() as caller, asyncio.timeout(SOON_S):
        await store.jobs.enqueue([job("a", "hangs", payload=b'{"port":%d}' % caller.port)])
        handlers = build_handlers(hangs=handler_of("hangs", process_handlers.hangs, process=True))
        async with build_worker(store, handlers, recorder, heartbeat="30ms", pool_size=1):
            await caller.here.wait()
            await store.jobs.cancel(MAIL, ["a"], running=True)
            await recorder.wait_for(JobsFinished)
            await caller.gone.wait()

    assert (await find(store, "a")).state is State.CANCELLED


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("done", State.DONE),
        (Fail("broken"), State.DEAD),
        (Retry("again", delay="1m"), State.CANCELLED),
        (Release(delay="1m"), State.CANCELLED),
        (ValueError("while tidying up"), State.CANCELLED),
    ],
    ids=["done", "fail", "retry", "release", "error"],
)
async def test_done_and_fail_win_over_an_asked_cancel(store: Store, end: str | Exception, state: State) -> None:
    """T28: a handler that swallows the cancellation may still say how it ended; nothing is tried again."""
    started, recorder = asyncio.Event(), EventRecorder()

    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(end, Exception):
                raise end from None
        return str(end)

    await store.jobs.enqueue([job("a")])
    async with build_worker(store, build_handlers(work=work), recorder, heartbeat="30ms"):
        await started.wait()
        await store.jobs.cancel(MAIL, ["a"], running=True)
        await recorder.wait_for(JobsFinished)

    assert (await find(store, "a")).state is state


async def test_a_waiting_job_that_is_cancelled_never_runs(store: Store) -> None:
    ran, gate, recorder = [], asyncio.Event(), EventRecorder()

    async def work(id: str) -> None:
        ran.append(id)
        await gate.wait()

    await store.jobs.enqueue([job(id, payload=b'{"id":"%s"}' % id.encode()) for id in "ab"])
    async with build_worker(store, build_handlers(work=work), recorder, capacity=1):
        await store.jobs.cancel(MAIL, ["b"], running=True)
        gate.set()
        await recorder.wait_for(JobsFinished)

    assert ran == ["a"]
    assert (await find(store, "b")).state is State.CANCELLED
