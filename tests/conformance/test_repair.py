"""Repair: jobs whose lease has run out come back, in order, in bounded steps, with or without claims."""

import pytest

from headrace.model.claim import Claim
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import REPAIRS_PER_CALL_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play


async def repair(play: Play, limit: int = 100) -> int:
    """Sweep the queue now; returns the number of expired leases."""
    return (await play.store.jobs.repair(play.queue, limit=limit, now_ms=play.now_ms)).stalled


async def claimed(play: Play, *ids: str, lease_ms: int = 1_000) -> list[Claim]:
    """Jobs of these ids in the hands of worker-1."""
    await play.enqueue_all(*[play.job(id) for id in ids])
    return await play.claim(len(ids), lease_ms=lease_ms)


async def test_a_lease_that_has_run_out_makes_its_job_due_at_once(play: Play) -> None:
    """Q23, T15, C11, KB4: the job of a dead worker comes back, one stall counted, no attempt."""
    [claim] = await claimed(play, "a")
    play.advance(1_000)

    stalled = await repair(play)

    found, record = await play.found("a"), await play.record("a")
    assert stalled == 1
    assert (found.state, found.worker, found.fence) == (State.WAITING, None, None)
    assert (record.stalls, record.attempts, record.run_at_ms, record.failed_at_ms) == (1, 0, play.now_ms, play.now_ms)
    assert record.error is not None
    assert record.error.cls == "Stalled"
    event = (await play.events(id="a"))[-1].line
    assert (event.event, event.worker, event.fence) == ("stalled", "worker-1", claim.lease.fence)


async def test_a_lease_is_repaired_at_its_end_and_not_a_millisecond_before(play: Play) -> None:
    """T15, TB10, CB3: expires_at <= now, and never while it holds."""
    await claimed(play, "a")

    play.advance(999)
    early = await repair(play)
    play.advance(1)
    due = await repair(play)

    assert (early, due) == (0, 1)


async def test_a_claim_repairs_before_it_hands_out(play: Play) -> None:
    """Q18, T12, C11: the claimer itself gets the job that has just come back, and is noted as seen."""
    await claimed(play, "a")
    play.advance(1_000)

    [claim] = await play.claim(10, worker="worker-2")

    assert (claim.record.id, claim.record.stalls, claim.worker) == ("a", 1, "worker-2")
    seen = await play.store.reads.workers(play.queue, now_ms=play.now_ms)
    assert ("worker-2", play.now_ms) in [(each.worker, each.seen_at_ms) for each in seen]


async def test_repair_happens_without_any_claim(play: Play) -> None:
    """CB10, KB4: a sweep alone is enough."""
    ids = [f"job-{number}" for number in range(9)]
    await claimed(play, *ids)
    play.advance(5_000)

    stalled = await repair(play)

    counts = await play.counts()
    assert stalled == 9
    assert (counts.active, counts.waiting, counts.later) == (0, 9, 0)


async def test_one_lease_that_has_run_out_is_found_among_many_that_hold(play: Play) -> None:
    """CB10: repair is exact, not a sample: the first claim finds it."""
    await claimed(play, *[f"live-{number}" for number in range(500)], lease_ms=60_000)
    await claimed(play, "gone")
    play.advance(1_000)

    assert await play.claim_ids() == ["gone"]
    assert (await play.counts()).active == 501


async def test_leases_are_repaired_by_their_end_and_then_by_id(play: Play) -> None:
    """The order of repair is the order in which the jobs wait again."""
    first, second, third, fourth = play.ids(4)
    await claimed(play, third, lease_ms=300)
    await claimed(play, fourth, lease_ms=200)
    await claimed(play, second, lease_ms=300)
    await claimed(play, first, lease_ms=400)
    play.advance(1_000)

    assert await play.claim_ids() == [fourth, second, third, first]


async def test_the_order_of_repair_is_the_one_of_the_extended_ends(play: Play) -> None:
    first, second = play.ids(2)
    claims = await claimed(play, first, second)
    await play.extend(claims[0].lease, 2_000)
    play.advance(2_000)

    assert await play.claim_ids() == [second, first]


async def test_a_claim_repairs_a_hundred_leases_of_a_shard_and_no_more(play: Play) -> None:
    """QB8, TB13: the bound is part of the contract, for leases of any worker."""
    ids = play.ids(REPAIRS_PER_CALL_MAX + 5)
    await claimed(play, *ids)
    play.advance(1_000)

    first = await play.claims(1)
    after_one = (await play.counts()).active
    await play.claim(1)
    after_two = (await play.counts()).active

    assert first.next_at_ms == play.now_ms
    assert (after_one, after_two) == (5 + 1, 2)


async def test_the_bound_of_repair_is_one_per_shard(play: Play) -> None:
    """The bounds of repair and promotion are per shard and call."""
    per_shard = REPAIRS_PER_CALL_MAX + 1
    shards: list[list[str]] = [[] for _ in range(play.queue.shards)]
    for number in range(1_000):
        shards[play.queue.index_of(f"job-{number}")].append(f"job-{number}")
    await claimed(play, *[id for ids in shards for id in ids[:per_shard]])
    play.advance(1_000)

    answer = await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    assert (answer.stalled, answer.more) == (REPAIRS_PER_CALL_MAX * play.queue.shards, True)
    assert (await play.counts()).active == play.queue.shards


async def test_a_sweep_takes_a_limit_and_returns_whether_there_may_be_more(play: Play) -> None:
    """QB8: bounded steps, so that a sweep never holds up the store."""
    ids = play.ids(5)
    await claimed(play, *ids)
    play.advance(1_000)

    answers = [await play.store.jobs.repair(play.queue, limit=3, now_ms=play.now_ms) for _ in range(3)]

    assert [(answer.stalled, answer.more) for answer in answers] == [(3, True), (2, False), (0, False)]
    assert await play.claim_ids() == ids


@pytest.mark.parametrize("max_stalls", [1, 3])
async def test_a_job_that_kills_its_workers_dies_of_its_stalls(play: Play, max_stalls: int) -> None:
    """TB4, Q19, C18: max_stalls deliveries, then a dead letter, and not one more."""
    await play.enqueue("a", policy=Policy(max_stalls=max_stalls))

    deliveries = 0
    while await play.claim(lease_ms=1_000):
        deliveries += 1
        play.advance(1_000)

    [dead_letter] = await play.dead_letters()
    assert deliveries == max_stalls
    assert (dead_letter.reason, dead_letter.error.cls, dead_letter.record.stalls) == ("stalls", "Stalled", max_stalls)
    assert dead_letter.record.attempts == 0
    assert await play.state("a") is State.DEAD
    assert (await play.history("a"))[-2:] == ["claimed", "dead"]


async def test_a_job_without_a_policy_has_three_stalls(play: Play) -> None:
    """TB4, Q31: the default is a limit, too."""
    await play.enqueue("a")

    deliveries = 0
    while await play.claim(lease_ms=1):
        deliveries += 1
        play.advance(1)

    assert deliveries == 3


async def test_the_limit_of_stalls_follows_the_queue_at_once(play: Play) -> None:
    """Q11: the policy is that of the moment at which it is needed."""
    await claimed(play, "a")
    await play.configure(max_stalls=1)
    play.advance(1_000)

    await repair(play)

    assert await play.state("a") is State.DEAD


async def test_stalls_and_attempts_are_budgets_of_their_own(play: Play) -> None:
    """CB1, T15: neither uses up the other."""
    await play.enqueue("a", policy=Policy(max_attempts=2, max_stalls=2))
    await play.claim_one(lease_ms=10)
    play.advance(10)
    await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=0))
    before = await play.record("a")

    last = await play.settle(await play.claim_one(), Done())

    assert (before.attempts, before.stalls) == (1, 1)
    assert last.status == "done"


async def test_a_cancel_request_stays_when_the_lease_runs_out(play: Play) -> None:
    """The job ends cancelled, also where the stall would have killed it."""
    await play.configure(max_stalls=1)
    await claimed(play, "a")
    await play.cancel("a", running=True)
    play.advance(1_000)

    stalled = await repair(play)

    assert stalled == 1
    assert await play.state("a") is State.CANCELLED
    assert await play.dead_letters() == []
    assert (await play.history("a"))[-1] == "cancelled"


async def test_a_cancel_request_belongs_to_its_delivery(play: Play) -> None:
    """A job of the same id that comes later knows nothing of it."""
    [claim] = await claimed(play, "a")
    await play.cancel("a", running=True)
    await play.settle(claim)
    [again] = await claimed(play, "a")

    released = await play.settle(again, Released())

    assert released.status == "released"


async def test_a_zombies_settlement_does_not_poison_the_repair_of_the_next_owner(play: Play) -> None:
    """QB4, QB3, v1-d: the new owner's lease runs out, is repaired, and no other job is affected."""
    [zombie] = await claimed(play, "a")
    play.advance(1_000)
    await play.claim_one(worker="worker-2", lease_ms=1_000)
    await play.settle(zombie)
    await play.enqueue("b")
    play.advance(1_000)

    handed = await play.claim_ids(worker="worker-3")

    assert sorted(handed) == ["a", "b"]
    assert (await play.record("a")).stalls == 2
    assert (await play.counts()).active == 2


async def test_repair_skips_removed_and_settled_jobs(play: Play) -> None:
    """QB4, QB6, KB3: a lease whose job is gone is gone with it; the others are repaired."""
    ids = play.ids(4)
    claims = await claimed(play, *ids)
    await play.store.jobs.remove(play.queue, [ids[0]], now_ms=play.now_ms)
    await play.settle(claims[1])
    play.advance(1_000)

    stalled = await repair(play)

    assert stalled == 2
    assert await play.claim_ids() == ids[2:]
    assert await play.find(ids[0]) is None


async def test_a_job_is_leased_from_the_moment_it_is_claimed(play: Play) -> None:
    """CB3, CB4, KB2, KB3: no repair takes it for lost between two steps, and it is never in no line at all."""
    await claimed(play, "a")

    during = [await repair(play), await play.claim_ids(worker="worker-2"), (await play.counts()).active]
    play.advance(1_000)
    after = [await repair(play), await play.claim_ids(worker="worker-2"), (await play.counts()).active]

    assert during == [0, [], 1]
    assert after == [1, ["a"], 1]


async def test_a_repaired_job_is_repaired_once(play: Play) -> None:
    """KB3, CB2: however many sweeps and claims meet it, there is one copy, and one stall."""
    await claimed(play, "a")
    play.advance(1_000)

    sweeps = [await repair(play) for _ in range(3)]
    handed = [id for number in range(3) for id in await play.claim_ids(worker=f"worker-{number}")]

    assert (sweeps, handed) == ([1, 0, 0], ["a"])
    assert (await play.record("a")).stalls == 1


async def test_an_evicted_worker_does_not_win_its_lease_back_by_claiming(play: Play) -> None:
    """QB5: after its lease was lost, further claims of the worker bring new work and not the old lease."""
    [lost] = await claimed(play, "a")
    play.advance(1_000)
    await play.claim_one(worker="worker-2")
    await play.enqueue("b")

    [other] = await play.claim(10, worker="worker-1")

    assert other.record.id == "b"
    assert (await play.extend(lost.lease)).status == "lease_mismatch"
    assert (await play.settle(lost)).status == "lease_mismatch"


async def test_a_worker_that_reclaims_its_own_job_cannot_be_taken_for_its_earlier_run(play: Play) -> None:
    """CB11: the name is the same, the token is not."""
    [first] = await claimed(play, "a")
    play.advance(1_000)

    second = await play.claim_one()

    assert (await play.settle(first)).status == "lease_mismatch"
    assert (await play.settle(second)).status == "done"


async def test_a_stalled_job_keeps_kind_payload_and_policy(play: Play) -> None:
    """QB4: payload, policy, headers and first enqueue time survive a stall."""
    policy = Policy(priority=7, max_attempts=4)
    await play.enqueue("a", kind="resize", payload=b"[1]", tag="t", headers={"h": "1"}, policy=policy)
    before = await play.record("a")
    await play.claim_one(lease_ms=10)
    play.advance(10)

    after = (await play.claim_one()).record

    assert (after.kind, after.payload, after.tag) == (before.kind, before.payload, before.tag)
    assert (after.headers, after.policy, after.enqueued_at_ms) == (before.headers, policy, before.enqueued_at_ms)


async def test_repair_of_an_unknown_queue_does_nothing(play: Play) -> None:
    answer = await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    assert (answer.stalled, answer.swept, answer.more) == (0, 0, False)
    assert (await play.store.queues.names(play.queue.tenant)).rows == []


async def test_repair_touches_no_other_queue(play: Play) -> None:
    """C1: neither another queue nor another tenant."""
    others = [Queue("second", "acme", play.queue.shards), Queue("mail", "rival", play.queue.shards)]
    for queue in others:
        await play.enqueue("a", queue=queue)
        await play.claim_one(queues=[queue], lease_ms=10)
    play.advance(10)

    stalled = await repair(play)

    assert stalled == 0
    assert [(await play.counts(queue)).active for queue in others] == [1, 1]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
async def test_a_sweep_without_a_sensible_limit_is_refused_and_changes_nothing(play: Play, limit: int) -> None:
    await claimed(play, "a")
    play.advance(1_000)
    before = await play.snapshot()

    with pytest.raises(Refused, match="limit must be from 1 to 1,000; found"):
        await repair(play, limit)

    assert await play.snapshot() == before


async def test_a_sweep_with_a_wrong_number_of_shards_is_refused(play: Play) -> None:
    await claimed(play, "a")
    wrong = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)

    with pytest.raises(Refused) as refused:
        await play.store.jobs.repair(wrong, now_ms=play.now_ms)

    assert refused.value.reason == "wrong_shards"


async def test_a_sweep_with_nothing_to_do_writes_nothing(play: Play) -> None:
    await claimed(play, "a")
    await play.enqueue("b", delay_ms=500)
    before = await play.snapshot()

    answer = await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    assert (answer.stalled, answer.swept, answer.more) == (0, 0, False)
    assert await play.snapshot() == before


async def test_a_fail_queue_of_other_shards_cannot_wedge_the_queue(play: Play) -> None:
    """QB4: a job that dies finds its fail queue, whether or not that was named before with another number of shards."""
    other = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)
    await play.configure(fail_handler=True, max_stalls=1)
    [answer] = await play.enqueue_all(play.job("x", queue=other.fail_queue))
    await claimed(play, "a")
    play.advance(1_000)
    await play.enqueue("b")

    handed = await play.claim_ids()

    assert (answer.status, handed) == ("wrong_shards", ["b"])
    assert await play.state("a") is State.DEAD


async def test_maintenance_loses_and_doubles_nothing_whatever_state_a_job_is_in(play: Play) -> None:
    """K29: a sweep takes back expired leases and leaves all other jobs alone."""
    await claimed(play, "stuck", "dropped")
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=60_000)
    play.advance(1_000)

    answers = [await play.store.jobs.repair(play.queue, now_ms=play.now_ms) for _ in range(2)]

    assert [answer.stalled for answer in answers] == [2, 0]
    counts = await play.counts()
    assert (counts.waiting, counts.later, counts.active) == (4, 1, 0)
    assert sorted(await play.claim_ids(10)) == ["dropped", "ready", "stuck"]
