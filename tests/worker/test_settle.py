"""Settlements are repeated until the store has answered them, and refused ones are reported."""

import asyncio

import pytest

from headrace.model import outcome as outcomes
from headrace.model.claim import Claim, Lease, check_settlements
from headrace.model.clock import ManualClock
from headrace.model.job import Record, State
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, JobError, Outcome, Released, Retried
from headrace.stores.contract.store import Store
from headrace.testing.faults import DOWN, LOST, FaultyStore, Hold
from headrace.worker.events import JobsFinished, LeaseLost
from headrace.worker.exceptions import Fail
from headrace.worker.fetch_loop import CONCURRENT_SETTLE_MIN
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

REPORTS = Queue("reports")


class Runs:
    """A handler that counts."""

    def __init__(self) -> None:
        self.count = 0

    async def work(self) -> None:
        """Count one more."""
        self.count += 1


@pytest.mark.parametrize("fault", [LOST, DOWN], ids=["reply-lost", "unavailable"])
async def test_a_settlement_without_an_answer_is_sent_again(flaky: FaultyStore, fault: Exception) -> None:
    """T32, TB5: neither a lost request nor a lost reply makes a job run twice."""
    runs, recorder = Runs(), EventRecorder()
    flaky.fail("settle", "turn", error=fault, times=2)
    await flaky.jobs.enqueue([job("a")])

    worker = await run_until_idle(flaky, build_handlers(work=runs.work), recorder)

    assert runs.count == 1
    assert [settlement.lease.id for settlement in flaky.settled] == ["a", "a", "a"]
    assert (await find(flaky, "a")).state is State.DONE
    assert recorder.of_type(LeaseLost) == []
    assert worker.health().running == []


async def test_what_is_known_of_a_partly_lost_reply_is_not_sent_again(flaky: FaultyStore) -> None:
    runs, gate, recorder = Runs(), asyncio.Event(), EventRecorder()

    async def work() -> None:
        await gate.wait()
        await runs.work()

    await flaky.jobs.enqueue(jobs(5))
    flaky.lose("settle", heard=2)
    async with build_worker(flaky, build_handlers(work=work), recorder, poll="1h"):
        await flaky.called("wait", 1)
        gate.set()
        await recorder.wait_for(
            JobsFinished, lambda _: sum(len(it.answers) for it in recorder.of_type(JobsFinished)) == 5
        )

    assert [settlement.lease.id for settlement in flaky.settled] == ["0", "1", "2", "3", "4", "2", "3", "4"]
    assert (await flaky.queues.counts(MAIL)).done == 5
    assert recorder.of_type(LeaseLost) == []


@pytest.mark.parametrize("heard", [0, 1, 2])
async def test_a_partly_lost_reply_about_one_id_in_two_queues_is_not_mixed_up(flaky: FaultyStore, heard: int) -> None:
    """QB15: the id is ambiguous, so both settlements are sent again."""
    gate, recorder = asyncio.Event(), EventRecorder()

    async def work() -> None:
        await gate.wait()

    async def fail() -> None:
        await gate.wait()
        raise Fail("on reports")

    await flaky.jobs.enqueue([job("a"), job("a", "fail", queue=REPORTS), job("b", queue=REPORTS)])
    flaky.lose("settle", heard=heard)
    worker = build_worker(flaky, build_handlers(MAIL, REPORTS, work=work, fail=fail), recorder, poll="1h")
    async with worker:
        await flaky.called("wait", 1)
        gate.set()
        await flaky.called("settle", 2)

    assert [(await find(flaky, "a", queue)).state for queue in (MAIL, REPORTS)] == [State.DONE, State.DEAD]
    assert recorder.of_type(LeaseLost) == []
    pairs = [pair for it in recorder.of_type(JobsFinished) for pair in zip(it.settlements, it.answers, strict=True)]
    assert len(pairs) == 3
    assert ("dead", MAIL) not in [(answer.status, each.lease.queue) for each, answer in pairs]


async def test_a_refused_settlement_is_reported(timed: Store, clock: ManualClock) -> None:
    """T32, TB5: an outcome that does not count is not swallowed."""
    recorder = EventRecorder()

    async def work() -> None:
        clock.advance(60_000)

    await timed.jobs.enqueue([job("a", max_stalls=1)])
    worker = await run_until_idle(timed, build_handlers(work=work), recorder, lease="30s")

    [lost] = recorder.of_type(LeaseLost)
    assert (lost.claim.record.id, lost.why) == ("a", "its settlement was refused: lease_expired")
    assert worker.health().totals.refused == 1


async def test_a_job_that_is_done_keeps_its_lease_until_it_is_settled(timed: Store, clock: ManualClock) -> None:
    """T28, TB5: while the store does not answer, no other worker may claim the finished job."""
    flaky, runs = FaultyStore(timed), Runs()
    hold = flaky.hold("settle")
    await flaky.jobs.enqueue([job("a")])

    async with build_worker(flaky, build_handlers(work=runs.work), lease="3s", heartbeat="20ms", poll="1h"):
        await flaky.called("settle", 1)
        for _ in range(3):
            await flaky.called("extend", flaky.calls["extend"] + 2)
            clock.advance(2_000)
        hold.release()

    finished_job = (await find(flaky, "a")).finished_job
    assert finished_job is not None
    assert (finished_job.state, finished_job.stalls, runs.count) == ("done", 0, 1)


async def test_under_load_settlements_and_claims_travel_together(flaky: FaultyStore) -> None:
    """T24: one call settles finished jobs and claims new ones."""
    runs = Runs()
    await flaky.jobs.enqueue(jobs(500))

    await run_until_idle(flaky, build_handlers(work=runs.work), capacity=20)

    assert runs.count == 500
    assert flaky.calls["turn"] >= 20
    assert flaky.calls["settle"] + flaky.calls["claim"] + flaky.calls["turn"] <= 60, flaky.calls


async def test_more_than_a_call_can_carry_is_settled_in_several(flaky: FaultyStore) -> None:
    count = 2 * BATCH_MAX + 500
    gate, all_here = asyncio.Event(), asyncio.Event()
    here = Runs()

    async def work() -> None:
        await here.work()
        if here.count == count:
            all_here.set()
        await gate.wait()

    for at in range(0, count, BATCH_MAX):
        await flaky.jobs.enqueue(jobs(count)[at : at + BATCH_MAX])
    async with build_worker(flaky, build_handlers(work=work), capacity=5_000), asyncio.timeout(SOON_S):
        await all_here.wait()
        gate.set()

    assert (await flaky.queues.counts(MAIL)).done == count


@pytest.mark.parametrize("verb", ["claim", "turn"])
async def test_a_claim_whose_answer_was_lost_is_repeated_with_its_nonce(flaky: FaultyStore, verb: str) -> None:
    """T32, TB4, TB5: the jobs of the lost answer come with the repeated one, and none of them stalls."""
    runs = Runs()
    flaky.lose(verb)
    await flaky.jobs.enqueue(jobs(8))

    worker = await run_until_idle(flaky, build_handlers(work=runs.work), capacity=4)

    assert runs.count == 8
    nonces = [request.nonce for request in flaky.claims]
    assert len(nonces) - len(set(nonces)) == 1
    finished_jobs = [(await find(flaky, str(number))).finished_job for number in range(8)]
    assert {finished_job.stalls for finished_job in finished_jobs if finished_job is not None} == {0}
    assert worker.health().totals.lost == 0


async def test_a_nonce_is_dropped_when_its_leases_have_ended(flaky: FaultyStore) -> None:
    """TB4: a delivery whose answer was lost counts as a stall, and the job is claimed again."""
    runs = Runs()
    flaky.lose("claim")
    flaky.fail("claim", times=3)
    await flaky.jobs.enqueue([job("a")])

    async with build_worker(
        flaky, build_handlers(work=runs.work), recorder := EventRecorder(), lease="200ms", poll="20ms"
    ):
        await recorder.wait_for(JobsFinished)

    assert len({request.nonce for request in flaky.claims}) > 1
    finished_job = (await find(flaky, "a")).finished_job
    assert finished_job is not None
    assert (finished_job.stalls, runs.count) == (1, 1)


async def test_a_claim_that_the_store_never_saw_has_its_whole_lease_when_it_is_answered(flaky: FaultyStore) -> None:
    """TB6: jobs claimed after an outage longer than a lease are run, not released."""
    runs = Runs()
    for _ in range(5):
        flaky.fail("claim")
    await flaky.jobs.enqueue(jobs(3))

    worker = await run_until_idle(flaky, build_handlers(work=runs.work), lease="1s")

    totals = worker.health().totals
    assert (totals.done, totals.released, totals.lost) == (3, 0, 0)


@pytest.mark.parametrize("seconds", [0.0, 0.02])
async def test_the_time_that_a_handler_took_is_sent_along(flaky: FaultyStore, seconds: float) -> None:
    done = asyncio.Event()

    async def work() -> None:
        asyncio.get_running_loop().call_later(seconds, done.set)
        await done.wait()

    await flaky.jobs.enqueue([job("a")])
    await run_until_idle(flaky, build_handlers(work=work))

    [settlement] = flaky.settled
    assert settlement.facts.run_ms >= int(seconds * 900)
    assert settlement.facts.worker == "worker-1"


def hold_the_second_claim(flaky: FaultyStore) -> Hold:
    """Let it be answered no sooner than it is released."""
    flaky.hold("claim").release()
    return flaky.hold("claim")


@pytest.mark.parametrize(
    ("ended", "calls"), [(CONCURRENT_SETTLE_MIN, 1), (CONCURRENT_SETTLE_MIN - 1, 0)], ids=["many", "few"]
)
async def test_many_settlements_do_not_wait_for_a_claim_under_way_and_few_go_with_the_next(
    flaky: FaultyStore, ended: int, calls: int
) -> None:
    recorder = EventRecorder()
    claimed = asyncio.Event()

    async def work() -> None:
        await claimed.wait()

    # The first claim takes half of the capacity, the second is not answered before it may be.
    await flaky.jobs.enqueue(jobs(ended + 1))
    answer = hold_the_second_claim(flaky)
    async with (
        asyncio.timeout(SOON_S),
        build_worker(flaky, build_handlers(work=work), recorder, capacity=2 * ended, poll="1h"),
    ):
        await flaky.called("claim", 2)
        claimed.set()
        for _ in range(10):
            await asyncio.sleep(0)
        settled_meanwhile = flaky.calls["settle"]
        answer.release()
        await recorder.wait_for(
            JobsFinished, lambda _: sum(len(it.answers) for it in recorder.of_type(JobsFinished)) == ended + 1
        )

    assert settled_meanwhile == calls
    assert (await flaky.queues.counts(MAIL)).done == ended + 1


async def test_settlements_that_failed_beside_a_claim_go_with_the_next_call(flaky: FaultyStore) -> None:
    """TB5: a lost reply beside a claim loses nothing either."""
    claimed, recorder = asyncio.Event(), EventRecorder()

    async def work() -> None:
        await claimed.wait()

    await flaky.jobs.enqueue(jobs(CONCURRENT_SETTLE_MIN + 1))
    answer = hold_the_second_claim(flaky)
    flaky.lose("settle")
    async with (
        asyncio.timeout(SOON_S),
        build_worker(flaky, build_handlers(work=work), recorder, capacity=2 * CONCURRENT_SETTLE_MIN, poll="1h"),
    ):
        await flaky.called("claim", 2)
        claimed.set()
        await flaky.called("settle", 1)
        answer.release()
        await recorder.wait_for(
            JobsFinished,
            lambda _: sum(len(it.answers) for it in recorder.of_type(JobsFinished)) == CONCURRENT_SETTLE_MIN + 1,
        )

    assert (await flaky.queues.counts(MAIL)).done == CONCURRENT_SETTLE_MIN + 1
    assert recorder.of_type(LeaseLost) == []


async def test_where_the_store_works_in_this_process_nothing_goes_beside_a_claim(flaky: FaultyStore) -> None:
    claimed, recorder = asyncio.Event(), EventRecorder()

    async def work() -> None:
        await claimed.wait()

    flaky.is_remote = False
    await flaky.jobs.enqueue(jobs(CONCURRENT_SETTLE_MIN + 1))
    answer = hold_the_second_claim(flaky)
    async with (
        asyncio.timeout(SOON_S),
        build_worker(flaky, build_handlers(work=work), recorder, capacity=2 * CONCURRENT_SETTLE_MIN, poll="1h"),
    ):
        await flaky.called("claim", 2)
        claimed.set()
        for _ in range(10):
            await asyncio.sleep(0)
        settled_meanwhile = flaky.calls["settle"]
        answer.release()
        await recorder.wait_for(
            JobsFinished,
            lambda _: sum(len(it.answers) for it in recorder.of_type(JobsFinished)) == CONCURRENT_SETTLE_MIN + 1,
        )

    assert settled_meanwhile == 0


ENDS = [
    Done(),
    Done(b"7"),
    Retried(JobError("E", "no"), 5, 9),
    outcomes.Failed(JobError("E")),
    Released(3),
    Cancelled(),
]


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("claimed_at_ms", [50, 1_000])
def test_a_worker_settles_with_what_its_claim_would_say(outcome: Outcome, claimed_at_ms: int) -> None:
    """Skips the check of the jobs that the store has handed out."""
    record = Record(
        id="a", kind="work", payload=b"{}", run_at_ms=600, enqueued_at_ms=100, tag="t", attempts=2, stalls=1
    )
    claim = Claim(Lease(MAIL, "a", "t.7", 7, 31_000), record, "worker-1", 5, 0, claimed_at_ms)

    own, checked = claim.settle_own(outcome, 12), claim.settle(outcome, 12)

    assert (own.lease, own.outcome, own.facts) == (checked.lease, checked.outcome, checked.facts)
    assert own.facts.wait_ms == max(claimed_at_ms - 600, 0)
    check_settlements([own, checked])
