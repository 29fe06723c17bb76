"""A store that is away is waited for; only what can never be right ends a worker."""

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
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.testing.faults import DOWN, LOST, FaultyStore
from headrace.worker.events import JobsFinished, Lifecycle
from headrace.worker.handlers import FAIL_KIND, handler_of
from tests.worker.support import MAIL, SOON_S, Ear, find, handling, job, jobs, work_off, worker_of


async def _nothing() -> None:
    return


async def _told(_: str, __: object, ___: object) -> None:
    return


async def test_a_store_that_is_away_does_not_end_the_worker(flaky: FaultyStore) -> None:
    """TB6: it waits, says so once, and goes on when the store is back."""
    ear = Ear()
    await flaky.jobs.enqueue(jobs(3))
    flaky.is_down = True

    async with worker_of(flaky, handling(work=_nothing), ear), asyncio.timeout(SOON_S):
        await flaky.called("claim", 4)
        flaky.is_down = False
        await ear.hear(JobsFinished)
        await ear.hear(Lifecycle, lambda it: it.event == "store_back")

    events = [notice.event for notice in ear.told(Lifecycle)]
    assert events == ["started", "store_lost", "store_back", "stopping", "stopped"]
    assert (await flaky.queues.counts(MAIL)).done == 3


async def test_a_store_that_goes_away_in_the_middle_costs_no_job_and_no_second_run(flaky: FaultyStore) -> None:
    """TB5, TB6: what was running goes on, and is settled when the store is back."""
    ran, gate = [], asyncio.Event()

    async def work() -> None:
        ran.append(1)
        await gate.wait()

    await flaky.jobs.enqueue(jobs(5))
    ear = Ear()
    async with worker_of(flaky, handling(work=work), ear), asyncio.timeout(SOON_S):
        await flaky.called("wait", 1)
        flaky.is_down = True
        gate.set()
        await ear.hear(Lifecycle, lambda it: it.event == "store_lost")
        flaky.is_down = False
        await ear.hear(JobsFinished)

    assert len(ran) == 5
    assert (await flaky.queues.counts(MAIL)).done == 5


async def test_a_store_that_cannot_be_opened_yet_is_waited_for(store: Store) -> None:
    ear, tries, closed = Ear(), itertools.count(1), asyncio.Event()
    await store.jobs.enqueue(jobs(3))

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        if next(tries) < 4:
            raise StoreUnavailable("the store is away")
        yield store
        closed.set()

    async with worker_of(opened, handling(work=_nothing), ear), asyncio.timeout(SOON_S):
        await ear.hear(JobsFinished)

    events = [notice.event for notice in ear.told(Lifecycle)]
    assert events == ["store_lost", "store_back", "started", "stopping", "stopped"]
    assert (closed.is_set(), (await store.queues.counts(MAIL)).done) == (True, 3)


async def test_a_worker_that_waits_for_its_store_can_be_stopped_and_cancelled() -> None:
    ear = Ear()

    def opened() -> NoReturn:
        raise StoreUnavailable("the store is away")

    stopped, cancelled, late = (worker_of(opened, handling(work=_nothing), ear) for _ in range(3))
    late.stop()
    await late.run()
    runs = [asyncio.create_task(worker.run()) for worker in (stopped, cancelled)]
    async with asyncio.timeout(SOON_S):
        await ear.hear(Lifecycle, lambda it: it.event == "store_lost")
        assert "leases were not extended" in stopped.health().why
        stopped.stop()
        runs[1].cancel()
        ended = await asyncio.gather(*runs, return_exceptions=True)

    assert ended[0] is None
    assert isinstance(ended[1], asyncio.CancelledError)


async def test_one_hiccup_is_not_told(flaky: FaultyStore) -> None:
    ear = Ear()
    flaky.fail("claim")
    await flaky.jobs.enqueue([job("a")])

    await work_off(flaky, handling(work=_nothing), ear)

    assert "store_lost" not in [notice.event for notice in ear.told(Lifecycle)]
    assert (await find(flaky, "a")).state is State.DONE


@pytest.mark.parametrize("verbs", [["configuration"], ["claim"], ["settle", "turn"], ["wait"], ["repair"]])
async def test_an_error_of_the_system_is_waited_for_like_an_outage(flaky: FaultyStore, verbs: list[str]) -> None:
    """TB6: no free file descriptor, or a file that an upgrade has replaced, ends no worker."""
    ear, handlers = Ear(), handling(work=_nothing)
    handlers.register_fail(handler_of(FAIL_KIND, _told, style="listed"), MAIL)
    await flaky.jobs.enqueue([job("a")])
    for verb in verbs:
        flaky.fail(verb, times=2, error=OSError(errno.EMFILE, "Too many open files"))

    async with worker_of(flaky, handlers, ear, repair="20ms"), asyncio.timeout(SOON_S):
        await ear.hear(JobsFinished)
        await flaky.called(verbs[0], 2)

    told = [notice.event for notice in ear.told(Lifecycle)]
    assert ("store_lost" in told) == (verbs[0] not in {"wait", "repair"})


async def test_pauses_grow_while_the_store_is_away(flaky: FaultyStore) -> None:
    """TB6: a store that is down is not hammered."""
    loop = asyncio.get_running_loop()
    flaky.is_down = True

    async with worker_of(flaky, handling(work=_nothing)) as worker, asyncio.timeout(SOON_S):
        times = []
        for number in range(1, 6):
            await flaky.called("claim", number)
            times.append(loop.time())
        flaky.is_down = False
        worker.stop(0)

    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert [pause >= 0.9 * least for pause, least in zip(pauses, (0.025, 0.05, 0.1, 0.2), strict=True)] == [True] * 4


async def test_a_store_that_cannot_wait_is_asked_all_the_same(flaky: FaultyStore) -> None:
    """TB6: signals are hints; without them a worker still finds its work."""
    ear = Ear()
    async with worker_of(flaky, handling(work=_nothing), ear, poll="1h"), asyncio.timeout(SOON_S):
        flaky.fail("wait", times=3)
        await flaky.called("wait", 1)
        await flaky.jobs.enqueue([job("a")])
        await ear.hear(JobsFinished)

    assert (await find(flaky, "a")).state is State.DONE


async def test_a_store_whose_signals_are_away_for_long_is_not_asked_without_end(flaky: FaultyStore) -> None:
    """TB6: a worker that cannot wait asks once in a while."""
    over = asyncio.Event()
    flaky.fail("wait", times=1_000)

    async with worker_of(flaky, handling(work=_nothing), poll="50ms"):
        asyncio.get_running_loop().call_later(0.3, over.set)
        await over.wait()

    assert 2 <= flaky.calls["claim"] <= 10


async def test_a_fault_in_a_store_ends_the_worker_and_is_not_hidden(flaky: FaultyStore) -> None:
    """TB6: a worker that silently looks no more would be worse."""
    flaky.fail("wait", error=ZeroDivisionError("a bug"))

    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with asyncio.timeout(SOON_S):
            await worker_of(flaky, handling(work=_nothing)).run()


@pytest.mark.parametrize("fault", [DOWN, LOST], ids=["unavailable", "reply-lost"])
async def test_a_store_that_is_away_at_the_start_is_waited_for(flaky: FaultyStore, fault: Exception) -> None:
    """TB6: also where the fail handler has to be asked for first."""
    handlers = handling(work=_nothing)
    handlers.register_fail(handler_of(FAIL_KIND, _told, style="listed"), MAIL)
    for verb in ("configuration", "configure"):
        flaky.fail(verb, error=fault)
    await flaky.jobs.enqueue([job("a")])

    await work_off(flaky, handlers)

    assert (await flaky.queues.configuration(MAIL)).fail_handler
    assert (await find(flaky, "a")).state is State.DONE


async def test_a_queue_of_another_cut_ends_the_worker_with_the_reason(store: Store) -> None:
    """TB6: what asking again cannot help is raised, and nothing is left in hand."""
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    await store.jobs.enqueue(jobs(1, queue=Queue("cut", shards=2)))
    worker = worker_of(store, handling(MAIL, Queue("cut", shards=3), work=work))
    with pytest.raises(Refused, match="shards"):
        async with asyncio.timeout(SOON_S):
            await worker.run()

    assert worker.health().state == "stopped"


async def test_jobs_in_hand_are_given_back_when_the_store_refuses(flaky: FaultyStore) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    await flaky.jobs.enqueue(jobs(2))
    worker = worker_of(flaky, handling(work=work), poll="20ms")
    task = asyncio.create_task(worker.run())
    await flaky.called("wait", 1)
    flaky.fail("claim", error=Refused("no", "never"))
    with pytest.raises(Refused, match="never"):
        async with asyncio.timeout(SOON_S):
            await task

    counts = await flaky.queues.counts(MAIL)
    assert (counts.waiting, counts.active) == (2, 0)


async def test_queues_are_swept_also_while_nothing_is_claimed(timed: Store, clock: ManualClock) -> None:
    """C31, TB4: a full worker repairs what another one left, in the background."""
    gate, started = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await gate.wait()

    flaky = FaultyStore(timed)
    await timed.jobs.enqueue([job("a", max_stalls=1)])
    request = ClaimRequest(queues=[MAIL], worker="worker-2", nonce="another-nonce", lease_ms=1_000)
    await timed.jobs.claim(request)
    await timed.jobs.enqueue([job("b")])
    async with worker_of(flaky, handling(work=work), capacity=1, repair="20ms"), asyncio.timeout(SOON_S):
        await started.wait()
        clock.advance(1_000)
        await flaky.called("repair", flaky.calls["repair"] + 2)
        found = await find(timed, "a")
        gate.set()

    assert [dead_letter.reason for dead_letter in found.dead_letters] == ["stalls"]


async def test_a_sweep_that_fails_does_no_harm(flaky: FaultyStore) -> None:
    """C31: the next one comes."""
    flaky.fail("repair")

    async with worker_of(flaky, handling(work=_nothing), repair="10ms"), asyncio.timeout(SOON_S):
        await flaky.called("repair", 3)


async def test_a_job_that_kills_its_workers_is_not_handed_out_for_ever(timed: Store, clock: ManualClock) -> None:
    """TB4: a delivery whose worker vanished counts; after `max_stalls` of them the job is dead."""
    await timed.jobs.enqueue([job("a", max_stalls=3)])

    for number in range(3):
        request = ClaimRequest(queues=[MAIL], worker=f"gone-{number}", nonce=f"nonce-of-{number}", lease_ms=1_000)
        assert len((await timed.jobs.claim(request)).items) == 1
        clock.advance(1_000)
    worker = await work_off(timed, handling(work=_nothing))

    assert worker.health().totals.claimed == 0
    assert [dead_letter.reason for dead_letter in (await find(timed, "a")).dead_letters] == ["stalls"]
