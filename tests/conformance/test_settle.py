"""Settle: which outcomes end a delivery, who may settle it, and which records remain."""

import pytest
from msgspec.structs import replace

from headrace.model.claim import Claim, Lease
from headrace.model.errors import Refused
from headrace.model.finished import FinishedJob
from headrace.model.job import State
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

FORGED = "forged.1"
OUTCOMES: list[Outcome] = [Done(b"1"), Retried(BOOM), Failed(BOOM), Released(), Cancelled()]
by_name = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)


async def finished_job(play: Play, id: str) -> FinishedJob | None:
    return await play.store.reads.finished_job(play.queue, id, now_ms=play.now_ms)


async def kept(play: Play, ids: list[str]) -> list[str]:
    """Which of the ids still have a finished job."""
    return [id for id in ids if await finished_job(play, id) is not None]


async def claimed(play: Play, id: str = "a", **fields: object) -> Claim:
    """A job of this id in the hands of worker-1, for one second."""
    await play.enqueue(id, **fields)
    return await play.claim_one(lease_ms=1_000)


def with_lease(claim: Claim, **changes: object) -> Claim:
    """A claim with a changed lease."""
    return replace(claim, lease=replace(claim.lease, **changes))


async def test_done_ends_the_job_and_keeps_its_result(play: Play) -> None:
    """Q24, T19, C19, K22: the active record goes, the result stays."""
    claim = await claimed(play, kind="resize", tag="t")
    play.advance(500)

    answer = await play.settle(claim, Done(b'{"ok":1}'), run_ms=450)

    found, counts, left = await play.found("a"), await play.counts(), await finished_job(play, "a")
    assert (answer.id, answer.status, answer.ok, answer.run_at_ms, answer.dead_letter) == (
        "a",
        "done",
        True,
        None,
        None,
    )
    assert (found.state, found.record) == (State.DONE, None)
    assert left is not None
    assert (left.state, left.result, left.kind, left.tag) == ("done", b'{"ok":1}', "resize", "t")
    assert (left.enqueued_at_ms, left.ended_at_ms) == (play.now_ms - 500, play.now_ms)
    assert (counts.active, counts.done) == (0, 1)
    assert await play.history("a") == ["enqueued", "claimed", "done"]
    assert await play.claim_ids() == []


async def test_retry_counts_an_attempt_and_waits_for_the_backoff(play: Play) -> None:
    """Q25, T20, C17, C18: attempts, error and time are stored with the job."""
    claim = await claimed(play)

    answer = await play.settle(claim, Retried(BOOM))

    record = await play.record("a")
    assert (answer.status, answer.run_at_ms) == ("retried", play.now_ms + 2_000)
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms) == (1, 0, BOOM, play.now_ms)
    assert record.run_at_ms == play.now_ms + 2_000
    assert await play.state("a") is State.WAITING
    play.advance(1_999)
    assert await play.claim_ids() == []
    play.advance(1)
    assert await play.claim_ids() == ["a"]


async def test_fail_is_a_dead_letter_at_once(play: Play) -> None:
    """T21, K25: record, error, time and reason are kept, and it is not delivered again."""
    claim = await claimed(play, payload=b"[1]", policy=Policy(max_attempts=9))

    answer = await play.settle(claim, Failed(BOOM))

    [dead_letter] = await play.dead_letters()
    assert (answer.status, answer.dead_letter, answer.run_at_ms) == ("dead", dead_letter.key, None)
    assert (dead_letter.record.id, dead_letter.record.payload, dead_letter.record.attempts) == ("a", b"[1]", 1)
    assert (dead_letter.reason, dead_letter.error, dead_letter.died_at_ms) == ("failed", BOOM, play.now_ms)
    assert await play.state("a") is State.DEAD
    assert await play.history("a") == ["enqueued", "claimed", "dead"]
    play.advance(86_400_000)
    assert await play.claim_ids() == []


async def test_release_counts_nothing(play: Play) -> None:
    """C16: back to waiting at once, or after a delay, and nothing is counted."""
    claim = await claimed(play)
    released = await play.settle(claim, Released())
    again = await play.claim_one()

    delayed = await play.settle(again, Released(delay_ms=700))

    record = await play.record("a")
    assert (released.status, released.run_at_ms) == ("released", play.now_ms)
    assert (delayed.status, delayed.run_at_ms, record.run_at_ms) == ("released", play.now_ms + 700, play.now_ms + 700)
    assert (record.attempts, record.stalls, record.error) == (0, 0, None)


async def test_cancelled_ends_the_job_without_a_cancel_request(play: Play) -> None:
    claim = await claimed(play)

    answer = await play.settle(claim, Cancelled())

    left = await finished_job(play, "a")
    assert answer.status == "cancelled"
    assert left is not None
    assert (left.state, left.result) == ("cancelled", None)
    assert (await play.counts()).cancelled == 1
    assert await play.dead_letters() == []


@by_name
async def test_settle_refuses_a_job_that_is_not_active_and_changes_nothing(play: Play, outcome: Outcome) -> None:
    """T17, QB9, KB6: unknown, waiting or over already; a defined answer, never an error."""
    claim = await claimed(play)
    await play.settle(claim, Released())
    before = await play.snapshot()

    waiting = await play.settle(claim, outcome)
    unknown = await play.settle(with_lease(claim, id="nobody"), outcome)
    elsewhere = await play.settle(with_lease(claim, queue=Queue("nowhere", "acme", play.queue.shards)), outcome)

    assert [each.status for each in (waiting, unknown, elsewhere)] == ["not_active"] * 3
    assert not waiting.ok
    assert await play.snapshot() == before


@by_name
async def test_settle_refuses_a_lease_that_has_run_out_and_changes_nothing(play: Play, outcome: Outcome) -> None:
    """T17, TB1, QB3: at its end a lease holds no more, even before a repair."""
    claim = await claimed(play)
    play.advance(1_000)
    before = await play.snapshot()

    answer = await play.settle(claim, outcome)

    assert answer.status == "lease_expired"
    assert await play.snapshot() == before


@by_name
async def test_settle_is_accepted_at_the_last_instant_of_a_lease(play: Play, outcome: Outcome) -> None:
    """T17, TB10: a lease holds while now < expires_at_ms."""
    claim = await claimed(play)
    play.advance(999)

    answer = await play.settle(claim, outcome)

    assert answer.ok


@by_name
async def test_settle_refuses_a_stale_token_and_changes_nothing(play: Play, outcome: Outcome) -> None:
    """QB3, T17, T32, KB5, CB11: the first owner cannot end what the second has, even under the same name."""
    stale = await claimed(play)
    play.advance(1_000)
    await play.claim_one(lease_ms=1_000)
    before = await play.snapshot()

    answer = await play.settle(stale, outcome)

    assert answer.status == "lease_mismatch"
    assert await play.snapshot() == before


async def test_a_zombie_does_not_free_the_job_for_a_third(play: Play) -> None:
    """QB3, v1-d, T32: after its refused settlement the second owner still has the job alone, and can end it."""
    zombie = await claimed(play)
    play.advance(1_000)
    owner = await play.claim_one(worker="worker-2", lease_ms=1_000)
    await play.settle(zombie, Done())
    await play.settle(zombie, Retried(BOOM, delay_ms=0))

    third = await play.claim_ids(worker="worker-3")
    answer = await play.settle(owner, Done(b"mine"))

    left = await finished_job(play, "a")
    assert (third, answer.status) == ([], "done")
    assert left is not None
    assert left.result == b"mine"


async def test_expired_wins_over_a_wrong_token(play: Play) -> None:
    """TB8, T17: not active, then expired, then mismatch, in every store."""
    claim = await claimed(play)
    forged = with_lease(claim, token=FORGED)
    holding = await play.settle(forged)
    play.advance(1_000)

    over = await play.settle(forged)
    await play.settle(await play.claim_one())
    gone = await play.settle(forged)

    assert [each.status for each in (holding, over, gone)] == ["lease_mismatch", "lease_expired", "not_active"]


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "{nonce}",
        "{nonce}.",
        ".{fence}",
        "{nonce}.{fence}{fence}",
        "{nonce}.0{fence}",
        "{nonce}.{fence} ",
        "{nonce}.+{fence}",
        "{nonce}.{arabic}",
        "{loud}.{fence}",
        "%.{fence}",
        "9" * 400,
    ],
)
async def test_only_the_complete_token_settles(play: Play, forged: str) -> None:
    """T6, KB5: without the token no delivery can be settled; a token is text, and is compared as text."""
    claim = await claimed(play)
    nonce, _, fence = claim.lease.token.rpartition(".")
    arabic = fence.translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
    token = forged.format(nonce=nonce, fence=fence, arabic=arabic, loud=nonce.upper())

    answer = await play.settle(with_lease(claim, token=token))

    assert answer.status == "lease_mismatch"
    assert await play.state("a") is State.ACTIVE


async def test_the_facts_of_a_settlement_do_not_change_the_record(play: Play) -> None:
    """The store decides attempts, stalls and how long a finished job is kept; facts are for the journal."""
    settlement = (await claimed(play, tag="t")).settle(Done(b"1"))
    facts = replace(settlement.facts, kind="other", tag=None, enqueued_at_ms=0)

    await play.store.jobs.settle([replace(settlement, facts=facts)], now_ms=play.now_ms)

    left = await finished_job(play, "a")
    assert left is not None
    assert (left.kind, left.tag, left.enqueued_at_ms) == ("send", "t", play.now_ms)
    assert (left.attempts, left.stalls, left.pinned) == (0, 0, False)
    assert (await play.events(id="a"))[-1].line.attempts == 0


async def test_the_token_alone_counts_and_not_the_other_fields_of_the_lease(play: Play) -> None:
    """The store knows when a lease ends; a caller that claims otherwise is neither believed nor refused."""
    claim = await claimed(play)
    play.advance(1_000)

    late = await play.settle(with_lease(claim, expires_at_ms=play.now_ms + 99_999))
    fresh = await play.claim_one()
    settled = await play.settle(with_lease(fresh, expires_at_ms=0, fence=0))

    assert (late.status, settled.status) == ("lease_expired", "done")


async def test_a_token_of_another_queue_settles_nothing(play: Play) -> None:
    """CB12: a lease is good for its own queue and tenant."""
    second, rival = (Queue(name, tenant, play.queue.shards) for name, tenant in (("second", "acme"), ("mail", "rival")))
    await play.enqueue_all(*[play.job("a", queue=queue) for queue in (play.queue, second, rival)])
    mine = await play.claim_one()
    await play.claim_one(queues=[second])
    await play.claim_one(queues=[rival])

    answers = [await play.settle(with_lease(mine, queue=queue)) for queue in (second, rival)]

    assert [answer.status for answer in answers] == ["lease_mismatch"] * 2
    assert [(await play.counts(queue)).active for queue in (play.queue, second, rival)] == [1, 1, 1]


async def test_a_mixed_batch_is_answered_item_by_item_in_order(play: Play) -> None:
    """C21: one call, every outcome, refusals among them, whatever the shards."""
    names = ["done", "retry", "fail", "release", "cancelled", "stale", "gone"]
    await play.enqueue_all(*[play.job(name) for name in names])
    claims = {claim.record.id: claim for claim in await play.claim(10)}
    await play.settle(claims["gone"])
    outcomes: list[Outcome] = [Done(), Retried(BOOM, delay_ms=5), Failed(BOOM), Released(), Cancelled(), Done(), Done()]
    claims["stale"] = with_lease(claims["stale"], token=FORGED)

    answers = await play.store.jobs.settle(
        [claims[name].settle(outcome) for name, outcome in zip(names, outcomes, strict=True)], now_ms=play.now_ms
    )

    expected = ["done", "retried", "dead", "released", "cancelled", "lease_mismatch", "not_active"]
    assert [(answer.id, answer.status) for answer in answers] == list(zip(names, expected, strict=True))
    counts = await play.counts()
    assert (counts.waiting, counts.active, counts.done, counts.cancelled, counts.dead) == (2, 1, 2, 1, 1)


async def test_of_two_settlements_of_one_lease_in_a_batch_the_first_holds(play: Play) -> None:
    """CB15: no update is lost, none is applied twice."""
    claim = await claimed(play)

    answers = await play.store.jobs.settle(
        [claim.settle(Done(b"1")), claim.settle(Retried(BOOM)), claim.settle(Done(b"2"))], now_ms=play.now_ms
    )

    left = await finished_job(play, "a")
    assert [answer.status for answer in answers] == ["done", "not_active", "not_active"]
    assert left is not None
    assert left.result == b"1"


@by_name
async def test_a_settlement_sent_again_changes_nothing(play: Play, outcome: Outcome) -> None:
    """QB9: once applied, it is answered not_active."""
    claim = await claimed(play)
    await play.settle(claim, outcome)
    before = await play.snapshot()

    again = await play.settle(claim, outcome)

    assert again.status == "not_active"
    assert await play.snapshot() == before


async def test_a_settlement_sent_again_does_not_touch_the_next_delivery(play: Play) -> None:
    """CB1, KB6: a doubled retry counts once, and puts no second copy in line."""
    claim = await claimed(play)
    await play.settle(claim, Retried(BOOM, delay_ms=0))
    await play.claim_one(worker="worker-2")

    again = await play.settle(claim, Retried(BOOM, delay_ms=0))

    found = await play.found("a")
    assert again.status == "lease_mismatch"
    assert (found.state, (await play.record("a")).attempts) == (State.ACTIVE, 1)


async def test_releasing_a_job_that_is_done_does_not_bring_it_back(play: Play) -> None:
    """CB7, K24: what is over stays over."""
    claim = await claimed(play)
    await play.settle(claim, Done(b"1"))

    answer = await play.settle(claim, Released())

    assert answer.status == "not_active"
    assert await play.state("a") is State.DONE
    assert await play.claim_ids() == []


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
async def test_max_attempts_is_the_exact_number_of_runs(play: Play, max_attempts: int) -> None:
    """CB1, TB2, T30, Q26, C18: max_attempts=5 runs a failing handler five times, and not more."""
    await play.enqueue("a", policy=Policy(max_attempts=max_attempts))

    statuses = []
    while claims := await play.claim():
        statuses.append((await play.settle(claims[0], Retried(BOOM, delay_ms=0))).status)

    [dead_letter] = await play.dead_letters()
    assert statuses == ["retried"] * (max_attempts - 1) + ["dead"]
    assert (dead_letter.reason, dead_letter.error, dead_letter.record.attempts) == ("attempts", BOOM, max_attempts)
    assert (await play.history("a")).count("claimed") == max_attempts


async def test_a_job_without_a_policy_has_ten_attempts(play: Play) -> None:
    """TB2: the documented default is the one that holds."""
    await play.enqueue("a")

    runs = 0
    while claims := await play.claim():
        runs += 1
        await play.settle(claims[0], Retried(BOOM, delay_ms=0))

    assert runs == 10


async def test_a_death_writes_dead_and_nothing_else(play: Play) -> None:
    """Never retried and dead of one delivery."""
    claim = await claimed(play, policy=Policy(max_attempts=1))

    await play.settle(claim, Retried(BOOM), run_ms=7)

    event = (await play.events(id="a"))[-1]
    assert await play.history("a") == ["enqueued", "claimed", "dead"]
    assert (event.line.reason, event.line.error_class, event.line.attempts) == ("attempts", "Boom", 1)


async def test_releases_and_stalls_do_not_use_up_attempts(play: Play) -> None:
    """T15, Q23: stalls have a budget of their own, releases have none."""
    await play.enqueue("a", policy=Policy(max_attempts=2, max_stalls=9))
    for _ in range(4):
        await play.settle(await play.claim_one(), Released())
        await play.claim_one(lease_ms=10)
        play.advance(10)

    first = await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=0))
    second = await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=0))

    assert (first.status, second.status) == ("retried", "dead")


async def test_the_backoff_doubles_and_is_capped(play: Play) -> None:
    """Q29, C24, T31: backoff_ms * 2^(attempts - 1), at most backoff_ms_max."""
    await play.enqueue("a", policy=Policy(backoff_ms=100, backoff_ms_max=1_000))

    delays = []
    for _ in range(6):
        answer = await play.settle(await play.claim_one(), Retried(BOOM))
        assert answer.run_at_ms is not None
        delays.append(answer.run_at_ms - play.now_ms)
        play.advance(delays[-1])

    assert delays == [100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize(
    ("jitter_ppm", "expected_ms"), [(0, 0), (1, 0), (250_000, 250), (999_999, 999), (1_000_000, 1_000)]
)
async def test_jitter_scales_the_backoff_and_rounds_down(play: Play, jitter_ppm: int, expected_ms: int) -> None:
    """C24, T31: chance comes in as a number, so every store gets the same."""
    claim = await claimed(play, policy=Policy(backoff_ms=1_000))

    answer = await play.settle(claim, Retried(BOOM, jitter_ppm=jitter_ppm))

    assert answer.run_at_ms == play.now_ms + expected_ms


@pytest.mark.parametrize("delay_ms", [0, 1, 999_999_999])
async def test_the_delay_of_a_handler_wins_over_the_backoff(play: Play, delay_ms: int) -> None:
    """Q29, C17, K24: also when it is shorter, or longer than backoff_ms_max."""
    claim = await claimed(play, policy=Policy(backoff_ms=1_000, backoff_ms_max=5_000))

    answer = await play.settle(claim, Retried(BOOM, delay_ms=delay_ms, jitter_ppm=1))

    assert (answer.status, answer.run_at_ms) == ("retried", play.now_ms + delay_ms)


async def test_a_policy_that_a_job_does_not_set_follows_the_queue_at_once(play: Play) -> None:
    """Q11: limits are those of the moment at which they are needed."""
    await play.enqueue_all(play.job("a"), play.job("b", policy=Policy(backoff_ms=7, max_attempts=3)))
    claims = {claim.record.id: claim for claim in await play.claim(2)}

    await play.configure(backoff_ms=50, max_attempts=2)
    first = {id: await play.settle(claim, Retried(BOOM)) for id, claim in claims.items()}
    play.advance(50)
    claims = {claim.record.id: claim for claim in await play.claim(2)}
    await play.configure(max_attempts=1)
    second = {id: await play.settle(claim, Retried(BOOM, delay_ms=0)) for id, claim in claims.items()}

    start_ms = play.now_ms - 50
    assert (first["a"].run_at_ms, first["b"].run_at_ms) == (start_ms + 50, start_ms + 7)
    assert (second["a"].status, second["b"].status) == ("dead", "retried")


async def test_the_cap_of_the_queue_holds_for_a_backoff_of_the_job(play: Play) -> None:
    claim = await claimed(play, policy=Policy(backoff_ms=60_000))
    await play.configure(backoff_ms_max=1_500)

    answer = await play.settle(claim, Retried(BOOM))

    assert answer.run_at_ms == play.now_ms + 1_500


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Done(), "done"),
        (Failed(BOOM), "dead"),
        (Retried(BOOM), "cancelled"),
        (Released(), "cancelled"),
        (Cancelled(), "cancelled"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
async def test_a_cancel_request_ends_a_job_that_would_wait_again(play: Play, outcome: Outcome, status: str) -> None:
    """Done and Fail still win."""
    claim = await claimed(play)
    await play.cancel("a", running=True)

    answer = await play.settle(claim, outcome)

    assert (answer.status, answer.run_at_ms) == (status, None)
    assert (await play.counts()).waiting == 0
    assert (await play.history("a"))[-1] == status


async def test_a_cancel_request_wins_over_the_attempts(play: Play) -> None:
    """The job ends cancelled, without a dead letter."""
    claim = await claimed(play, policy=Policy(max_attempts=1))
    await play.cancel("a", running=True)

    answer = await play.settle(claim, Retried(BOOM))

    assert answer.status == "cancelled"
    assert await play.dead_letters() == []


async def test_a_finished_job_is_kept_until_its_time_is_over(play: Play) -> None:
    """K22, K23, KB10: kept while now < until, an hour by default, and then not shown, swept or not."""
    await play.settle(await claimed(play), Done(b"1"))
    play.advance(3_600_000 - 1)
    last = await finished_job(play, "a")

    play.advance(1)

    assert last is not None
    assert (await finished_job(play, "a"), await play.find("a")) == (None, None)
    await play.store.jobs.repair(play.queue, now_ms=play.now_ms)
    assert (await play.counts()).done == 0


async def test_finished_jobs_whose_time_is_over_are_swept_by_the_next_settle(play: Play) -> None:
    """Of those that are kept by count and of those that a job keeps for itself; what is not over stays."""
    await play.configure(keep_done_ms=1_000)
    first, second, third, last = play.ids(4)
    await play.settle(await play.start(first))
    await play.settle(await play.start(second, policy=Policy(result_ttl_ms=500)), Done(b"1"))
    play.advance(999)
    await play.settle(await play.start(third))
    before = (await play.counts()).done
    play.advance(1)

    await play.settle(await play.start(last))

    assert (before, (await play.counts()).done) == (2, 2)
    assert await kept(play, [first, second, third, last]) == [third, last]


async def test_keep_done_ms_of_the_queue_rules_at_the_moment_of_the_end(play: Play) -> None:
    await play.configure(keep_done_ms=500)
    await play.settle(await claimed(play))
    await play.configure(keep_done_ms=900_000)

    play.advance(499)
    held = await play.state("a")
    play.advance(1)

    assert (held, await play.state("a")) == (State.DONE, None)


async def test_the_newest_finished_jobs_of_a_shard_are_kept(play: Play) -> None:
    """TB13, KB10: finished jobs do not grow without bound; the oldest go first."""
    ids = play.ids(6)
    await play.configure(keep_done_max=3)
    await play.enqueue_all(*[play.job(id) for id in ids])

    for claim in reversed(await play.claim(6)):
        await play.settle(claim)

    assert await kept(play, ids) == ids[:3]
    assert (await play.counts()).done == 3


async def test_finished_jobs_of_one_call_are_swept_in_the_order_of_the_call(play: Play) -> None:
    ids = play.ids(5)
    await play.configure(keep_done_max=2)
    await play.enqueue_all(*[play.job(id) for id in ids])
    claims = await play.claim(5)

    await play.store.jobs.settle([claim.settle(Done()) for claim in reversed(claims)], now_ms=play.now_ms)

    assert await kept(play, ids) == ids[:2]


async def test_finished_jobs_of_one_call_keep_each_its_own(play: Play) -> None:
    """Many that are alike, some with another kind, tag, result or time to live between them, and an id with quotes."""
    ids = [*play.ids(24), 'a "quoted" id', "ä"]
    kinds = {id: "resize" if place % 10 == 9 else "send" for place, id in enumerate(ids)}
    tags = {id: "t" * (place // 6) or None for place, id in enumerate(ids)}
    results = {id: b'{"ok":1}' if place % 5 == 4 else b"1" for place, id in enumerate(ids)}
    policies = {id: Policy(result_ttl_ms=9_000) for id in ids[12:14]}
    for id in ids:
        await play.enqueue(id, kind=kinds[id], tag=tags[id], policy=policies.get(id, Policy()))
        play.advance(7)
    claims = await play.claim(len(ids))

    settlements = [claim.settle(Done(results[claim.record.id])) for claim in claims]
    await play.store.jobs.settle(settlements, now_ms=play.now_ms)

    finished_jobs = [await finished_job(play, id) for id in ids]
    left = {each.id: (each.kind, each.tag, each.result, each.pinned) for each in finished_jobs if each is not None}
    enqueued = {each.id: each.enqueued_at_ms for each in finished_jobs if each is not None}
    assert left == {id: (kinds[id], tags[id], results[id], id in policies) for id in ids}
    assert enqueued == {claim.record.id: claim.record.enqueued_at_ms for claim in claims}
    assert (await play.counts()).done == len(ids)


async def test_cancelled_and_done_share_the_bound(play: Play) -> None:
    ids = play.ids(3)
    await play.configure(keep_done_max=2)
    await play.enqueue_all(*[play.job(id) for id in ids])
    claims = await play.claim(2)
    await play.settle(claims[0])
    await play.settle(claims[1], Cancelled())

    await play.cancel(ids[2])

    assert await kept(play, ids) == ids[1:]


async def test_a_result_with_a_time_to_live_is_kept_that_long_whatever_the_count(play: Play) -> None:
    """K22, K23, KB12: pinned, and gone at its own time."""
    first, second, third = ids = play.ids(3)
    await play.configure(keep_done_max=1, keep_done_ms=60_000)
    await play.enqueue(first, policy=Policy(result_ttl_ms=10_000))
    await play.enqueue_all(play.job(second), play.job(third))

    for claim in await play.claim(3):
        await play.settle(claim, Done(b"1"))

    assert await kept(play, ids) == [first, third]
    play.advance(9_999)
    assert await kept(play, ids) == [first, third]
    play.advance(1)
    assert await kept(play, ids) == [third]


async def test_a_result_with_a_time_to_live_is_kept_where_nothing_else_is(play: Play) -> None:
    first, second = ids = play.ids(2)
    await play.configure(keep_done_max=0)
    await play.enqueue_all(play.job(first, policy=Policy(result_ttl_ms=10_000)), play.job(second))

    for claim in await play.claim(2):
        await play.settle(claim, Done(b"1"))

    assert await kept(play, ids) == [first]


async def test_pinned_finished_jobs_do_not_push_others_out(play: Play) -> None:
    ids = play.ids(4)
    await play.configure(keep_done_max=2)
    await play.enqueue_all(*[play.job(id, policy=Policy(result_ttl_ms=9_000)) for id in ids[:2]])
    await play.enqueue_all(*[play.job(id) for id in ids[2:]])

    for claim in await play.claim(4):
        await play.settle(claim)

    assert await kept(play, ids) == ids


@pytest.mark.parametrize("setting", ["keep_done_ms", "keep_done_max"])
async def test_a_queue_may_keep_no_finished_jobs_at_all(play: Play, setting: str) -> None:
    await play.configure(**{setting: 0})

    answer = await play.settle(await claimed(play), Done(b"1"))

    assert answer.status == "done"
    assert (await play.find("a"), (await play.counts()).done) == (None, 0)


async def test_a_second_finished_job_of_an_id_replaces_the_first(play: Play) -> None:
    await play.settle(await claimed(play), Done(b"1"))

    await play.settle(await claimed(play), Done(b"2"))

    left = await finished_job(play, "a")
    assert left is not None
    assert left.result == b"2"
    assert (await play.counts()).done == 1


async def test_a_finished_job_counts_its_attempts(play: Play) -> None:
    """T33: attempts and stalls stay visible."""
    await play.enqueue("a")
    await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=0))
    await play.claim_one(lease_ms=10)
    play.advance(10)

    await play.settle(await play.claim_one())

    left = await finished_job(play, "a")
    assert left is not None
    assert (left.attempts, left.stalls) == (1, 1)


async def test_the_last_error_travels_with_the_job(play: Play) -> None:
    """T4, T20: the next handler sees what went wrong before."""
    claim = await claimed(play)
    error = JobError.of("Weird:{}#'", 'it broke 😀\n\x00"quoted"')
    await play.settle(claim, Retried(error, delay_ms=0))
    failed_at_ms = play.now_ms
    play.advance(5)

    again = await play.claim_one()

    assert (again.record.error, again.record.failed_at_ms) == (error, failed_at_ms)


async def test_the_journal_describes_the_end_of_a_delivery_in_full(play: Play) -> None:
    """What the worker knows, and what the store decides."""
    await play.enqueue("a", kind="resize", tag="t", payload=b"[1]", policy=Policy(priority=7))
    enqueued_at_ms = play.now_ms
    play.advance(40)
    claim = await play.claim_one(worker="worker-7")
    play.advance(60)

    await play.settle(claim, Retried(BOOM, delay_ms=500), run_ms=55)

    event = (await play.events(id="a"))[-1]
    line = event.line
    assert (event.at_ms, line.event, line.worker, line.fence) == (play.now_ms, "retried", "worker-7", claim.lease.fence)
    assert (line.kind, line.tag, line.priority, line.payload_bytes) == ("resize", "t", 7, 3)
    assert (line.attempts, line.stalls, line.run_at_ms) == (1, 0, play.now_ms + 500)
    assert (line.enqueued_at_ms, line.wait_ms, line.run_ms) == (enqueued_at_ms, 40, 55)
    assert (line.error_class, line.error_message) == (BOOM.cls, BOOM.message)


async def test_a_refused_settlement_among_done_ones_leaves_their_lines_as_they_are(play: Play) -> None:
    """A batch of done jobs is written like jobs settled one by one."""
    names = play.ids(3)
    await play.enqueue_all(*[play.job(name, tag='"t"', kind="a\\b") for name in names])
    for claim in await play.claim(3):
        await play.settle(claim, Retried(BOOM, delay_ms=0))
    first, second, third = await play.claim(3)
    play.advance(60)

    forged = with_lease(second, token=FORGED)
    batch = [claim.settle(Done(), 55) for claim in (first, forged, third)]
    answers = await play.store.jobs.settle(batch, now_ms=play.now_ms)
    alone = await play.store.jobs.settle([second.settle(Done(), 55)], now_ms=play.now_ms)

    lines = [event.line for event in await play.events() if event.line.event == "done"]
    assert [answer.status for answer in (*answers, *alone)] == ["done", "lease_mismatch", "done", "done"]
    assert [line.id for line in lines] == [first.lease.id, third.lease.id, second.lease.id]
    assert [line.fence for line in lines] == [first.lease.fence, third.lease.fence, second.lease.fence]
    assert {(line.kind, line.tag, line.run_ms, line.attempts, line.stalls) for line in lines} == {
        ("a\\b", '"t"', 55, 1, 0)
    }


async def test_settlements_of_two_workers_in_one_call_keep_their_names(play: Play) -> None:
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))
    claims = [await play.claim_one(worker="worker-1"), await play.claim_one(worker="worker-2")]

    await play.store.jobs.settle([claim.settle(Done()) for claim in claims], now_ms=play.now_ms)

    workers = [(await play.events(id=id))[-1].line.worker for id in (first, second)]
    assert workers == ["worker-1", "worker-2"]


async def test_a_settle_with_a_wrong_number_of_shards_refuses_the_whole_call(play: Play) -> None:
    claim = await claimed(play)
    before = await play.snapshot()
    wrong = with_lease(claim, queue=Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1))

    with pytest.raises(Refused) as refused:
        await play.store.jobs.settle([claim.settle(Done()), wrong.settle(Done())], now_ms=play.now_ms)

    assert refused.value.reason == "wrong_shards"
    assert await play.snapshot() == before


async def test_a_batch_of_settlements_beyond_the_limit_is_refused_whole(play: Play) -> None:
    claim = await claimed(play)
    before = await play.snapshot()

    with pytest.raises(Refused, match="at most 1,000 settlements; found 1,001"):
        await play.store.jobs.settle([claim.settle(Done())] * (BATCH_MAX + 1), now_ms=play.now_ms)

    assert await play.snapshot() == before


async def test_an_invented_lease_settles_nothing(play: Play) -> None:
    """KB5: knowing the id of a job is not enough."""
    claim = await claimed(play)
    made_up = Lease(play.queue, "a", "made-up-nonce.1", claim.lease.fence, claim.lease.expires_at_ms)

    answer = await play.settle(replace(claim, lease=made_up))

    assert answer.status == "lease_mismatch"
    assert (await play.settle(claim)).status == "done"
