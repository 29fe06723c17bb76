"""Claim: which jobs a worker gets, in which order, and under which lease."""

import random
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import CLAIM_BYTES_MAX, EXPIRIES_PER_CALL_MAX, PAYLOAD_BYTES_MAX, PROMOTIONS_PER_CALL_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play


async def test_ready_jobs_come_by_priority_and_then_in_order_of_arrival(play: Play) -> None:
    """C6, C10, K20: higher tiers first, first in first out within a tier, exactly."""
    ids = play.ids(60)
    chance = random.Random(7)
    arrivals = [(id, chance.randrange(10)) for id in chance.sample(ids, len(ids))]
    for id, priority in arrivals:
        await play.enqueue(id, policy=Policy(priority=priority))

    handed = [id for _ in range(6) for id in await play.claim_ids(10)]

    assert handed == [id for id, _ in sorted(arrivals, key=lambda arrival: -arrival[1])]


async def test_jobs_of_one_call_come_by_priority_and_then_in_their_order(play: Play) -> None:
    ids = play.ids(20)
    rng = random.Random(8)
    priorities = {id: rng.randrange(10) for id in ids}
    await play.enqueue_all(*[play.job(id, policy=Policy(priority=priorities[id])) for id in ids])

    claimed = [id for _ in range(4) for id in await play.claim_ids(5)]

    assert claimed == sorted(ids, key=lambda id: -priorities[id])


async def test_a_batch_is_enqueued_in_order(play: Play) -> None:
    """T11: runnable jobs are handed out first in, first out."""
    ids = play.ids(20)
    shuffled = random.Random(3).sample(ids, len(ids))

    await play.enqueue_all(*[play.job(id) for id in shuffled])

    assert await play.claim_ids() == shuffled


async def test_a_job_without_a_priority_has_that_of_its_queue_when_it_draws_its_number(play: Play) -> None:
    """C7: the default is 5, and the queue may choose another at any time."""
    four, five, six, later = play.ids(4)
    await play.enqueue(later, delay_ms=100)
    await play.enqueue_all(
        play.job(four, policy=Policy(priority=4)), play.job(five), play.job(six, policy=Policy(priority=6))
    )

    by_default = await play.claim_ids()
    await play.configure(priority=8)
    play.advance(100)
    [claim] = await play.claim(10)

    assert by_default == [six, five, four]
    assert claim.priority == 8


async def test_a_changed_priority_of_the_queue_ranks_what_becomes_ready_from_then_on(play: Play) -> None:
    seven, follows, later = play.ids(3)
    await play.enqueue(later, delay_ms=100)
    await play.configure(priority=8)
    await play.enqueue_all(play.job(seven, policy=Policy(priority=7)), play.job(follows))
    play.advance(100)

    assert await play.claim_ids() == [follows, later, seven]


async def test_a_claim_returns_the_time_of_the_store(play: Play) -> None:
    """The `now_ms` of the call, however the claim is answered; without one the store's clock."""
    unknown = await play.claims()
    await play.enqueue_all(*[play.job(id) for id in play.ids(3)])
    nonce = play.nonce()
    play.advance(5)
    handed = await play.claims(2, nonce=nonce)
    play.advance(5)
    again = await play.claims(2, nonce=nonce)
    await play.claims(2)
    idle = [await play.claims() for _ in range(3)]

    request = ClaimRequest(queues=[play.queue], worker="worker-1", nonce=play.nonce(), lease_ms=1_000)
    live = await play.store.jobs.claim(request)

    assert (unknown.now_ms, handed.now_ms, again.now_ms) == (play.now_ms - 10, play.now_ms - 5, play.now_ms)
    assert [claims.now_ms for claims in idle] == [play.now_ms] * 3
    [claim] = live.items
    assert live.now_ms == claim.claimed_at_ms > play.now_ms


async def test_claim_leaves_jobs_that_are_not_due(play: Play) -> None:
    """Q16, T11: not one millisecond before its time, and at its time."""
    await play.enqueue("a", delay_ms=1_000)

    play.advance(999)
    early = await play.claim_ids()
    play.advance(1)
    due = await play.claim_ids()

    assert (early, due) == ([], ["a"])


async def test_a_claim_hands_out_no_more_than_its_limit(play: Play) -> None:
    """Q16, T12: the rest stays in line."""
    ids = play.ids(5)
    await play.enqueue_all(*[play.job(id) for id in ids])

    assert await play.claim_ids(2) == ids[:2]
    assert (await play.counts()).waiting == 3
    assert await play.claim_ids(3) == ids[2:]
    assert await play.claim_ids(1) == []


async def test_a_claim_finds_work_in_every_shard(play: Play) -> None:
    ids = {f"job-{number}" for number in range(60)}
    await play.enqueue_all(*[play.job(id) for id in ids])

    assert set(await play.claim_ids()) == ids


async def test_claims_start_at_different_shards(play: Play) -> None:
    """A claim over several shards starts at a rotating one, so that none is starved."""
    await play.enqueue_all(*[play.job(f"job-{number}") for number in range(400)])

    first_shards = {play.queue.index_of(id) for _ in range(40) for id in await play.claim_ids(1)}

    assert first_shards == set(range(play.queue.shards))


@pytest.mark.parametrize("policy", [Policy(), Policy(priority=5)], ids=["usual", "own priority"])
async def test_later_jobs_become_ready_by_time_and_then_by_id(play: Play, policy: Policy) -> None:
    """Q16, C11: promotion is in order (run_at, id), whatever the order of arrival."""
    first, second, third, fourth = play.ids(4)
    await play.enqueue_all(
        play.job(fourth, delay_ms=300, policy=policy),
        play.job(second, delay_ms=200, policy=policy),
        play.job(third, delay_ms=100, policy=policy),
    )
    await play.enqueue(first, delay_ms=200, policy=policy)
    play.advance(1_000)

    assert await play.claim_ids() == [third, first, second, fourth]


async def test_ids_of_the_same_time_are_ordered_by_code_point(play: Play) -> None:
    """Whatever the collation; letters by case, and 4-byte characters behind all others."""
    words = ["a", "A", "B", "b", "Z", "_", "é", "z", "\uff21", "😀", "\u2603", "10", "9"]
    home = play.queue.index_of("a")
    ids = [next(id for n in range(99) if play.queue.index_of(id := word + "." * n) == home) for word in words]
    await play.enqueue_all(*[play.job(id, delay_ms=100) for id in ids])
    play.advance(100)

    assert await play.claim_ids() == sorted(ids)


async def test_a_promoted_job_is_behind_ready_jobs_and_before_later_ones(play: Play) -> None:
    """TB11: scheduled work is not starved by immediate work that keeps arriving."""
    first, second, third, scheduled = play.ids(4)
    await play.enqueue(scheduled, delay_ms=1_000)
    await play.enqueue_all(play.job(first), play.job(second))
    play.advance(1_000)

    handed = await play.claim_ids(1)
    await play.enqueue(third)

    assert handed == [first]
    assert await play.claim_ids() == [second, scheduled, third]


async def test_priority_goes_before_the_time_of_a_promoted_job(play: Play) -> None:
    """C6: the tiers hold for scheduled work too."""
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first, delay_ms=100), play.job(second, delay_ms=200, policy=Policy(priority=9)))
    play.advance(200)

    assert await play.claim_ids() == [second, first]


async def test_a_claim_promotes_a_thousand_jobs_of_a_shard_and_no_more(play: Play) -> None:
    """TB13, C11: the bound is part of the contract."""
    ids = play.ids(PROMOTIONS_PER_CALL_MAX + 2)
    await play.enqueue_all(*[play.job(id, delay_ms=100) for id in ids[:1_000]])
    await play.enqueue_all(*[play.job(id, delay_ms=100) for id in ids[1_000:]])
    play.advance(100)

    await play.claim_ids(1)

    after_one = (await play.counts()).later
    await play.claim_ids(1)
    assert (after_one, (await play.counts()).later) == (2, 0)


async def test_a_due_job_is_promoted_and_handed_out_once(play: Play) -> None:
    """CB2: however many claims meet it, and also after it was done."""
    await play.enqueue("a", delay_ms=100)
    play.advance(100)

    [claim] = await play.claim(10)
    others = [await play.claim_ids(worker=f"worker-{number}") for number in range(2, 5)]
    await play.settle(claim)

    assert others == [[], [], []]
    assert await play.claim_ids() == []


@pytest.mark.parametrize("way", ["retry", "release", "stall"])
async def test_a_job_that_comes_back_draws_a_new_number(play: Play, way: str) -> None:
    """TB11, C16, K24: it goes behind those that wait, and before those that come later."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second))
    claim = await play.claim_one(lease_ms=100)
    if way == "stall":
        play.advance(100)
        await play.store.jobs.repair(play.queue, now_ms=play.now_ms)
    else:
        await play.settle(claim, Released() if way == "release" else Retried(BOOM, delay_ms=0))

    await play.enqueue(third)

    assert await play.claim_ids() == [second, first, third]


async def test_a_blocked_job_is_never_handed_out(play: Play) -> None:
    """Q4, Q12, Q16, QB1: whatever its time, zero included."""
    await play.enqueue("a")
    await play.claim_one(lease_ms=60_000)
    await play.enqueue("a", run_at_ms=0)

    play.advance(59_999)

    assert await play.claim_ids() == []
    assert (await play.counts()).active == 1


async def test_a_paused_queue_hands_out_nothing_and_everything_else_goes_on(play: Play) -> None:
    """Repair, promotion and enqueue go on."""
    stalled, scheduled, enqueued = play.ids(3)
    await play.enqueue(stalled)
    await play.claim_one(lease_ms=100)
    await play.enqueue(scheduled, delay_ms=100)
    await play.configure(paused=True)
    play.advance(100)

    answer = await play.enqueue(enqueued)
    handed = await play.claim_ids()

    counts = await play.counts()
    assert (answer.status, handed) == ("created", [])
    assert (counts.waiting, counts.later, counts.active) == (3, 0, 0)
    assert (await play.record(stalled)).stalls == 1
    await play.configure(paused=False)
    assert await play.claim_ids() == [enqueued, stalled, scheduled]


async def test_a_job_that_runs_while_its_queue_is_paused_can_be_settled(play: Play) -> None:
    await play.enqueue("a")
    claim = await play.claim_one()
    await play.configure(paused=True)

    extended, settled = await play.extend(claim.lease), await play.settle(claim)

    assert (extended.status, settled.status) == ("extended", "done")


async def test_a_paused_queue_does_not_keep_the_next_one_from_being_served(play: Play) -> None:
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a"), play.job("b", queue=second))
    await play.configure(paused=True)

    assert await play.claim_ids(queues=[play.queue, second]) == ["b"]


async def test_a_claim_ends_at_four_mebibytes_of_payloads(play: Play) -> None:
    """A reply is bounded in bytes, too; what is left is worth asking for at once."""
    fitting = CLAIM_BYTES_MAX // PAYLOAD_BYTES_MAX
    ids = play.ids(fitting + 2)
    await play.enqueue_all(*[play.job(id, payload=b"x" * PAYLOAD_BYTES_MAX) for id in ids])

    claims = await play.claims(1_000)

    assert [claim.record.id for claim in claims.items] == ids[:fitting]
    assert claims.next_at_ms == play.now_ms
    assert await play.claim_ids() == ids[fitting:]


async def test_the_byte_limit_holds_for_all_queues_of_a_claim_together(play: Play) -> None:
    second = Queue("second", play.queue.tenant, play.queue.shards)
    half = CLAIM_BYTES_MAX // PAYLOAD_BYTES_MAX // 2 + 1
    ids = play.ids(half)
    for queue in (play.queue, second):
        await play.enqueue_all(*[play.job(id, payload=b"x" * PAYLOAD_BYTES_MAX, queue=queue) for id in ids])

    claims = await play.claims(1_000, queues=[play.queue, second])

    assert [claim.lease.queue for claim in claims.items] == [play.queue] * half + [second] * (half - 2)
    assert claims.next_at_ms == play.now_ms


async def test_a_job_may_start_at_the_last_instant_and_dies_after_it(play: Play) -> None:
    """Now <= expires_at_ms; later it is dead, reason expired."""
    in_time, late = play.ids(2)
    await play.enqueue_all(
        play.job(in_time, policy=Policy(expires_at_ms=play.now_ms + 100)),
        play.job(late, policy=Policy(expires_at_ms=play.now_ms + 99)),
    )
    play.advance(100)

    handed = await play.claim_ids()

    [dead_letter] = await play.dead_letters()
    assert handed == [in_time]
    assert (dead_letter.record.id, dead_letter.reason, dead_letter.died_at_ms) == (late, "expired", play.now_ms)
    assert (dead_letter.record.attempts, dead_letter.record.stalls) == (0, 0)
    assert await play.history(late) == ["enqueued", "dead"]


async def test_jobs_that_expire_do_not_count_against_the_limit(play: Play) -> None:
    ids = play.ids(5)
    soon = Policy(expires_at_ms=play.now_ms + 1)
    policies = [soon, Policy(), soon, soon, Policy()]
    await play.enqueue_all(*[play.job(id, policy=policy) for id, policy in zip(ids, policies, strict=True)])
    play.advance(2)

    assert await play.claim_ids(2) == [ids[1], ids[4]]
    assert (await play.counts()).dead == 3


async def test_a_claim_lets_a_hundred_jobs_of_a_shard_expire_and_no_more(play: Play) -> None:
    """Every loop is bounded; what is left is worth asking for at once."""
    ids = play.ids(EXPIRIES_PER_CALL_MAX + 2)
    await play.enqueue_all(*[play.job(id, policy=Policy(expires_at_ms=play.now_ms)) for id in ids[:-1]])
    await play.enqueue(ids[-1])
    play.advance(1)

    claims = await play.claims(10)

    assert (claims.items, claims.next_at_ms) == ([], play.now_ms)
    assert (await play.counts()).dead == EXPIRIES_PER_CALL_MAX
    assert await play.claim_ids(10) == [ids[-1]]


async def test_a_retried_job_that_is_too_late_dies_expired(play: Play) -> None:
    await play.enqueue("a", policy=Policy(expires_at_ms=play.now_ms + 500))
    await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=501))
    play.advance(501)

    handed = await play.claim_ids()

    [dead_letter] = await play.dead_letters()
    assert handed == []
    assert (dead_letter.reason, dead_letter.record.attempts) == ("expired", 1)


async def test_queues_are_tried_in_order(play: Play) -> None:
    """C6: all tiers of the first before the second; an unknown queue is no obstacle."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    unknown = Queue("unknown", play.queue.tenant, play.queue.shards)
    low, lower = play.ids(2)
    await play.enqueue_all(
        play.job("top", policy=Policy(priority=9)),
        play.job(low, policy=Policy(priority=1), queue=second),
        play.job(lower, policy=Policy(priority=0), queue=second),
    )

    claims = await play.claim(10, queues=[second, unknown, play.queue])

    assert [(claim.lease.queue, claim.record.id) for claim in claims] == [
        (second, low),
        (second, lower),
        (play.queue, "top"),
    ]


async def test_the_limit_holds_for_all_queues_together(play: Play) -> None:
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a"), play.job("b", queue=second), play.job("c", queue=second))

    claims = await play.claims(2, queues=[play.queue, second])

    assert len(claims.items) == 2
    assert claims.next_at_ms == play.now_ms
    assert (await play.counts(second)).waiting == 1


async def test_next_at_is_none_for_empty_queues(play: Play) -> None:
    unknown = await play.claims()
    await play.enqueue("a")
    await play.settle(await play.claim_one())

    empty = await play.claims()

    assert (unknown.items, unknown.next_at_ms) == ([], None)
    assert (empty.items, empty.next_at_ms) == ([], None)


async def test_next_at_is_now_while_ready_jobs_are_left(play: Play) -> None:
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))

    claims = await play.claims(1)

    assert claims.next_at_ms == play.now_ms


async def test_next_at_is_the_earliest_due_time(play: Play) -> None:
    await play.enqueue_all(play.job("a", delay_ms=9_000), play.job("b", delay_ms=5_000), play.job("c", delay_ms=7_000))

    claims = await play.claims(10)

    assert claims.next_at_ms == play.now_ms + 5_000


async def test_next_at_is_the_end_of_a_lease_when_that_comes_first(play: Play) -> None:
    await play.enqueue_all(play.job("a"), play.job("b", delay_ms=5_000))

    short = await play.claims(10, lease_ms=4_000)
    await play.extend(short.items[0].lease, lease_ms=8_000)
    extended = await play.claims(10)

    assert short.next_at_ms == play.now_ms + 4_000
    assert extended.next_at_ms == play.now_ms + 5_000


async def test_next_at_is_the_time_of_a_blocked_job_that_a_death_in_this_claim_has_freed(play: Play) -> None:
    await play.start("a", lease_ms=1_000, policy=Policy(max_stalls=1))
    await play.enqueue("a", delay_ms=9_000)
    play.advance(1_000)

    claims = await play.claims(10)

    assert await play.dead_letters()
    assert (claims.items, claims.next_at_ms) == ([], play.now_ms + 8_000)


async def test_next_at_is_the_end_of_a_lease_that_this_claim_gave(play: Play) -> None:
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))
    await play.claim_one(lease_ms=9_000)

    claims = await play.claims(10, lease_ms=4_000)

    assert ([claim.record.id for claim in claims.items], claims.next_at_ms) == ([second], play.now_ms + 4_000)


async def test_next_at_of_a_paused_queue_is_the_end_of_a_lease_only(play: Play) -> None:
    """A paused queue needs a claim for repair, and for nothing else."""
    await play.enqueue("a")
    claim = await play.claim_one(lease_ms=4_000)
    await play.enqueue_all(play.job("b"), play.job("c", delay_ms=1_000))
    await play.configure(paused=True)

    leased = await play.claims(10)
    await play.settle(claim)
    free = await play.claims(10)

    assert (leased.next_at_ms, free.next_at_ms) == (play.now_ms + 4_000, None)


async def test_next_at_is_the_earliest_of_all_queues(play: Play) -> None:
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a", delay_ms=9_000), play.job("b", delay_ms=5_000, queue=second))

    claims = await play.claims(10, queues=[play.queue, second])

    assert claims.next_at_ms == play.now_ms + 5_000


async def test_a_waiter_that_sleeps_until_next_at_finds_the_job(play: Play) -> None:
    await play.enqueue("a", delay_ms=1_234)
    next_at_ms = (await play.claims()).next_at_ms
    assert next_at_ms is not None

    play.advance(next_at_ms - play.now_ms)

    assert await play.claim_ids() == ["a"]


async def test_a_repeated_nonce_returns_the_same_claims_and_nothing_new(play: Play) -> None:
    """A lost reply costs no stall; it changes nothing either."""
    await play.enqueue_all(*[play.job(f"job-{number}") for number in range(6)])
    nonce = play.nonce()
    lost = await play.claim(4, nonce=nonce)
    before = await play.snapshot()
    play.advance(100)

    again = await play.claim(4, nonce=nonce)

    assert again == lost
    play.advance(-100)
    assert await play.snapshot() == before


async def test_a_repeated_nonce_leaves_out_settled_jobs(play: Play) -> None:
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second), play.job("job-new"))
    nonce = play.nonce()
    claims = await play.claim(2, nonce=nonce)
    await play.settle(claims[0])

    again = await play.claim(2, nonce=nonce)

    assert again == claims[1:]


async def test_a_repeated_nonce_leaves_out_leases_that_have_run_out(play: Play) -> None:
    """It returns no job whose lease no longer holds, and claims no new one either."""
    await play.enqueue("a")
    nonce = play.nonce()
    [claim] = await play.claim(1, nonce=nonce, lease_ms=100)

    play.advance(99)
    holding = await play.claim(1, nonce=nonce, lease_ms=100)
    play.advance(1)
    over = await play.claim(1, nonce=nonce, lease_ms=100)

    assert (holding, over) == ([claim], [])
    assert await play.claim_ids() == ["a"]


async def test_a_repeated_nonce_shows_an_extended_lease_with_its_new_end(play: Play) -> None:
    await play.enqueue("a")
    nonce = play.nonce()
    [claim] = await play.claim(1, nonce=nonce)
    play.advance(10)
    extended = await play.extend(claim.lease)

    [again] = await play.claim(1, nonce=nonce)

    assert again.lease == extended.lease
    assert (await play.settle(again)).status == "done"


async def test_a_repeated_nonce_is_searched_in_every_queue_before_a_claim(play: Play) -> None:
    """If any shard of the call knows it, nothing new is handed out."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue("a", queue=second)
    nonce = play.nonce()
    lost = await play.claim(5, nonce=nonce, queues=[play.queue, second])
    await play.enqueue_all(*[play.job(f"job-{number}") for number in range(9)])

    again = await play.claim(5, nonce=nonce, queues=[play.queue, second])

    assert again == lost
    assert (await play.counts()).active == 0


async def test_another_worker_gets_nothing_from_a_nonce_it_did_not_use(play: Play) -> None:
    """KB5: a nonce alone does not return the claims of another worker."""
    await play.enqueue("a")
    nonce = play.nonce()
    await play.claim(1, nonce=nonce, worker="worker-1")

    assert await play.claim(1, nonce=nonce, worker="worker-2") == []


async def test_two_workers_that_happen_to_use_one_nonce_get_each_their_own_back(play: Play) -> None:
    """KB5: a claim is returned to its own worker."""
    await play.enqueue_all(*[play.job(id) for id in play.ids(2)])
    nonce = play.nonce()
    first, second = [await play.claim(1, nonce=nonce, worker=worker) for worker in ("worker-1", "worker-2")]

    again = [await play.claim(1, nonce=nonce, worker=worker) for worker in ("worker-1", "worker-2")]

    assert again == [first, second]


async def test_an_idle_claim_writes_nothing(play: Play) -> None:
    await play.enqueue("a", delay_ms=60_000)
    await play.claim()
    before = await play.snapshot()

    for _ in range(3):
        play.advance(1)
        assert await play.claim() == []

    play.advance(-3)
    assert await play.snapshot() == before


async def test_claiming_from_an_unknown_queue_does_not_make_it(play: Play) -> None:
    assert await play.claim() == []

    assert (await play.store.queues.names(play.queue.tenant)).rows == []


async def test_a_claimed_job_is_active_under_the_name_of_its_worker(play: Play) -> None:
    """Q17, C10, K21: it waits no more, and shows its worker and the end of its lease."""
    await play.enqueue("a")

    claim = await play.claim_one(worker="host:12 😀'", lease_ms=5_000)

    found, counts = await play.found("a"), await play.counts()
    assert (claim.worker, claim.claimed_at_ms) == ("host:12 😀'", play.now_ms)
    assert (claim.lease.queue, claim.lease.id, claim.lease.expires_at_ms) == (play.queue, "a", play.now_ms + 5_000)
    assert (found.state, found.worker, found.fence) == (State.ACTIVE, "host:12 😀'", claim.lease.fence)
    assert found.lease_expires_at_ms == play.now_ms + 5_000
    assert (counts.waiting, counts.active) == (0, 1)


async def test_the_journal_names_the_worker_of_each_claim(play: Play) -> None:
    await play.enqueue("a")

    claim = await play.claim_one(worker="worker-7")

    event = (await play.events(id="a"))[-1]
    assert (event.line.event, event.line.worker, event.line.fence) == ("claimed", "worker-7", claim.lease.fence)


async def test_an_active_job_is_not_handed_out_while_its_lease_holds(play: Play) -> None:
    """T14, T32: no double processing during a valid lease."""
    await play.enqueue("a")
    await play.claim_one(lease_ms=1_000)

    play.advance(999)
    during = await play.claim_ids(worker="worker-2")
    play.advance(1)
    after = await play.claim_ids(worker="worker-2")

    assert (during, after) == ([], ["a"])


async def test_every_delivery_has_a_token_of_its_own_and_a_higher_fence(play: Play) -> None:
    """T6, T12, CB11: also when the same worker gets the same job again."""
    await play.enqueue("a")
    leases = []
    for outcome in (Retried(BOOM, delay_ms=0), Released(), None, Done()):
        claim = await play.claim_one(lease_ms=1_000)
        leases.append(claim.lease)
        if outcome is None:
            play.advance(1_000)
        else:
            await play.settle(claim, outcome)
    await play.enqueue("a")
    leases.append((await play.claim_one()).lease)

    fences = [lease.fence for lease in leases]
    assert fences == sorted(set(fences))
    assert len({lease.token for lease in leases}) == len(leases)


async def test_the_jobs_of_one_claim_have_tokens_of_their_own(play: Play) -> None:
    """T6: the token of one job does not settle another of its shard."""
    ids = play.ids(3)
    await play.enqueue_all(*[play.job(id) for id in ids])

    claims = await play.claim(3)

    assert len({claim.lease.token for claim in claims}) == 3


async def test_the_time_limit_of_a_job_follows_the_queue_at_the_moment_of_the_claim(play: Play) -> None:
    """Q11, T5: instant configuration changes, and a job's own setting wins."""
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second, policy=Policy(timeout_ms=7)))
    await play.configure(timeout_ms=9_000)

    claims = await play.claim(2)

    assert [claim.timeout_ms for claim in claims] == [9_000, 7]


async def test_jobs_that_were_removed_or_cancelled_do_not_disturb_a_claim(play: Play) -> None:
    """QB6, C12: a claim meets no ghosts."""
    ids = play.ids(4)
    await play.enqueue_all(*[play.job(id) for id in ids])
    await play.store.jobs.remove(play.queue, [ids[0]], now_ms=play.now_ms)
    await play.cancel(ids[2])

    assert await play.claim_ids() == [ids[1], ids[3]]


async def test_a_claim_with_a_wrong_number_of_shards_is_refused_and_changes_nothing(play: Play) -> None:
    await play.enqueue("a")
    before = await play.snapshot()
    wrong = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)

    with pytest.raises(Refused) as refused:
        await play.claim(queues=[wrong])

    assert refused.value.reason == "wrong_shards"
    assert f"has {play.queue.shards} shards, the call has {play.queue.shards + 1}" in str(refused.value)
    assert await play.snapshot() == before


async def test_a_wrong_queue_refuses_the_whole_claim(play: Play) -> None:
    """No job of the queues before it is claimed, since the caller would not learn of it."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a"), play.job("b", queue=second))
    wrong = Queue("second", play.queue.tenant, play.queue.shards + 1)

    with pytest.raises(Refused):
        await play.claim(10, queues=[play.queue, wrong])

    assert await play.state("a") is State.WAITING


async def test_a_tenant_claims_from_its_own_queue_only(play: Play) -> None:
    """C1, C5: claims are scoped to the tenant."""
    rival = Queue(play.queue.name, "rival", play.queue.shards)
    await play.enqueue("a")

    assert await play.claim(10, queues=[rival]) == []
    assert await play.claim_ids(10) == ["a"]


async def test_a_queue_named_twice_is_claimed_from_once(play: Play) -> None:
    await play.enqueue("a")
    queues = [play.queue, play.queue]

    first = await play.claim(5, nonce="nonce-twice", queues=queues)
    again = await play.claim(5, nonce="nonce-twice", queues=queues)

    assert [claim.record.id for claim in first] == ["a"]
    assert again == first


async def test_jobs_of_many_shapes_are_handed_out_as_they_were_sent(play: Play) -> None:
    """Neighbours that are alike, that begin alike, and that differ in one thing only."""
    shapes: list[dict[str, Any]] = [
        {},
        {"payload": b""},
        {"kind": "sen", "tag": "d"},
        {"kind": "send", "tag": None},
        {"kind": "s", "tag": "end"},
        {"kind": "senden"},
        {"kind": "日" * 42, "tag": "ü"},
        {"policy": Policy(priority=5)},
        {"policy": Policy(timeout_ms=70, max_attempts=3)},
        {"policy": Policy(timeout_ms=71, max_attempts=3)},
        {"policy": Policy(max_attempts=3)},
        {"headers": {"trace": "x"}},
        {"headers": {"trace": "x"}, "payload": b""},
        {"payload": bytes(300)},
    ]
    ids = play.ids(3 * len(shapes))
    jobs = [play.job(id, **shape) for id, shape in zip(ids, [*shapes, *shapes[::-1], *shapes], strict=True)]
    sent = {job.id: job for job in jobs}
    await play.enqueue_all(*jobs)

    first = await play.claim(100)
    await play.store.jobs.settle([claim.settle(Retried(BOOM, 0)) for claim in first], now_ms=play.now_ms)
    second = await play.claim(100)

    assert [claim.record.id for claim in first] == ids
    assert sorted(claim.record.id for claim in second) == sorted(ids)
    for claim in [*first, *second]:
        record, job = claim.record, sent[claim.record.id]
        for what in ("kind", "tag", "payload", "headers", "policy"):
            assert getattr(record, what) == getattr(job, what)
        assert (record.run_at_ms, record.enqueued_at_ms, record.stalls) == (play.now_ms, play.now_ms, 0)
        assert (claim.priority, claim.timeout_ms) == (5, job.policy.timeout_ms or 0)
    assert {(claim.record.attempts, claim.record.error) for claim in first} == {(0, None)}
    assert {(claim.record.attempts, claim.record.error) for claim in second} == {(1, BOOM)}
