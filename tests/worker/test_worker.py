"""A worker claims jobs, runs their handlers and settles them."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from headrace.model.clock import ManualClock
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.testing.faults import ForwardingStore, StoreCall
from headrace.worker.config import WorkerConfig
from headrace.worker.events import JobsClaimed, JobsFinished
from headrace.worker.exceptions import Retry
from headrace.worker.handlers import handler_of
from headrace.worker.worker import Worker
from tests.support.stores import SHARED_URLS
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

WHO = ContextVar("WHO", default="nobody")


async def test_a_job_runs_and_its_result_is_kept(store: Store) -> None:
    """T1, T29: a worker is built of a store and handlers; a handler that returns makes a job that is done."""

    async def add(one: int, other: int) -> int:
        return one + other

    await store.jobs.enqueue([job("a", "add", payload=b'{"one":1,"other":2}')])
    await run_until_idle(store, build_handlers(add=add))

    found = await find(store, "a")
    assert found.state is State.DONE
    assert found.finished_job is not None
    assert found.finished_job.result == b"3"


async def test_a_plain_function_runs_in_a_thread(store: Store) -> None:
    def where() -> str:
        return threading.current_thread().name

    await store.jobs.enqueue([job("a", "where")])
    await run_until_idle(store, build_handlers(where=where))

    finished_job = (await find(store, "a")).finished_job
    assert finished_job is not None
    assert finished_job.result is not None
    assert finished_job.result.startswith(b'"headrace-handler')


async def test_a_job_that_comes_later_wakes_a_resting_worker(store: Store) -> None:
    """T24: a worker runs until it is stopped, and a job need not wait for its next look."""
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    async with build_worker(store, build_handlers(work=work), poll="1h"), asyncio.timeout(SOON_S):
        await store.jobs.enqueue([job("a")])
        await ran.wait()


async def test_a_job_runs_when_its_time_has_come(store: Store) -> None:
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    await store.jobs.enqueue([job("a", delay_ms=50)])
    async with build_worker(store, build_handlers(work=work), poll="1h"), asyncio.timeout(SOON_S):
        await ran.wait()


async def test_a_job_that_is_due_goes_before_one_that_is_not(timed: Store) -> None:
    """T16: due jobs run, scheduled jobs wait, whatever their priority."""
    ran = []

    async def work(number: int) -> None:
        ran.append(number)

    await timed.jobs.enqueue(
        [job("a", payload=b'{"number":1}', delay_ms=60_000, priority=9), job("b", payload=b'{"number":2}', priority=0)]
    )
    await run_until_idle(timed, build_handlers(work=work))

    assert ran == [2]


@pytest.mark.parametrize("delay_ms", [1, 60_000])
async def test_until_idle_leaves_what_is_later(timed: Store, delay_ms: int) -> None:
    async def work() -> None:
        return

    await timed.jobs.enqueue([job("a"), job("b", delay_ms=delay_ms)])
    await run_until_idle(timed, build_handlers(work=work))

    assert [(await find(timed, id)).state for id in "ab"] == [State.DONE, State.WAITING]


async def test_until_idle_finds_what_a_handler_sent_to_a_queue_that_was_looked_at_before(store: Store) -> None:
    """Jobs for coroutines and for threads are claimed separately; settlements of one go with a claim of the other."""
    looked, sent, ran = asyncio.Event(), asyncio.Event(), []
    threads, third = Queue("threads"), Queue("third")

    async def first() -> None:
        await looked.wait()
        await store.jobs.enqueue([job("b", "plain", queue=threads)])
        sent.set()

    def plain() -> None:
        ran.append(1)

    async def late(call: StoreCall) -> Any:
        answer = await call.act()
        if call.verb == "claim" and threads in call.args[0].queues and not looked.is_set():
            looked.set()
            await sent.wait()
            await asyncio.sleep(0)  # the handler has ended before its answer is here
        return answer

    handlers = build_handlers(MAIL, first=first)
    handlers.register(handler_of("plain", plain), threads)
    handlers.register(handler_of("other", first), third)
    await store.jobs.enqueue([job("a", "first")])
    await run_until_idle(ForwardingStore(store, late), handlers)

    assert ran == [1]


async def test_a_retry_that_was_settled_beside_a_claim_on_other_queues_is_waited_for(store: Store) -> None:
    """The answer of that claim does not say when it is due; without another claim it would wait for the poll."""
    looked, ended, again = asyncio.Event(), asyncio.Event(), asyncio.Event()
    threads, third = Queue("threads"), Queue("third")

    async def first() -> None:
        if ended.is_set():
            again.set()
            return
        await looked.wait()
        ended.set()
        raise Retry(delay="200ms")

    async def late(call: StoreCall) -> Any:
        answer = await call.act()
        if call.verb == "claim" and threads in call.args[0].queues and not looked.is_set():
            looked.set()
            await ended.wait()
            await asyncio.sleep(0)  # the handler has ended before its answer is here
        return answer

    handlers = build_handlers(MAIL, first=first)
    handlers.register(handler_of("plain", looked.is_set), threads)
    handlers.register(handler_of("other", first), third)
    await store.jobs.enqueue([job("a", "first")])
    async with Worker(ForwardingStore(store, late), handlers, WorkerConfig(poll="60s")):
        async with asyncio.timeout(20):
            await again.wait()


@pytest.mark.parametrize("shift_ms", [-3_600_000, 3_600_000], ids=["an-hour-behind", "an-hour-ahead"])
async def test_a_clock_that_is_wrong_by_an_hour_makes_nothing_early_and_loses_nothing(shift_ms: int) -> None:
    """QB16: only the store's clock counts; a worker measures spans, and waits for `next_at_ms - now_ms`."""
    clock = Shifted(shift_ms)
    store = await open_store("memory://", clock=clock)
    seen: dict[str, int] = {}
    ran_both = asyncio.Event()

    async def work(name: str) -> None:
        seen[name] = clock.now_ms()
        if len(seen) == 2:
            ran_both.set()

    [_, late] = [job("a", payload=b'{"name":"a"}'), job("b", payload=b'{"name":"b"}', delay_ms=80)]
    due_at_ms = clock.now_ms() + 80
    await store.jobs.enqueue([_, late])
    recorder = EventRecorder()
    async with build_worker(store, build_handlers(work=work), recorder, poll="1h"), asyncio.timeout(SOON_S):
        await ran_both.wait()
        await recorder.wait_for(JobsFinished, lambda it: it.answers[0].id == "b")

    assert seen["b"] >= due_at_ms
    assert [(await find(store, id)).state for id in "ab"] == [State.DONE, State.DONE]


class Shifted(ManualClock):
    """A clock that runs with the loop, and is wrong."""

    def __init__(self, shift_ms: int) -> None:
        super().__init__(1_700_000_000_000 + shift_ms)
        self._began = asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return super().now_ms() + int((asyncio.get_running_loop().time() - self._began) * 1_000)


async def test_a_thousand_jobs_all_run_exactly_once(store: Store) -> None:
    """T32: during a valid lease no other worker runs the job."""
    runs = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        runs.append(number)

    await store.jobs.enqueue([job(str(n), payload=b'{"number":%d}' % n) for n in range(1_000)])
    workers = [build_worker(store, build_handlers(work=work), name=f"worker-{n}", capacity=20) for n in range(3)]
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(*(worker.run(until_idle=True) for worker in workers))

    assert sorted(runs) == list(range(1_000))
    assert sum(worker.health().totals.done for worker in workers) == 1_000


async def test_on_every_store_jobs_are_worked_off(shared: Store, shared_name: str, tmp_path: Any) -> None:
    """T1: any store will do."""
    runs: list[int] = []

    async def work(number: int) -> None:
        runs.append(number)

    def plain() -> str:
        return "plain"

    url = SHARED_URLS[shared_name](tmp_path)
    await shared.jobs.enqueue([*(job(str(n), payload=b'{"number":%d}' % n) for n in range(300)), job("plain", "plain")])
    worker = await run_until_idle(shared, build_handlers(work=work, plain=plain), reopen=lambda: open_store(url))

    assert sorted(runs) == list(range(300))
    assert worker.health().totals.done == 301
    assert (await find(shared, "plain")).state is State.DONE


async def test_every_handler_is_a_task_of_its_own_with_variables_of_its_own(store: Store) -> None:
    """Also one that never waits, and takes no turn of the loop from Python 3.12 on."""
    tasks: set[asyncio.Task[Any] | None] = set()
    found: list[str] = []

    async def work() -> None:
        tasks.add(asyncio.current_task())
        found.append(WHO.get())
        WHO.set("another handler")

    await store.jobs.enqueue(jobs(3))
    await run_until_idle(store, build_handlers(work=work))

    assert (len(tasks), None in tasks, found) == (3, False, ["nobody"] * 3)


async def test_a_programs_own_task_factory_makes_the_tasks_of_handlers(store: Store) -> None:
    received: list[str] = []
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> asyncio.Task[Any]:
        received.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop, **given)

    await store.jobs.enqueue(jobs(3))
    loop.set_task_factory(factory)
    try:
        await run_until_idle(store, build_handlers(work=_nothing))
    finally:
        loop.set_task_factory(None)

    assert len([each for each in received if each.startswith("Runner.")]) == 3


async def _nothing() -> None: ...


async def test_a_claim_and_its_outcome_are_logged(store: Store) -> None:
    """Q39: a listener gets claims and settlements."""
    recorder = EventRecorder()

    async def work() -> None:
        return

    await store.jobs.enqueue(jobs(3))
    await run_until_idle(store, build_handlers(work=work), recorder)

    assert [claim.record.id for taken in recorder.of_type(JobsClaimed) for claim in taken.claims] == ["0", "1", "2"]
    settled = [answer for finished in recorder.of_type(JobsFinished) for answer in finished.answers]
    assert [(answer.id, answer.status) for answer in settled] == [("0", "done"), ("1", "done"), ("2", "done")]


async def test_a_worker_runs_once(store: Store) -> None:
    async def work() -> None:
        return

    worker = await run_until_idle(store, build_handlers(work=work))

    with pytest.raises(Refused, match="is stopped; build a new one"):
        await worker.run()


async def test_jobs_of_a_paused_queue_wait_and_run_after_it_is_resumed(store: Store) -> None:
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    await store.queues.configure(MAIL, {"paused": True})
    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, build_handlers(work=work))
    assert not ran.is_set()
    async with build_worker(store, build_handlers(work=work), poll="1h"), asyncio.timeout(SOON_S):
        await store.queues.configure(MAIL, {"paused": False})
        await ran.wait()


@pytest.mark.parametrize("kind", ["raises", "exits", "dies"])
async def test_a_handler_in_a_process_ends_like_any_other(store: Store, kind: str) -> None:
    from tests.worker import process_handlers

    functions: dict[str, Callable[..., Any]] = {
        "raises": process_handlers.raises,
        "exits": process_handlers.exits,
        "dies": process_handlers.dies,
    }
    await store.jobs.enqueue([job("a", kind, max_attempts=1), job("b", "name")])
    handlers = build_handlers(
        **{
            kind: handler_of(kind, functions[kind], process=True),
            "name": handler_of("name", process_handlers.name, process=True),
        }
    )
    await run_until_idle(store, handlers, pool_size=1)

    [dead_letter] = (await find(store, "a")).dead_letters
    assert dead_letter.error.cls == {"raises": "ValueError", "exits": "SystemExit", "dies": "ProcessDied"}[kind]
    finished_job = (await find(store, "b")).finished_job
    assert finished_job is not None
    assert finished_job.result == b'"b"'


async def test_a_blocked_job_that_was_freed_runs_before_the_worker_is_idle(store: Store) -> None:
    runs = []

    async def work(number: int) -> None:
        runs.append(number)
        if number == 1:
            await store.jobs.enqueue([job("a", payload=b'{"number":2}')])

    await store.jobs.enqueue([job("a", payload=b'{"number":1}')])
    await run_until_idle(store, build_handlers(work=work))

    assert runs == [1, 2]
