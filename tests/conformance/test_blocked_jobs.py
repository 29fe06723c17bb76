"""Blocked jobs: what was enqueued while its id was active, and what becomes of it when the active one ends."""

import pytest

from headrace.model.claim import Claim
from headrace.model.job import State, UpdateRunAt
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

ALWAYS, NEVER, IF_LATER, IF_EARLIER = UpdateRunAt
ENDS = ["done", "fail", "cancelled", "attempts", "stalls", "cancel_on_retry", "cancel_on_stall"]
RETURNS = ["retry", "release", "stall"]


async def active(play: Play, **fields: object) -> Claim:
    """The job `a` in the hands of worker-1 for a second."""
    await play.enqueue("a", **{"payload": b"old", **fields})
    return await play.claim_one(lease_ms=1_000)


async def stall(play: Play) -> None:
    """Let the lease expire, and repair it."""
    play.advance(1_000)
    await play.store.jobs.repair(play.queue, now_ms=play.now_ms)


async def end(play: Play, claim: Claim, how: str) -> None:
    """End the active one for good."""
    outcomes: dict[str, Outcome] = {"done": Done(b"1"), "fail": Failed(BOOM), "cancelled": Cancelled()}
    if how in outcomes:
        await play.settle(claim, outcomes[how])
        return
    if how in ("cancel_on_retry", "cancel_on_stall"):
        await ask_to_stop(play)
    else:
        await play.configure(max_attempts=1, max_stalls=1)
    if how in ("attempts", "cancel_on_retry"):
        await play.settle(claim, Retried(BOOM, delay_ms=5_000))
    else:
        await stall(play)


async def ask_to_stop(play: Play) -> None:
    """Ask the active one to stop and put the blocked job, which that cancels too, back behind it."""
    found = await play.found("a")
    await play.cancel("a", running=True)
    if found.blocked_job is not None:
        blocked_job = found.blocked_job
        await play.enqueue(
            "a",
            kind=blocked_job.kind,
            payload=blocked_job.payload,
            policy=blocked_job.policy,
            run_at_ms=blocked_job.run_at_ms,
        )


async def come_back(play: Play, claim: Claim, how: str, delay_ms: int = 0) -> None:
    """Let the active one wait again, due after `delay_ms` (at once after a stall)."""
    match how:
        case "retry":
            await play.settle(claim, Retried(BOOM, delay_ms=delay_ms))
        case "release":
            await play.settle(claim, Released(delay_ms=delay_ms))
        case _:
            await stall(play)


async def test_an_enqueue_of_an_active_id_becomes_a_blocked_job(play: Play) -> None:
    """Q4, Q5, Q12: blocked, and the active one is not touched."""
    claim = await active(play)
    before = await play.record("a")

    answer = await play.enqueue("a", payload=b"new", delay_ms=500)

    found, counts = await play.found("a"), await play.counts()
    assert (answer.id, answer.status, answer.ok) == ("a", "blocked", True)
    assert (found.state, found.record, found.fence) == (State.ACTIVE, before, claim.lease.fence)
    assert found.blocked_job is not None
    assert (found.blocked_job.payload, found.blocked_job.run_at_ms) == (b"new", play.now_ms + 500)
    assert (counts.active, counts.blocked, counts.waiting, counts.later) == (1, 1, 0, 0)
    assert (await play.history("a"))[-1] == "blocked"


async def test_however_often_an_active_id_is_enqueued_there_is_one_blocked_job(play: Play) -> None:
    """Q5: at most one waiting-or-blocked and one active record per id."""
    await active(play)

    answers = [await play.enqueue("a", payload=b"%d" % number) for number in range(5)]

    counts = await play.counts()
    assert [answer.status for answer in answers] == ["blocked"] * 5
    assert (counts.active, counts.blocked, counts.waiting) == (1, 1, 0)
    assert (await play.history("a")).count("blocked") == 5


@pytest.mark.parametrize("run_at_ms", [0, 1, None])
async def test_a_blocked_job_with_any_time_is_not_handed_out_while_the_first_runs(
    play: Play, run_at_ms: int | None
) -> None:
    """QB1: not with a time of zero either, and not after any number of claims."""
    await active(play)
    await play.enqueue("a", run_at_ms=run_at_ms)

    handed = [id for _ in range(3) for id in await play.claim_ids(worker="worker-2")]

    assert handed == []
    assert (await play.counts()).active == 1


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("flag", [None, NEVER, IF_EARLIER])
async def test_a_blocked_job_becomes_a_job_of_its_own_when_the_active_one_is_over(
    play: Play, how: str, flag: UpdateRunAt | None
) -> None:
    """Q24, QB2: whatever its flags and however the active one ended, at its own time and with counters of zero."""
    claim = await active(play)
    run_at_ms = play.now_ms + 10_000
    await play.enqueue("a", kind="next", payload=b"new", run_at_ms=run_at_ms, update_run_at=flag, update_payload=False)

    await end(play, claim, how)

    record, counts = await play.record("a"), await play.counts()
    assert (record.kind, record.payload, record.run_at_ms) == ("next", b"new", run_at_ms)
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms) == (0, 0, None, None)
    assert (counts.active, counts.blocked, counts.waiting, counts.later) == (0, 0, 1, 1)
    assert (await play.history("a"))[-1] == "unblocked"
    play.advance(run_at_ms - play.now_ms - 1)
    assert await play.claim_ids() == []
    play.advance(1)
    assert await play.claim_ids() == ["a"]


async def test_a_freed_blocked_job_has_its_own_policy_and_nothing_of_the_first(play: Play) -> None:
    claim = await active(play, policy=Policy(priority=9, max_attempts=2), tag="old", headers={"h": "old"})
    await play.enqueue("a", payload=b"new", policy=Policy(max_stalls=7), update_policy=False)

    await play.settle(claim)

    record = await play.record("a")
    assert (record.policy, record.tag, record.headers) == (Policy(max_stalls=7), None, {})


async def test_a_freed_blocked_job_that_is_due_is_ready_at_once_and_last_in_line(play: Play) -> None:
    """Q24: it draws its number when it becomes ready."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second))
    claim = await play.claim_one()
    await play.enqueue(first, run_at_ms=0)

    await play.settle(claim)
    await play.enqueue(third)

    assert await play.claim_ids() == [second, first, third]


async def test_a_freed_blocked_job_leaves_the_finished_job_of_the_first_in_sight(play: Play) -> None:
    """Only a new job deletes an older finished job; the blocked job existed before."""
    claim = await active(play)
    await play.enqueue("a", delay_ms=500)

    await play.settle(claim, Done(b"1"))

    found = await play.found("a")
    assert found.state is State.WAITING
    assert found.finished_job is not None
    assert found.finished_job.result == b"1"


async def test_a_freed_blocked_job_of_a_dead_job_waits_while_the_dead_letter_is_kept(play: Play) -> None:
    """v1-a: the death is recorded and the blocked job lives."""
    claim = await active(play)
    await play.enqueue("a", payload=b"new")

    await play.settle(claim, Failed(BOOM))

    found = await play.found("a")
    assert found.state is State.WAITING
    assert [dead_letter.record.payload for dead_letter in found.dead_letters] == [b"old"]
    assert (await play.history("a"))[-2:] == ["dead", "unblocked"]


@pytest.mark.parametrize("how", RETURNS)
async def test_a_blocked_job_is_applied_on_top_of_a_job_that_comes_back_and_vanishes(play: Play, how: str) -> None:
    """Q25, v1-c: retried, released or stalled, the job is one job again and can be claimed."""
    claim = await active(play, kind="send", tag="old")
    await play.enqueue("a", kind="next", payload=b"new", tag="new", headers={"h": "1"}, run_at_ms=0)

    await come_back(play, claim, how)

    counts, history = await play.counts(), await play.history("a")
    [again] = await play.claim(10)
    record = again.record
    assert (counts.active, counts.blocked, counts.waiting) == (0, 0, 1)
    assert (record.kind, record.payload, record.tag, record.headers) == ("next", b"new", "new", {"h": "1"})
    assert history[-2:] == [{"retry": "retried", "release": "released", "stall": "stalled"}[how], "merged"]


@pytest.mark.parametrize(
    ("how", "counted"), [("retry", (1, 0, BOOM)), ("release", (0, 0, None)), ("stall", (0, 1, "stalled"))]
)
async def test_an_applied_blocked_job_leaves_the_counters_alone(
    play: Play, how: str, counted: tuple[int, int, object]
) -> None:
    """Q10: counters are those of the job that comes back, unless the blocked job asks for fresh ones."""
    claim = await active(play)
    await play.enqueue("a", payload=b"new")

    await come_back(play, claim, how)

    record = await play.record("a")
    assert (record.attempts, record.stalls) == counted[:2]
    assert (record.error is None) == (counted[2] is None)


@pytest.mark.parametrize("how", RETURNS)
async def test_an_applied_blocked_job_that_resets_counts_puts_them_back(play: Play, how: str) -> None:
    """Q10: reset_counts works through the blocked job."""
    claim = await active(play)
    await play.enqueue("a", reset_counts=True)

    await come_back(play, claim, how)

    record = await play.record("a")
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms) == (0, 0, None, None)


@pytest.mark.parametrize(("update_payload", "expected"), [(True, b"new"), (False, b"old")])
async def test_an_applied_blocked_job_brings_its_payload_only_with_update_payload(
    play: Play, update_payload: bool, expected: bytes
) -> None:
    """Q8, Q25: the flag of the blocked enqueue decides."""
    claim = await active(play)
    await play.enqueue("a", payload=b"new", update_payload=update_payload)

    await come_back(play, claim, "retry")

    assert (await play.record("a")).payload == expected


@pytest.mark.parametrize(
    ("update_policy", "expected"),
    [(True, Policy(priority=2, max_attempts=7, backoff_ms=3)), (False, Policy(priority=2, backoff_ms=9))],
)
async def test_an_applied_blocked_job_changes_only_the_policy_fields_it_gives(
    play: Play, update_policy: bool, expected: Policy
) -> None:
    """Q11: field by field, as on a waiting job."""
    claim = await active(play, policy=Policy(priority=2, backoff_ms=9))
    await play.enqueue("a", policy=Policy(max_attempts=7, backoff_ms=3), update_policy=update_policy)

    await come_back(play, claim, "retry")

    assert (await play.record("a")).policy == expected


async def test_an_applied_blocked_job_decides_the_line_in_which_the_job_waits(play: Play) -> None:
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second), play.job(third))
    claim = await play.claim_one()
    await play.enqueue(first, policy=Policy(priority=9))

    await play.settle(claim, Released())

    assert await play.claim_ids() == [first, second, third]


CLAMPS: list[tuple[list[tuple[UpdateRunAt | None, int | None]], int]] = [
    # what was enqueued behind it (flag, time), and when a job whose retry is due at 50 runs then
    ([(None, None)], 50),
    ([(None, 20)], 20),
    ([(None, 80)], 80),
    ([(ALWAYS, 20)], 20),
    ([(ALWAYS, 80)], 80),
    ([(NEVER, 20)], 50),
    ([(NEVER, 80)], 50),
    ([(IF_LATER, 20)], 50),
    ([(IF_LATER, 80)], 80),
    ([(IF_EARLIER, 20)], 20),
    ([(IF_EARLIER, 80)], 50),
    ([(ALWAYS, 20), (ALWAYS, 80)], 80),
    ([(ALWAYS, 80), (NEVER, 20)], 80),
    ([(NEVER, 20), (ALWAYS, 80)], 80),
    ([(ALWAYS, 20), (IF_LATER, 30)], 30),
    ([(ALWAYS, 20), (IF_EARLIER, 10)], 10),
    ([(ALWAYS, 20), (IF_EARLIER, 30)], 20),
    ([(IF_LATER, 80), (IF_EARLIER, 60)], 60),
    ([(IF_LATER, 80), (IF_EARLIER, 20)], 20),
    ([(IF_EARLIER, 20), (IF_LATER, 30)], 30),
    ([(IF_EARLIER, 20), (IF_LATER, 10)], 20),
    ([(IF_LATER, 60), (IF_LATER, 80)], 80),
    ([(IF_EARLIER, 40), (IF_EARLIER, 20)], 20),
    ([(IF_LATER, 30), (IF_EARLIER, 70)], 50),
    ([(IF_EARLIER, 70), (IF_LATER, 60)], 60),
    ([(IF_LATER, 80), (ALWAYS, 10)], 10),
    ([(IF_LATER, 80), (None, None)], 80),
    ([(ALWAYS, None)], 0),
    ([(IF_EARLIER, None)], 0),
    ([(IF_LATER, None)], 50),
]


@pytest.mark.parametrize(("enqueues", "expected"), CLAMPS)
async def test_the_time_of_a_returning_job_is_clamped_by_its_blocked_job(
    play: Play, enqueues: list[tuple[UpdateRunAt | None, int | None]], expected: int
) -> None:
    """Q9, Q25, QB2: as if the enqueues had come after the retry, one by one."""
    claim = await active(play)
    start_ms = play.now_ms
    for flag, at_ms in enqueues:
        run_at_ms = None if at_ms is None else start_ms + at_ms
        await play.enqueue("a", run_at_ms=run_at_ms, update_run_at=flag)

    settled = await play.settle(claim, Retried(BOOM, delay_ms=50))

    assert settled.run_at_ms == start_ms + expected
    assert (await play.record("a")).run_at_ms == start_ms + expected


@pytest.mark.parametrize("how", RETURNS)
async def test_the_clamp_holds_for_every_way_of_coming_back(play: Play, how: str) -> None:
    """Q9: a blocked job with a time ahead holds back a stalled job too."""
    claim = await active(play)
    run_at_ms = play.now_ms + 9_000
    await play.enqueue("a", run_at_ms=run_at_ms, update_run_at=IF_LATER)

    await come_back(play, claim, how)

    assert (await play.record("a")).run_at_ms == run_at_ms
    assert await play.claim_ids() == []
    assert (await play.counts()).later == 1


OWN_TIMES: list[tuple[list[tuple[UpdateRunAt | None, int | None]], int]] = [
    ([(NEVER, 20)], 20),
    ([(IF_EARLIER, 20)], 20),
    ([(IF_LATER, 20)], 20),
    ([(None, None)], 0),
    ([(ALWAYS, 20), (NEVER, 80)], 20),
    ([(NEVER, 20), (ALWAYS, 80)], 80),
    ([(NEVER, 20), (IF_LATER, 80)], 80),
    ([(NEVER, 20), (IF_LATER, 10)], 20),
    ([(NEVER, 20), (IF_EARLIER, 80)], 20),
    ([(NEVER, 20), (IF_EARLIER, 10)], 10),
    ([(ALWAYS, 20), (None, None)], 20),
]


@pytest.mark.parametrize(("enqueues", "expected"), OWN_TIMES)
async def test_the_time_of_a_blocked_job_is_merged_by_the_flags_of_later_enqueues(
    play: Play, enqueues: list[tuple[UpdateRunAt | None, int | None]], expected: int
) -> None:
    """QB2: the first one brings a time in any case; without one it is the instant of the enqueue."""
    claim = await active(play)
    start_ms = play.now_ms
    for flag, at_ms in enqueues:
        run_at_ms = None if at_ms is None else start_ms + at_ms
        await play.enqueue("a", run_at_ms=run_at_ms, update_run_at=flag)

    await play.settle(claim)

    assert (await play.record("a")).run_at_ms == start_ms + expected


async def test_flags_of_one_enqueue_are_not_undone_by_the_next(play: Play) -> None:
    """QB7: payload, policy and reset flags of several blocked enqueues are OR-ed."""
    claim = await active(play)
    await play.enqueue("a", payload=b"new", policy=Policy(priority=8), reset_counts=True)
    await play.enqueue("a", payload=b"newer", policy=Policy(priority=1), update_payload=False, update_policy=False)

    await come_back(play, claim, "retry")

    record = await play.record("a")
    assert (record.payload, record.policy, record.attempts) == (b"new", Policy(priority=8), 0)


async def test_a_later_enqueue_may_bring_what_an_earlier_one_did_not(play: Play) -> None:
    """QB7: the flags are OR-ed in either order."""
    claim = await active(play)
    await play.enqueue("a", payload=b"new", update_payload=False, update_policy=False)
    await play.enqueue("a", payload=b"newer", policy=Policy(priority=1), reset_counts=True)

    await come_back(play, claim, "retry")

    record = await play.record("a")
    assert (record.payload, record.policy, record.attempts) == (b"newer", Policy(priority=1), 0)


async def test_a_merged_blocked_job_that_is_freed_has_the_payload_that_an_upsert_would_have(play: Play) -> None:
    """QB7: the second enqueue meets a blocked job as it would meet a waiting job."""
    claim = await active(play)
    await play.enqueue("a", payload=b"first", policy=Policy(priority=8, max_stalls=2))
    await play.enqueue("a", payload=b"second", policy=Policy(priority=1), update_payload=False)

    await play.settle(claim)

    record = await play.record("a")
    assert (record.payload, record.policy) == (b"first", Policy(priority=1, max_stalls=2))


@pytest.mark.parametrize("how", ["retry", "stall"])
async def test_death_is_decided_by_the_policy_the_delivery_ran_under(play: Play, how: str) -> None:
    """A blocked job that would have raised the budget, or reset the counters, comes too late for this delivery."""
    claim = await active(play, policy=Policy(max_attempts=1, max_stalls=1))
    await play.enqueue("a", payload=b"new", policy=Policy(max_attempts=9, max_stalls=9), reset_counts=True)

    await come_back(play, claim, how)

    record, [dead_letter] = await play.record("a"), await play.dead_letters()
    assert (dead_letter.record.payload, dead_letter.reason) == (b"old", {"retry": "attempts", "stall": "stalls"}[how])
    assert (record.payload, record.attempts, record.stalls) == (b"new", 0, 0)


async def test_a_blocked_job_that_resets_the_counters_does_not_save_the_delivery_that_uses_up_the_budget(
    play: Play,
) -> None:
    claim = await active(play, policy=Policy(max_attempts=2))
    await play.settle(claim, Retried(BOOM, delay_ms=0))
    last = await play.claim_one()
    await play.enqueue("a", payload=b"new", reset_counts=True)

    answer = await play.settle(last, Retried(BOOM, delay_ms=0))

    record = await play.record("a")
    assert answer.status == "dead"
    assert (record.payload, record.attempts) == (b"new", 0)


async def test_a_blocked_job_that_lowers_the_budget_counts_from_the_next_delivery_on(play: Play) -> None:
    claim = await active(play)
    await play.enqueue("a", policy=Policy(max_attempts=1))

    first = await play.settle(claim, Retried(BOOM, delay_ms=0))
    second = await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=0))

    assert (first.status, second.status) == ("retried", "dead")


@pytest.mark.parametrize("how", [*RETURNS, *ENDS])
async def test_there_are_never_two_active_records_of_an_id(play: Play, how: str) -> None:
    """Q5, QB1, QB3: whatever happened, one claim gets the id, and a second gets nothing."""
    claim = await active(play)
    await play.enqueue("a", run_at_ms=0)
    await (come_back if how in RETURNS else end)(play, claim, how)

    first = await play.claim_ids(worker="worker-2")
    second = await play.claim_ids(worker="worker-3")

    assert (first, second) == (["a"], [])
    assert ((await play.counts()).active, (await play.counts()).waiting) == (1, 0)
    assert (await play.settle(claim)).status == "lease_mismatch"


async def test_a_blocked_job_of_a_blocked_job_that_was_freed_is_a_blocked_job_again(play: Play) -> None:
    """Q5: the same rules hold for every generation."""
    claim = await active(play)
    for number in range(3):
        blocked = await play.enqueue("a", payload=b"%d" % number)
        await play.settle(claim)
        claim = await play.claim_one()
        assert (blocked.status, claim.record.payload) == ("blocked", b"%d" % number)

    assert (await play.settle(claim)).status == "done"
    assert (await play.counts()).waiting == (await play.counts()).blocked == 0


async def test_an_enqueue_between_the_end_of_a_lease_and_its_repair_is_blocked(play: Play) -> None:
    """Until it is repaired, the job is active; the blocked job is applied by the repair."""
    await active(play)
    play.advance(5_000)

    answer = await play.enqueue("a", payload=b"new")
    claim = await play.claim_one()

    assert answer.status == "blocked"
    assert (claim.record.payload, claim.record.stalls) == (b"new", 1)
    assert (await play.counts()).blocked == 0


async def test_blocked_jobs_of_many_jobs_are_each_freed_by_their_own(play: Play) -> None:
    """Q24: in one call, whatever the shards."""
    ids = [f"job-{number}" for number in range(12)]
    await play.enqueue_all(*[play.job(id, payload=b"old") for id in ids])
    claims = await play.claim(12)
    await play.enqueue_all(*[play.job(id, payload=id.encode()) for id in ids[:6]])

    await play.store.jobs.settle([claim.settle(Done()) for claim in claims], now_ms=play.now_ms)

    again = await play.claim(20)
    assert {claim.record.id: claim.record.payload for claim in again} == {id: id.encode() for id in ids[:6]}


async def test_a_settlement_that_is_refused_leaves_the_blocked_job_alone(play: Play) -> None:
    """QB3: a zombie neither frees nor applies the blocked job of the new owner."""
    zombie = await active(play)
    play.advance(1_000)
    await play.claim_one()
    await play.enqueue("a", payload=b"new")
    before = await play.snapshot()

    answers = [await play.settle(zombie, outcome) for outcome in (Done(), Retried(BOOM), Released(), Failed(BOOM))]

    assert {answer.status for answer in answers} == {"lease_mismatch"}
    assert await play.snapshot() == before


async def test_a_blocked_job_expires_like_any_other_job_once_it_is_freed(play: Play) -> None:
    claim = await active(play)
    await play.enqueue("a", payload=b"new", policy=Policy(expires_at_ms=play.now_ms + 10))
    play.advance(11)
    await play.settle(claim)

    handed = await play.claim_ids()

    [dead_letter] = await play.dead_letters()
    assert handed == []
    assert (dead_letter.reason, dead_letter.record.payload) == ("expired", b"new")
