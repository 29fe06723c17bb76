"""Turn: a worker that gives back and takes in one round trip."""

import pytest

from headrace.model.claim import Claim, ClaimRequest, Settlement
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import Turned
from tests.support.play import BOOM, Play


async def turn(play: Play, *settlements: Settlement, limit: int = 10, nonce: str | None = None) -> Turned:
    """Settle and claim now."""
    request = ClaimRequest(
        queues=[play.queue], worker="worker-1", nonce=nonce or play.nonce(), limit=limit, lease_ms=1_000
    )
    return await play.store.jobs.turn(list(settlements), request, now_ms=play.now_ms)


def ids(claims: list[Claim]) -> list[str]:
    return [claim.record.id for claim in claims]


async def test_a_turn_settles_and_then_claims(play: Play) -> None:
    """T12, T19: both answers in one."""
    await play.enqueue("a")
    claim = await play.claim_one()
    await play.enqueue("b")

    turned = await turn(play, claim.settle(Done(b"1")))

    assert [(answer.id, answer.status) for answer in turned.settled] == [("a", "done")]
    assert ids(turned.claimed) == ["b"]
    assert await play.state("a") is State.DONE
    assert turned.claimed[0].lease.expires_at_ms == play.now_ms + 1_000


async def test_a_turn_returns_the_time_of_the_store(play: Play) -> None:
    """The `now_ms` of the call, however the turn is answered; without one the store's clock."""
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))
    claim = await play.claim_one()

    play.advance(5)
    handed = await turn(play, claim.settle(Done()))
    play.advance(5)
    empty = await turn(play)
    request = ClaimRequest(queues=[play.queue], worker="worker-1", nonce=play.nonce())
    live = await play.store.jobs.turn([], request)

    assert (handed.now_ms, empty.now_ms) == (play.now_ms - 5, play.now_ms)
    assert [claim.claimed_at_ms for claim in live.claimed] == [live.now_ms]
    assert live.now_ms > play.now_ms


async def test_a_turn_may_claim_a_job_that_it_frees(play: Play) -> None:
    """The claim sees what the settlement left: a released job, a retried one, a freed blocked job."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second), play.job(third))
    claims = await play.claim(3)
    await play.enqueue(third, payload=b"blocked_job")

    turned = await turn(
        play, claims[0].settle(Released()), claims[1].settle(Retried(BOOM, delay_ms=0)), claims[2].settle(Done())
    )

    assert [answer.status for answer in turned.settled] == ["released", "retried", "done"]
    assert ids(turned.claimed) == [first, second, third]
    assert [claim.record.attempts for claim in turned.claimed] == [0, 1, 0]
    assert turned.claimed[2].record.payload == b"blocked_job"
    assert {claim.lease.token for claim in turned.claimed}.isdisjoint(claim.lease.token for claim in claims)


async def test_a_job_that_a_turn_handed_out_again_is_stored_as_it_was_handed_out(play: Play) -> None:
    """CB15: no update of the first half is lost in the second."""
    await play.enqueue("a", payload=b"[1]", policy=Policy(priority=7))
    claim = await play.claim_one()

    turned = await turn(play, claim.settle(Retried(BOOM, delay_ms=0)))

    [again] = turned.claimed
    record = await play.record("a")
    assert record == again.record
    assert (record.attempts, record.error, record.payload, record.policy.priority) == (1, BOOM, b"[1]", 7)
    assert (await play.counts()).active == 1
    assert (await play.settle(again)).status == "done"


async def test_a_job_that_waits_for_its_backoff_is_not_handed_out_in_the_same_turn(play: Play) -> None:
    await play.enqueue("a")
    claim = await play.claim_one()

    turned = await turn(play, claim.settle(Retried(BOOM, delay_ms=300)))

    assert turned.claimed == []
    assert turned.next_at_ms == turned.settled[0].run_at_ms == play.now_ms + 300


async def test_a_refused_settlement_does_not_keep_a_turn_from_claiming(play: Play) -> None:
    """T17: a refusal is an answer."""
    await play.enqueue("a")
    claim = await play.claim_one(lease_ms=10)
    await play.enqueue("b")
    play.advance(10)

    turned = await turn(play, claim.settle(Done()))

    assert [answer.status for answer in turned.settled] == ["lease_expired"]
    assert sorted(ids(turned.claimed)) == ["a", "b"]


async def test_a_turn_without_settlements_is_a_claim(play: Play) -> None:
    await play.enqueue("a", delay_ms=100)

    empty = await turn(play)
    play.advance(100)
    due = await turn(play)

    assert (empty.settled, empty.claimed, empty.next_at_ms) == ([], [], play.now_ms)
    assert (due.settled, ids(due.claimed)) == ([], ["a"])


async def test_a_turn_hands_out_no_more_than_its_limit(play: Play) -> None:
    names = play.ids(4)
    await play.enqueue_all(*[play.job(id) for id in names])
    claims = await play.claim(1)

    turned = await turn(play, claims[0].settle(Done()), limit=2)

    assert ids(turned.claimed) == names[1:3]
    assert turned.next_at_ms == play.now_ms


async def test_a_turn_sent_again_settles_nothing_twice_and_claims_nothing_new(play: Play) -> None:
    """The nonce gives the claims back; the settlements are answered not_active."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second), play.job(third))
    claim = await play.claim_one()
    nonce = play.nonce()
    lost = await turn(play, claim.settle(Done()), limit=1, nonce=nonce)
    before = await play.snapshot()

    again = await turn(play, claim.settle(Done()), limit=1, nonce=nonce)

    assert [answer.status for answer in again.settled] == ["not_active"]
    assert again.claimed == lost.claimed
    assert await play.snapshot() == before


async def test_a_turn_may_settle_in_one_queue_and_claim_from_another(play: Play) -> None:
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a", queue=second), play.job("b"))
    claim = await play.claim_one(queues=[second])

    turned = await turn(play, claim.settle(Done()))

    assert ([answer.status for answer in turned.settled], ids(turned.claimed)) == (["done"], ["b"])
    assert (await play.counts(second)).done == 1


async def test_the_journal_of_a_turn_has_the_end_before_the_claim(play: Play) -> None:
    await play.enqueue("a")
    claim = await play.claim_one()

    await turn(play, claim.settle(Released()))

    assert await play.history("a") == ["enqueued", "claimed", "released", "claimed"]
    seqs = [event.seq for event in await play.events(id="a")]
    assert seqs == [1, 2, 3, 4]


async def test_a_turn_beyond_the_limit_is_refused_whole(play: Play) -> None:
    await play.enqueue("a")
    claim = await play.claim_one()
    await play.enqueue("b")
    before = await play.snapshot()

    with pytest.raises(Refused, match="at most 1,000 settlements; found 1,001"):
        await turn(play, *[claim.settle(Done())] * (BATCH_MAX + 1))

    assert await play.snapshot() == before


@pytest.mark.parametrize("settlements", [0, 1])
async def test_a_turn_with_a_wrong_number_of_shards_settles_nothing(play: Play, settlements: int) -> None:
    """A refused call changes nothing, not even in its first half."""
    await play.enqueue("a")
    claim = await play.claim_one()
    before = await play.snapshot()
    wrong = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)
    request = ClaimRequest(queues=[wrong], worker="worker-1", nonce=play.nonce())

    with pytest.raises(Refused) as refused:
        await play.store.jobs.turn([claim.settle(Done())] * settlements, request, now_ms=play.now_ms)

    assert refused.value.reason == "wrong_shards"
    assert await play.snapshot() == before
