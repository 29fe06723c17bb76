"""Cancel: ends waiting jobs, and asks active ones to stop, for the present delivery."""

import pytest

from headrace.model.job import State
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

COMES_BACK = [
    pytest.param(Retried(BOOM), id="retry"),
    pytest.param(Retried(BOOM, 0), id="retry-at-once"),
    pytest.param(Released(), id="release"),
    pytest.param(Released(5_000), id="release-later"),
    pytest.param(Cancelled(), id="cancelled"),
]


async def test_cancel_ends_a_ready_job(play: Play) -> None:
    """Q15: cancel of a waiting job removes it and answers yes."""
    await play.enqueue("a")

    answer = await play.cancel("a")

    assert (answer.id, answer.status, answer.blocked_job) == ("a", "cancelled", False)
    assert await play.state("a") is State.CANCELLED
    assert await play.claim(10) == []
    assert await play.history("a") == ["enqueued", "cancelled"]


async def test_cancel_ends_a_later_job_which_is_not_handed_out_when_its_time_comes(play: Play) -> None:
    """Q15: a job that is not due yet is waiting too."""
    await play.enqueue("a", delay_ms=60_000)

    answer = await play.cancel("a")
    play.advance(60_000)

    assert answer.status == "cancelled"
    assert await play.claim(10) == []
    assert (await play.counts()).waiting == 0


async def test_cancel_ends_a_job_that_waits_between_two_attempts(play: Play) -> None:
    """Q15: a retried job waits again, so it can be cancelled."""
    await play.settle(await play.start("a"), Retried(BOOM))

    answer = await play.cancel("a")
    play.advance(3_600_000 - 1)

    assert answer.status == "cancelled"
    assert await play.claim(10) == []
    finished_job = (await play.found("a")).finished_job
    assert finished_job is not None
    assert (finished_job.state, finished_job.attempts) == ("cancelled", 1)


async def test_cancel_answers_not_found_for_an_unknown_id_and_changes_nothing(play: Play) -> None:
    """Q15: an unknown id answers no."""
    await play.enqueue("a")
    before = await play.snapshot()

    answer = await play.cancel("nobody", running=True)

    assert answer.status == "not_found"
    assert await play.snapshot() == before


async def test_cancel_finds_nothing_in_an_unknown_queue_and_does_not_create_it(play: Play) -> None:
    answer = await play.cancel("a")

    assert answer.status == "not_found"
    assert (await play.store.queues.names("acme")).rows == []


@pytest.mark.parametrize("outcome", [Done(), Failed(BOOM), Cancelled()], ids=["done", "dead", "cancelled"])
async def test_cancel_does_not_find_a_job_that_is_over(play: Play, outcome: Outcome) -> None:
    """Q15: nothing waits or runs under the id any more."""
    await play.settle(await play.start("a"), outcome)
    before = await play.snapshot()

    answer = await play.cancel("a", running=True)

    assert answer.status == "not_found"
    assert await play.snapshot() == before


async def test_cancel_leaves_an_active_job_alone(play: Play) -> None:
    """Q15: an active job is not affected."""
    claim = await play.start("a")
    before = await play.snapshot()

    answer = await play.cancel("a")

    assert (answer.status, answer.blocked_job) == ("active", False)
    assert await play.snapshot() == before
    assert not (await play.extend(claim.lease)).cancel_asked
    assert (await play.settle(claim)).status == "done"


async def test_cancel_ends_the_blocked_job_without_a_finished_job_and_leaves_the_active_one(play: Play) -> None:
    """Q15: a blocked job can be cancelled like a waiting one."""
    claim = await play.start("a")
    await play.enqueue("a", payload=b"2")

    answer = await play.cancel("a")
    found = await play.found("a")
    await play.settle(claim)

    assert (answer.status, answer.blocked_job) == ("cancelled", True)
    assert (found.state, found.blocked_job, found.finished_job) == (State.ACTIVE, None, None)
    assert await play.state("a") is State.DONE
    assert await play.claim(10) == []
    assert await play.history("a") == ["enqueued", "claimed", "blocked", "cancelled", "done"]


async def test_a_cancelled_blocked_job_is_not_applied_when_the_active_one_comes_back(play: Play) -> None:
    claim = await play.start("a", payload=b"1")
    await play.enqueue("a", payload=b"2", run_at_ms=play.now_ms + 9_000)

    await play.cancel("a")
    await play.settle(claim, Released())

    record = await play.record("a")
    assert (record.payload, record.run_at_ms) == (b"1", play.now_ms)
    assert (await play.counts()).blocked == 0


async def test_cancel_running_ends_the_blocked_job_and_asks_the_active_one(play: Play) -> None:
    claim = await play.start("a")
    await play.enqueue("a")

    answer = await play.cancel("a", running=True)

    assert (answer.status, answer.blocked_job) == ("asked", True)
    found = await play.found("a")
    assert (found.state, found.blocked_job, found.cancel_asked) == (State.ACTIVE, None, True)
    assert (await play.settle(claim, Cancelled())).status == "cancelled"
    assert await play.state("a") is State.CANCELLED


async def test_cancel_running_ends_a_waiting_job_like_a_plain_cancel(play: Play) -> None:
    await play.enqueue("a")

    answer = await play.cancel("a", running=True)

    assert (answer.status, answer.blocked_job) == ("cancelled", False)
    assert await play.history("a") == ["enqueued", "cancelled"]


async def test_extend_reports_a_cancel_request_to_its_worker(play: Play) -> None:
    claim = await play.start("a")

    before = await play.extend(claim.lease)
    answer = await play.cancel("a", running=True)
    after = await play.extend(claim.lease)

    assert answer.status == "asked"
    assert (before.cancel_asked, after.cancel_asked) == (False, True)
    assert after.ok


async def test_asking_changes_neither_the_lease_nor_the_counters(play: Play) -> None:
    claim = await play.start("a")

    await play.cancel("a", running=True)

    found = await play.found("a")
    assert (found.fence, found.lease_expires_at_ms, found.worker) == (
        claim.lease.fence,
        claim.lease.expires_at_ms,
        "worker-1",
    )
    assert found.record == claim.record


async def test_asking_again_answers_the_same_and_writes_nothing_more(play: Play) -> None:
    await play.start("a")
    await play.cancel("a", running=True)
    before = await play.snapshot()

    answer = await play.cancel("a", running=True)

    assert answer.status == "asked"
    assert await play.snapshot() == before
    assert await play.history("a") == ["enqueued", "claimed", "asked"]


async def test_a_plain_cancel_does_not_take_the_asking_back(play: Play) -> None:
    claim = await play.start("a")
    await play.cancel("a", running=True)

    answer = await play.cancel("a")

    assert answer.status == "active"
    assert (await play.extend(claim.lease)).cancel_asked


@pytest.mark.parametrize("outcome", COMES_BACK)
async def test_a_retried_job_with_a_cancel_request_ends_cancelled(play: Play, outcome: Outcome) -> None:
    claim = await play.start("a")
    await play.cancel("a", running=True)

    answer = await play.settle(claim, outcome)
    play.advance(3_600_000 - 1)

    assert (answer.status, answer.run_at_ms, answer.dead_letter) == ("cancelled", None, None)
    assert await play.state("a") is State.CANCELLED
    assert await play.claim(10) == []
    assert await play.history("a") == ["enqueued", "claimed", "asked", "cancelled"]


async def test_a_job_with_a_cancel_request_ends_cancelled_when_its_lease_runs_out(play: Play) -> None:
    await play.start("a", lease_ms=1_000)
    await play.cancel("a", running=True)

    play.advance(1_000)
    claims = await play.claim(10)

    assert claims == []
    finished_job = (await play.found("a")).finished_job
    assert finished_job is not None
    assert (finished_job.state, finished_job.stalls) == ("cancelled", 1)
    assert await play.history("a") == ["enqueued", "claimed", "asked", "cancelled"]


async def test_done_wins_over_a_cancel_request(play: Play) -> None:
    claim = await play.start("a")
    await play.cancel("a", running=True)

    answer = await play.settle(claim, Done(b"7"))

    assert answer.status == "done"
    finished_job = await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)
    assert finished_job is not None
    assert (finished_job.state, finished_job.result) == ("done", b"7")


async def test_fail_wins_over_a_cancel_request(play: Play) -> None:
    claim = await play.start("a")
    await play.cancel("a", running=True)

    answer = await play.settle(claim, Failed(BOOM))

    assert answer.status == "dead"
    assert [dead_letter.reason for dead_letter in await play.dead_letters()] == ["failed"]


async def test_a_cancel_request_on_the_last_attempt_ends_cancelled_without_a_dead_letter(play: Play) -> None:
    claim = await play.start("a", policy=Policy(max_attempts=1))
    await play.cancel("a", running=True)

    answer = await play.settle(claim, Retried(BOOM))

    assert (answer.status, answer.dead_letter) == ("cancelled", None)
    assert await play.dead_letters() == []
    finished_job = (await play.found("a")).finished_job
    assert finished_job is not None
    assert finished_job.attempts == 1


async def test_a_cancel_request_on_the_last_stall_ends_cancelled_without_a_dead_letter(play: Play) -> None:
    await play.start("a", lease_ms=1_000, policy=Policy(max_stalls=1))
    await play.cancel("a", running=True)

    play.advance(1_000)
    await play.repair()

    assert await play.state("a") is State.CANCELLED
    assert await play.dead_letters() == []


async def test_a_job_enqueued_after_a_cancel_request_waits_when_the_cancelled_one_ends(play: Play) -> None:
    claim = await play.start("a", payload=b"1")
    await play.cancel("a", running=True)
    await play.enqueue("a", payload=b"2")

    await play.settle(claim, Retried(BOOM))
    again = await play.claim_one()

    assert again.record.payload == b"2"
    assert (again.record.attempts, again.record.stalls) == (0, 0)
    assert not (await play.extend(again.lease)).cancel_asked
    assert await play.history("a") == ["enqueued", "claimed", "asked", "blocked", "cancelled", "unblocked", "claimed"]


async def test_the_finished_job_of_a_cancelled_job_is_kept_for_keep_done_ms_and_not_longer(play: Play) -> None:
    await play.configure(keep_done_ms=10_000)
    await play.enqueue("a", kind="send", tag="spring")
    await play.cancel("a")

    finished_job = (await play.found("a")).finished_job
    play.advance(9_999)
    last = await play.find("a")
    play.advance(1)
    gone = await play.find("a")

    assert finished_job is not None
    assert (finished_job.kind, finished_job.tag, finished_job.result) == ("send", "spring", None)
    assert finished_job.until_ms == finished_job.ended_at_ms + 10_000
    assert last is not None
    assert gone is None


async def test_a_cancelled_id_can_be_enqueued_again_and_its_finished_job_goes(play: Play) -> None:
    await play.enqueue("a")
    await play.cancel("a")

    answer = await play.enqueue("a")

    found = await play.found("a")
    assert answer.status == "created"
    assert (found.state, found.finished_job) == (State.WAITING, None)


async def test_an_idempotency_key_outlives_the_cancelled_job(play: Play) -> None:
    """C8: the key is kept whatever becomes of the job."""
    first = await play.enqueue(idempotency_key="k")
    await play.cancel(first.id)

    again = await play.enqueue(idempotency_key="k")

    assert (again.id, again.status) == (first.id, "duplicate")
    assert await play.claim(10) == []


async def test_cancel_answers_a_batch_item_by_item_in_order(play: Play) -> None:
    active = await play.start("active")
    await play.enqueue("waiting")

    answers = await play.store.jobs.cancel(
        play.queue, ["nobody", "active", "waiting", "waiting"], running=True, now_ms=play.now_ms
    )

    assert [(answer.id, answer.status) for answer in answers] == [
        ("nobody", "not_found"),
        ("active", "asked"),
        ("waiting", "cancelled"),
        ("waiting", "not_found"),
    ]
    assert (await play.extend(active.lease)).cancel_asked


async def test_cancel_works_on_a_paused_queue(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)

    answer = await play.cancel("a")

    assert answer.status == "cancelled"
    assert (await play.counts()).waiting == 0
