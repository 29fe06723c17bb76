"""Extend: a worker that is alive keeps its leases, and learns at once when it has lost one."""

import pytest
from msgspec.structs import replace

from headrace.model.claim import Claim
from headrace.model.errors import Refused
from headrace.model.limits import BATCH_MAX, DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Released
from tests.support.play import Play

FORGED = "forged.1"


async def claimed(play: Play, id: str = "a") -> Claim:
    """A job of this id in the hands of worker-1, for one second."""
    await play.enqueue(id)
    return await play.claim_one(lease_ms=1_000)


async def test_a_lease_that_holds_is_set_to_end_later(play: Play) -> None:
    """Q21, T18, T32, v1-e: the answer has the extended lease."""
    claim = await claimed(play)
    play.advance(900)

    answer = await play.extend(claim.lease, 5_000)

    assert (answer.id, answer.status, answer.ok, answer.cancel_asked) == ("a", "extended", True, False)
    assert answer.lease is not None
    assert answer.lease.expires_at_ms == play.now_ms + 5_000
    assert (await play.found("a")).lease_expires_at_ms == play.now_ms + 5_000
    assert (await play.settle(replace(claim, lease=answer.lease))).status == "done"


async def test_an_extended_lease_holds_to_its_new_end_to_the_millisecond(play: Play) -> None:
    """TB10: neither claimed by others nor refused before it, and lost at it."""
    claim = await claimed(play)
    play.advance(500)
    await play.extend(claim.lease, 3_000)

    play.advance(2_999)
    during = await play.claim_ids(worker="worker-2")
    longer = await play.extend(claim.lease, 1)
    play.advance(1)

    assert (during, longer.status) == ([], "extended")
    assert (await play.extend(claim.lease)).status == "lease_expired"
    assert await play.claim_ids(worker="worker-2") == ["a"]


async def test_a_lease_may_be_extended_over_and_over(play: Play) -> None:
    """T28, T32: a long job stays with its worker, without a stall."""
    claim = await claimed(play)

    for _ in range(20):
        play.advance(700)
        assert (await play.extend(claim.lease, 1_000)).status == "extended"

    assert (await play.settle(claim)).status == "done"
    assert (await play.history("a")) == ["enqueued", "claimed", "done"]


async def test_a_lease_may_also_be_made_shorter(play: Play) -> None:
    """T18: the end is now + lease_ms, whatever it was."""
    claim = await claimed(play)

    answer = await play.extend(claim.lease, 100)
    play.advance(100)

    assert answer.lease is not None
    assert answer.lease.expires_at_ms == play.now_ms
    assert await play.claim_ids(worker="worker-2") == ["a"]


async def test_the_token_of_before_still_settles(play: Play) -> None:
    """Extend may be sent again with the same token, so a lost answer loses nothing."""
    claim = await claimed(play)
    await play.extend(claim.lease)

    again = await play.extend(claim.lease)

    assert again.status == "extended"
    assert again.lease is not None
    assert (again.lease.token, again.lease.fence) == (claim.lease.token, claim.lease.fence)
    assert (await play.settle(claim)).status == "done"


async def test_a_lost_lease_is_not_brought_back(play: Play) -> None:
    """CB6, Q21, Q22, QB5: not before its repair, not after it, not with a new owner."""
    claim = await claimed(play)
    play.advance(1_000)

    unrepaired = await play.extend(claim.lease)
    await play.store.jobs.repair(play.queue, now_ms=play.now_ms)
    repaired = await play.extend(claim.lease)
    await play.claim_one(worker="worker-2")
    owned = await play.extend(claim.lease)

    answers = (unrepaired, repaired, owned)
    assert [answer.status for answer in answers] == ["lease_expired", "not_active", "lease_mismatch"]
    assert [(answer.ok, answer.lease) for answer in answers] == [(False, None)] * 3


async def test_refusals_come_in_this_order_not_active_expired_mismatch(play: Play) -> None:
    """T17, TB8: a wrong token of a lease that has run out is answered lease_expired."""
    claim = await claimed(play)
    forged = replace(claim.lease, token=FORGED)

    holding = await play.extend(forged)
    play.advance(1_000)
    over = await play.extend(forged)
    await play.settle(await play.claim_one())
    gone = await play.extend(forged)

    assert [answer.status for answer in (holding, over, gone)] == ["lease_mismatch", "lease_expired", "not_active"]


@pytest.mark.parametrize("why", ["done", "released", "unknown", "elsewhere"])
async def test_a_job_that_is_not_active_cannot_be_extended(play: Play, why: str) -> None:
    """CB6, C17: done, waiting, unknown, or of an unknown queue."""
    claim = await claimed(play)
    lease = claim.lease
    match why:
        case "done":
            await play.settle(claim, Done())
        case "released":
            await play.settle(claim, Released())
        case "unknown":
            lease = replace(lease, id="nobody")
        case _:
            lease = replace(lease, queue=Queue("nowhere", "acme", play.queue.shards))
    before = await play.snapshot()

    answer = await play.extend(lease)

    assert (answer.status, answer.lease) == ("not_active", None)
    assert await play.snapshot() == before


async def test_a_refused_extend_changes_nothing(play: Play) -> None:
    """T17: neither the lease nor anything else."""
    claim = await claimed(play)
    before = await play.snapshot()
    await play.extend(replace(claim.lease, token=FORGED), 60_000)
    after_forged = await play.snapshot()
    play.advance(1_000)
    at_end = await play.snapshot()

    await play.extend(claim.lease, 60_000)

    assert after_forged == before
    assert await play.snapshot() == at_end


async def test_extend_is_not_written_to_the_journal(play: Play) -> None:
    """A heartbeat is not an event."""
    claim = await claimed(play)
    before = await play.history("a")

    await play.extend(claim.lease)

    assert await play.history("a") == before == ["enqueued", "claimed"]


async def test_the_next_extend_reports_a_cancel_request(play: Play) -> None:
    claim = await claimed(play)
    await play.cancel("a", running=True)

    answer = await play.extend(claim.lease)

    assert (answer.status, answer.cancel_asked) == ("extended", True)
    assert (await play.extend(claim.lease)).cancel_asked


async def test_all_leases_of_a_worker_are_extended_in_one_call_and_answered_in_order(play: Play) -> None:
    """Q20: one heartbeat for everything a worker holds, whatever the shards and queues."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    ids = [f"job-{number}" for number in range(10)]
    await play.enqueue_all(*[play.job(id) for id in ids], play.job("other", queue=second))
    claims = await play.claim(20, queues=[play.queue, second], lease_ms=1_000)
    lost = claims.pop(4)
    await play.settle(lost)
    leases = [claim.lease for claim in claims]
    leases[2:2] = [lost.lease]
    leases[5] = replace(leases[5], token=FORGED)
    play.advance(500)

    answers = await play.store.jobs.extend(leases, lease_ms=2_000, now_ms=play.now_ms)

    statuses = ["extended"] * len(leases)
    statuses[2], statuses[5] = "not_active", "lease_mismatch"
    assert [(answer.id, answer.status) for answer in answers] == [
        (lease.id, status) for lease, status in zip(leases, statuses, strict=True)
    ]
    assert {answer.lease.expires_at_ms for answer in answers if answer.lease is not None} == {play.now_ms + 2_000}


async def test_a_token_of_another_queue_extends_nothing(play: Play) -> None:
    """CB12: a lease is good for its own queue and tenant."""
    rival = Queue(play.queue.name, "rival", play.queue.shards)
    mine = await claimed(play)
    await play.enqueue("a", queue=rival)
    theirs = await play.claim_one(queues=[rival], lease_ms=1_000)

    answer = await play.extend(replace(mine.lease, queue=rival), 60_000)

    assert answer.status == "lease_mismatch"
    play.advance(1_000)
    assert (await play.extend(theirs.lease)).status == "lease_expired"


@pytest.mark.parametrize("lease_ms", [0, -1, DURATION_MS_MAX + 1, 1.5, True])
async def test_a_lease_without_a_sensible_length_is_refused(play: Play, lease_ms: int) -> None:
    """T13: leaseFor <= 0 is no lease."""
    claim = await claimed(play)
    before = await play.snapshot()

    with pytest.raises(Refused, match="lease_ms must be"):
        await play.extend(claim.lease, lease_ms)

    assert await play.snapshot() == before


async def test_extend_with_a_wrong_number_of_shards_refuses_the_whole_call(play: Play) -> None:
    claim = await claimed(play)
    before = await play.snapshot()
    wrong = replace(claim.lease, queue=Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1))

    with pytest.raises(Refused) as refused:
        await play.store.jobs.extend([claim.lease, wrong], lease_ms=9_000, now_ms=play.now_ms)

    assert refused.value.reason == "wrong_shards"
    assert await play.snapshot() == before


async def test_a_batch_of_leases_beyond_the_limit_is_refused_whole(play: Play) -> None:
    claim = await claimed(play)
    before = await play.snapshot()

    with pytest.raises(Refused, match="at most 1,000 leases; found 1,001"):
        await play.store.jobs.extend([claim.lease] * (BATCH_MAX + 1), lease_ms=9_000, now_ms=play.now_ms)

    assert await play.snapshot() == before
