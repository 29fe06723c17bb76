"""The heartbeat extends leases, and gives up those that it could not extend in time."""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.job import State
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.testing.faults import DOWN, LOST, FaultyStore, StoreCall
from headrace.worker.context import current
from headrace.worker.events import JobsClaimed, JobsFinished, LeaseLost, Lifecycle
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


async def test_a_handler_may_run_for_many_leases(timed: Store, clock: ManualClock) -> None:
    """Q20, Q21, T28, T32: as long as the worker lives, its leases are extended."""
    flaky = FaultyStore(timed)

    async def work() -> None:
        for number in range(5):
            await flaky.called("extend", 2 * number + 2)
            clock.advance(2_000)

    await flaky.jobs.enqueue([job("a")])
    worker = await run_until_idle(flaky, build_handlers(work=work), lease="3s", heartbeat="20ms")

    found = await find(flaky, "a")
    assert found.finished_job is not None
    assert (found.state, found.finished_job.stalls) == (State.DONE, 0)
    assert worker.health().totals.lost == 0


async def test_leases_are_extended_every_third_of_their_length_by_default(store: Store) -> None:
    """Q20, T25: one call for all that a worker holds."""
    worker = build_worker(store, build_handlers(work=_nothing), lease="30s")
    eager = build_worker(store, build_handlers(work=_nothing), lease="30s", heartbeat="2s")

    assert (worker.settings.heartbeat_ms, eager.settings.heartbeat_ms) == (10_000, 2_000)


async def _nothing() -> None:
    return


class Held:
    """A handler that waits to be stopped, and records when it was."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopped_at: float | None = None
        self.saw_stopping = False

    async def work(self) -> None:
        """Run until cancelled."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped_at = asyncio.get_running_loop().time()
            self.saw_stopping = current().is_stopping


async def test_a_handler_whose_lease_was_lost_is_stopped_and_the_worker_goes_on(
    timed: Store, clock: ManualClock
) -> None:
    """Q20, Q21, Q22, T28: the store refuses one lease; its handler is stopped, the others go on."""
    held, flaky, recorder = Held(), FaultyStore(timed), EventRecorder()
    await timed.jobs.enqueue([job("a", "held", max_stalls=1)])

    async with build_worker(
        flaky, build_handlers(held=held.work, work=_nothing), recorder, lease="3s", heartbeat="30ms", poll="1h"
    ):
        await held.started.wait()
        await flaky.called("wait")  # before it rests the worker may claim once more, and so sweep up the lease itself
        clock.advance(3_000)
        lost = await recorder.wait_for(LeaseLost)
        await timed.jobs.enqueue([job("b")])
        await recorder.wait_for(JobsFinished, lambda it: it.answers[0].id == "b")
        in_hand = {answer.id for finished in recorder.of_type(JobsFinished) for answer in finished.answers}

    assert (lost.claim.record.id, lost.why) == ("a", "the store replied lease_expired")
    assert held.saw_stopping
    assert in_hand == {"b"}


async def test_a_handler_whose_lease_ran_out_and_was_swept_up_is_stopped_as_well(
    timed: Store, clock: ManualClock
) -> None:
    """Q21: after a claim or a sweep before the heartbeat the store has no lease any more."""
    held, flaky, recorder = Held(), FaultyStore(timed), EventRecorder()
    await timed.jobs.enqueue([job("a", "held", max_stalls=1)])

    extension = flaky.hold("extend")
    async with build_worker(flaky, build_handlers(held=held.work), recorder, lease="3s", heartbeat="1s", poll="1h"):
        await extension.reached()
        clock.advance(3_000)
        await timed.jobs.repair(MAIL)
        extension.release()
        lost = await recorder.wait_for(LeaseLost)

    assert (lost.claim.record.id, lost.why) == ("a", "the store replied not_active")
    assert held.saw_stopping


async def test_a_worker_that_lost_a_lease_does_not_get_it_back_by_asking_for_more(
    timed: Store, clock: ManualClock
) -> None:
    """Q22, QB5: a delivery to another worker stays there, however often the first one polls."""
    held, recorder = Held(), EventRecorder()
    await timed.jobs.enqueue([job("a", "held")])

    worker = build_worker(
        timed,
        build_handlers(held=held.work),
        recorder,
        lease="3s",
        heartbeat="30ms",
        poll="10ms",
        queues=[MAIL, "other"],
    )
    async with worker:
        await held.started.wait()
        clock.advance(3_000)
        request = ClaimRequest(queues=[MAIL], worker="worker-2", nonce="another-nonce", lease_ms=60_000)
        [claim] = (await timed.jobs.claim(request)).items
        await recorder.wait_for(LeaseLost)
        found = await find(timed, "a")

    assert claim.record.id == "a"
    assert (found.worker, found.fence) == ("worker-2", claim.lease.fence)
    assert found.record is not None
    assert found.record.stalls == 1


async def test_the_outcome_of_a_lost_delivery_does_not_count(timed: Store, clock: ManualClock) -> None:
    """Q22, T32: the outcome of a handler that finishes after its lease was lost does not count."""
    flaky, recorder = FaultyStore(timed), EventRecorder()
    started = asyncio.Event()

    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    await flaky.jobs.enqueue([job("a", "stubborn")])
    worker = build_worker(flaky, build_handlers(stubborn=stubborn), recorder, lease="3s", heartbeat="30ms", capacity=1)
    async with worker:
        await started.wait()
        await flaky.inner.queues.configure(MAIL, {"paused": True})
        clock.advance(3_000)
        await recorder.wait_for(LeaseLost)
        await flaky.called("claim", flaky.calls["claim"] + 2)

    assert flaky.settled == []
    record = (await find(timed, "a")).record
    assert record is not None
    assert (record.attempts, record.stalls) == (0, 1)
    assert (worker.health().free, worker.health().totals.lost) == (1, 1)


async def test_a_worker_that_cannot_extend_stops_its_handlers_before_the_lease_ends(flaky: FaultyStore) -> None:
    """T28, T32: two workers never believe that they hold the same lease."""
    held, recorder = Held(), EventRecorder()
    await flaky.jobs.enqueue([job("a", "held", max_stalls=5)])

    async with build_worker(flaky, build_handlers(held=held.work), recorder, lease="2s") as worker:
        await held.started.wait()
        flaky.is_down = True
        lost = await recorder.wait_for(LeaseLost)
        worker.stop(0)
        await recorder.wait_for(Lifecycle, lambda it: it.event == "stopping")
        expires_at_ms, now_ms = (await find(flaky.inner, "a")).lease_expires_at_ms, SystemClock().now_ms()
        flaky.is_down = False

    assert lost.why == "its lease could not be extended in time"
    assert held.stopped_at is not None
    assert expires_at_ms is not None
    assert expires_at_ms > now_ms


async def test_leases_are_counted_from_when_the_store_may_first_have_seen_the_claim(flaky: FaultyStore) -> None:
    """T32: also after a repeated claim a handler is stopped before its lease ends."""
    held, recorder = Held(), EventRecorder()
    for fault in (LOST, DOWN, DOWN, DOWN):
        flaky.fail("claim", error=fault)
    await flaky.jobs.enqueue([job("a", "held")])

    async with build_worker(flaky, build_handlers(held=held.work), recorder, lease="2s") as worker:
        await held.started.wait()
        flaky.is_down = True
        await recorder.wait_for(LeaseLost)
        expires_at_ms, now_ms = (await find(flaky.inner, "a")).lease_expires_at_ms, SystemClock().now_ms()
        worker.stop(0)
        flaky.is_down = False

    assert expires_at_ms is not None
    assert expires_at_ms > now_ms


async def test_a_lost_reply_to_an_extension_costs_nothing(flaky: FaultyStore) -> None:
    """T28: one error is not the end; there is time for another try."""

    async def work() -> None:
        await flaky.called("extend", 4)

    for fault in (LOST, DOWN):
        flaky.fail("extend", error=fault)
    await flaky.jobs.enqueue(jobs(3))
    worker = await run_until_idle(flaky, build_handlers(work=work), lease="3s", heartbeat="100ms")

    assert (worker.health().totals.done, worker.health().totals.lost) == (3, 0)


async def test_what_is_known_of_a_partly_lost_extension_counts(timed: Store, clock: ManualClock) -> None:
    held, flaky, recorder = Held(), FaultyStore(timed), EventRecorder()
    await flaky.jobs.enqueue([job("a", "held"), job("b", "held")])

    async with build_worker(flaky, build_handlers(held=held.work), recorder, lease="3s", heartbeat="30ms") as worker:
        await recorder.wait_for(JobsClaimed)
        await timed.jobs.remove(MAIL, ["a"])
        flaky.lose("extend", heard=1)
        flaky.fail("extend", times=1_000)
        lost = await recorder.wait_for(LeaseLost)
        worker.stop(0)

    assert (lost.claim.record.id, lost.why) == ("a", "the store replied not_active")
    assert (await find(timed, "b")).state is State.WAITING


async def test_a_handler_that_blocks_the_loop_loses_no_lease_with_a_heartbeat_thread(
    shared: Store, shared_name: str, tmp_path: Path
) -> None:
    """Q20, T28, T32: leases are extended from a thread with its own connection."""
    url = SHARED_URLS[shared_name](tmp_path)
    extended = threading.Event()
    calls: Counter[str] = Counter()

    def heard(call: StoreCall) -> None:
        calls[call.verb] += 1
        if calls["extend"] == 4:
            extended.set()

    async def reopen() -> Store:
        return FaultyStore(await open_store(url), heard)

    async def blocking() -> bool:
        return extended.wait(SOON_S)  # the whole loop stands still

    await shared.jobs.enqueue([job("a", "blocking")])
    worker = await run_until_idle(
        shared, build_handlers(blocking=blocking), reopen=reopen, lease="1500ms", heartbeat="400ms"
    )

    found = await find(shared, "a")
    assert found.finished_job is not None
    assert (found.finished_job.result, found.finished_job.stalls) == (b"true", 0)
    assert worker.health().totals.lost == 0


async def test_a_heartbeat_thread_reports_a_lost_lease(shared: Store, shared_name: str, tmp_path: Path) -> None:
    """Q22: the thread stops the handler on the loop."""
    url = SHARED_URLS[shared_name](tmp_path)
    held, recorder = Held(), EventRecorder()
    await shared.jobs.enqueue([job("a", "held")])

    async with build_worker(
        shared,
        build_handlers(held=held.work, work=_nothing),
        recorder,
        heartbeat="100ms",
        reopen=lambda: open_store(url),
    ):
        await held.started.wait()
        await shared.jobs.remove(MAIL, ["a"])
        lost = await recorder.wait_for(LeaseLost)
        await shared.jobs.enqueue([job("b")])
        await recorder.wait_for(JobsFinished, lambda it: it.answers[0].id == "b")

    assert lost.why == "the store replied not_active"
    assert held.stopped_at is not None


async def test_work_on_a_loop_that_was_blocked_too_long_does_not_count(store: Store) -> None:
    """TB5: without a heartbeat thread, a settlement after the lease is refused and reported."""
    recorder = EventRecorder()

    async def blocking() -> None:
        threading.Event().wait(0.15)  # longer than the lease, which nobody can extend meanwhile

    await store.jobs.enqueue([job("a", "blocking", max_stalls=1)])
    worker = await run_until_idle(store, build_handlers(blocking=blocking), recorder, lease="100ms")

    assert [lost.claim.record.id for lost in recorder.of_type(LeaseLost)] == ["a"]
    assert worker.health().totals.done == 0
    assert worker.health().free == worker.settings.capacity


async def test_leases_end_as_usual_while_the_heartbeat_has_no_store(store: Store) -> None:
    """T32: without a connection for the heartbeat, handlers must still stop before other workers claim their jobs."""
    held, recorder = Held(), EventRecorder()

    async def reopen() -> NoReturn:
        raise StoreUnavailable("too many connections")

    await store.jobs.enqueue([job("a", "held")])
    async with build_worker(store, build_handlers(held=held.work), recorder, lease="500ms", reopen=reopen):
        lost = await recorder.wait_for(LeaseLost)

    assert lost.why == "its lease could not be extended in time"
    assert held.stopped_at is not None


async def test_a_heartbeat_that_can_never_run_ends_the_worker(store: Store) -> None:
    async def reopen() -> NoReturn:
        raise BadConfig("wrong password")

    with pytest.raises(BadConfig, match="wrong password"):
        async with asyncio.timeout(SOON_S):
            await build_worker(store, build_handlers(work=_nothing), reopen=reopen).run()


async def test_a_claim_that_was_answered_too_late_is_released_unstarted(flaky: FaultyStore) -> None:
    """TB1, T32: a job whose lease could end before the next heartbeat is not started."""
    ran, recorder = [], EventRecorder()

    async def work() -> None:
        ran.append(1)

    await flaky.jobs.enqueue([job("a")])
    gate = flaky.hold("claim")
    worker = build_worker(flaky, build_handlers(work=work), recorder, lease="1s")
    async with worker, asyncio.timeout(SOON_S):
        await flaky.called("claim", 1)
        asyncio.get_running_loop().call_later(0.8, gate.release)
        await recorder.wait_for(JobsFinished, lambda it: it.answers[0].status == "done")

    assert worker.health().totals.released == 1
    assert len(ran) == 1
