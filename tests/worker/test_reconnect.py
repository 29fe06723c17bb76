"""A worker waits for an unavailable store; only an error that a retry cannot cure ends it."""

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import ManualClock
from headrace.model.errors import Refused, StoreUnavailable
from headrace.model.job import State
from headrace.model.names import FAIL_KIND, Queue
from headrace.stores.contract.store import Store
from headrace.testing.faults import DOWN, LOST, FaultyStore
from headrace.worker.events import JobsFinished, Lifecycle
from headrace.worker.handlers import handler_of
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


async def _nothing() -> None:
    return


async def _told(_: str, __: object, ___: object) -> None:
    return


async def test_a_store_that_is_away_does_not_end_the_worker(flaky: FaultyStore) -> None:
    """TB6: it waits, reports that once, and continues when the store is back."""
    recorder = EventRecorder()
    await flaky.jobs.enqueue(jobs(3))
    flaky.is_down = True

    async with build_worker(flaky, build_handlers(work=_nothing), recorder), asyncio.timeout(SOON_S):
        await flaky.called("claim", 4)
        flaky.is_down = False
        await recorder.wait_for(JobsFinished)
        await recorder.wait_for(Lifecycle, lambda it: it.event == "store_back")

    events = [event.event for event in recorder.of_type(Lifecycle)]
    assert events == ["started", "store_lost", "store_back", "stopping", "stopped"]
    assert (await flaky.queues.counts(MAIL)).done == 3


async def test_a_store_that_goes_away_in_the_middle_costs_no_job_and_no_second_run(flaky: FaultyStore) -> None:
    """TB5, TB6: running handlers go on, and are settled when the store is back."""
    ran, gate = [], asyncio.Event()

    async def work() -> None:
        ran.append(1)
        await gate.wait()

    await flaky.jobs.enqueue(jobs(5))
    recorder = EventRecorder()
    async with build_worker(flaky, build_handlers(work=work), recorder), asyncio.timeout(SOON_S):
        await flaky.called("wait", 1)
        flaky.is_down = True
        gate.set()
        await recorder.wait_for(Lifecycle, lambda it: it.event == "store_lost")
        flaky.is_down = False
        await recorder.wait_for(JobsFinished)

    assert len(ran) == 5
    assert (await flaky.queues.counts(MAIL)).done == 5


async def test_a_store_that_cannot_be_opened_yet_is_waited_for(store: Store) -> None:
    recorder, tries, closed = EventRecorder(), itertools.count(1), asyncio.Event()
    await store.jobs.enqueue(jobs(3))

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        if next(tries) < 4:
            raise StoreUnavailable("the store is away")
        yield store
        closed.set()

    async with build_worker(opened, build_handlers(work=_nothing), recorder), asyncio.timeout(SOON_S):
        await recorder.wait_for(JobsFinished)

    events = [event.event for event in recorder.of_type(Lifecycle)]
    assert events == ["store_lost", "store_back", "started", "stopping", "stopped"]
    assert (closed.is_set(), (await store.queues.counts(MAIL)).done) == (True, 3)


async def test_a_worker_that_waits_for_its_store_can_be_stopped_and_cancelled() -> None:
    recorder = EventRecorder()

    def opened() -> NoReturn:
        raise StoreUnavailable("the store is away")

    stopped, cancelled, late = (build_worker(opened, build_handlers(work=_nothing), recorder) for _ in range(3))
    late.stop()
    await late.run()
    runs = [asyncio.create_task(worker.run()) for worker in (stopped, cancelled)]
    async with asyncio.timeout(SOON_S):
        await recorder.wait_for(Lifecycle, lambda it: it.event == "store_lost")
        assert "leases were not extended" in stopped.health().why
        stopped.stop()
        runs[1].cancel()
        ended = await asyncio.gather(*runs, return_exceptions=True)

    assert ended[0] is None
    assert isinstance(ended[1], asyncio.CancelledError)


async def test_one_hiccup_is_not_reported(flaky: FaultyStore) -> None:
    recorder = EventRecorder()
    flaky.fail("claim")
    await flaky.jobs.enqueue([job("a")])

    await run_until_idle(flaky, build_handlers(work=_nothing), recorder)

    assert "store_lost" not in [event.event for event in recorder.of_type(Lifecycle)]
    assert (await find(flaky, "a")).state is State.DONE


@pytest.mark.parametrize("verbs", [["configuration"], ["claim"], ["settle", "turn"], ["wait"], ["repair"]])
async def test_an_error_of_the_system_is_waited_for_like_an_outage(flaky: FaultyStore, verbs: list[str]) -> None:
    """TB6: no free file descriptor, or a file that an upgrade has replaced, ends no worker."""
    is_aside = verbs[0] in {"wait", "repair"}
    recorder, handlers = EventRecorder(), build_handlers(work=_nothing)
    handlers.register_fail(handler_of(FAIL_KIND, _told, style="listed"), MAIL)
    await flaky.jobs.enqueue([job("a")])
    for verb in verbs:
        flaky.fail(verb, times=2, error=OSError(errno.EMFILE, "Too many open files"))

    async with build_worker(flaky, handlers, recorder, repair="20ms"), asyncio.timeout(SOON_S):
        await recorder.wait_for(JobsFinished)
        if is_aside:  # the job ends without it
            await flaky.called(verbs[0], 2)

    events = [event.event for event in recorder.of_type(Lifecycle)]
    assert ("store_lost" in events) != is_aside


async def test_pauses_grow_while_the_store_is_away(flaky: FaultyStore) -> None:
    """TB6: a store that is down is not hammered."""
    loop = asyncio.get_running_loop()
    flaky.is_down = True
    started = loop.time()

    async with build_worker(flaky, build_handlers(work=_nothing)) as worker, asyncio.timeout(SOON_S):
        times = []
        for number in range(1, 6):
            await flaky.called("claim", number)
            times.append(loop.time() - started)
        flaky.is_down = False
        worker.stop(0)

    # Since the start, so that a claim that this test saw late makes no pause look short.
    least = itertools.accumulate((0, 0.025, 0.05, 0.1, 0.2))
    assert [time >= 0.9 * bound for time, bound in zip(times, least, strict=True)] == [True] * 5


async def test_a_store_without_signals_is_claimed_from_all_the_same(flaky: FaultyStore) -> None:
    """TB6: signals are hints; without them a worker still finds its work."""
    recorder = EventRecorder()
    async with build_worker(flaky, build_handlers(work=_nothing), recorder, poll="1h"), asyncio.timeout(SOON_S):
        flaky.fail("wait", times=3)
        await flaky.called("wait", 1)
        await flaky.jobs.enqueue([job("a")])
        await recorder.wait_for(JobsFinished)

    assert (await find(flaky, "a")).state is State.DONE


async def test_a_store_without_signals_for_long_is_not_polled_without_pause(flaky: FaultyStore) -> None:
    """TB6: a worker that cannot wait asks once in a while."""
    over = asyncio.Event()
    flaky.fail("wait", times=1_000)

    async with build_worker(flaky, build_handlers(work=_nothing), poll="50ms"):
        asyncio.get_running_loop().call_later(0.3, over.set)
        await over.wait()

    assert 2 <= flaky.calls["claim"] <= 10


async def test_a_fault_in_a_store_ends_the_worker_and_is_not_hidden(flaky: FaultyStore) -> None:
    """TB6: a worker that silently looks no more would be worse."""
    flaky.fail("wait", error=ZeroDivisionError("a bug"))

    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with asyncio.timeout(SOON_S):
            await build_worker(flaky, build_handlers(work=_nothing)).run()


@pytest.mark.parametrize("fault", [DOWN, LOST], ids=["unavailable", "reply-lost"])
async def test_a_store_that_is_away_at_the_start_is_waited_for(flaky: FaultyStore, fault: Exception) -> None:
    """TB6: also where fail jobs have to be switched on first."""
    handlers = build_handlers(work=_nothing)
    handlers.register_fail(handler_of(FAIL_KIND, _told, style="listed"), MAIL)
    for verb in ("configuration", "configure"):
        flaky.fail(verb, error=fault)
    await flaky.jobs.enqueue([job("a")])

    await run_until_idle(flaky, handlers)

    assert (await flaky.queues.configuration(MAIL)).fail_handler
    assert (await find(flaky, "a")).state is State.DONE


async def test_a_queue_of_another_cut_ends_the_worker_with_the_reason(store: Store) -> None:
    """TB6: an error that a retry cannot cure is raised, and no job is left active."""
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    await store.jobs.enqueue(jobs(1, queue=Queue("cut", shards=2)))
    worker = build_worker(store, build_handlers(MAIL, Queue("cut", shards=3), work=work))
    with pytest.raises(Refused, match="shards"):
        async with asyncio.timeout(SOON_S):
            await worker.run()

    assert worker.health().state == "stopped"


async def test_running_jobs_are_released_when_the_store_refuses(flaky: FaultyStore) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    await flaky.jobs.enqueue(jobs(2))
    worker = build_worker(flaky, build_handlers(work=work), poll="20ms")
    task = asyncio.create_task(worker.run())
    await flaky.called("wait", 1)
    flaky.fail("claim", error=Refused("no", "never"))
    with pytest.raises(Refused, match="never"):
        async with asyncio.timeout(SOON_S):
            await task

    counts = await flaky.queues.counts(MAIL)
    assert (counts.waiting, counts.active) == (2, 0)


async def test_queues_are_swept_also_while_nothing_is_claimed(timed: Store, clock: ManualClock) -> None:
    """C31, TB4: a full worker repairs leases of another one in the background."""
    gate, started = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await gate.wait()

    flaky = FaultyStore(timed)
    await timed.jobs.enqueue([job("a", max_stalls=1)])
    request = ClaimRequest(queues=[MAIL], worker="worker-2", nonce="another-nonce", lease_ms=1_000)
    await timed.jobs.claim(request)
    await timed.jobs.enqueue([job("b")])
    async with build_worker(flaky, build_handlers(work=work), capacity=1, repair="20ms"), asyncio.timeout(SOON_S):
        await started.wait()
        clock.advance(1_000)
        await flaky.called("repair", flaky.calls["repair"] + 2)
        found = await find(timed, "a")
        gate.set()

    assert [dead_letter.reason for dead_letter in found.dead_letters] == ["stalls"]


async def test_a_sweep_that_fails_does_no_harm(flaky: FaultyStore) -> None:
    """C31: the next one comes."""
    flaky.fail("repair")

    async with build_worker(flaky, build_handlers(work=_nothing), repair="10ms"), asyncio.timeout(SOON_S):
        await flaky.called("repair", 3)


async def test_a_job_that_kills_its_workers_is_not_handed_out_for_ever(timed: Store, clock: ManualClock) -> None:
    """TB4: a delivery whose worker vanished counts; after `max_stalls` of them the job is dead."""
    await timed.jobs.enqueue([job("a", max_stalls=3)])

    for number in range(3):
        request = ClaimRequest(queues=[MAIL], worker=f"gone-{number}", nonce=f"nonce-of-{number}", lease_ms=1_000)
        assert len((await timed.jobs.claim(request)).items) == 1
        clock.advance(1_000)
    worker = await run_until_idle(timed, build_handlers(work=_nothing))

    assert worker.health().totals.claimed == 0
    assert [dead_letter.reason for dead_letter in (await find(timed, "a")).dead_letters] == ["stalls"]
