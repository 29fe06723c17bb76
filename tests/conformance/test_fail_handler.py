"""The fail handler: a dying job also puts a job on the fail queue, in the same step."""

import base64
import json
from collections import Counter
from itertools import count
from typing import Any

import pytest

from headrace.model.claim import Claim, ClaimRequest, Settlement
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetterKey
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import Counts
from headrace.stores.shared.sharding import visiting_order
from tests.support.invariants import ShardFold
from tests.support.play import BOOM, Play


async def failed(play: Play) -> Claim:
    """The one job that waits for the fail handler, claimed."""
    [claim] = await play.claim(10, queues=[play.queue.fail_queue])
    return claim


def read(claim: Claim) -> tuple[str, Any, dict[str, str]]:
    """What a fail handler reads."""
    id, payload, error = json.loads(claim.record.payload)
    return id, payload, error


async def test_a_dying_job_puts_a_job_on_the_fail_queue_in_the_same_step(play: Play) -> None:
    """Q27: the fail job is created as the original ends, with id, payload and error."""
    await play.configure(fail_handler=True)

    key = await play.die("a", payload=b'{"x": [1, null, "\xc3\xbc"]}', tag="spring", headers={"trace": "7"})
    claim = await failed(play)

    assert (claim.record.id, claim.record.kind) == (f"a#{key.number}", "headrace.fail")
    assert read(claim) == (
        "a",
        {"x": [1, None, "ü"]},
        {"class": "Boom", "message": "it broke", "reason": "failed"},
    )
    assert (claim.record.tag, claim.record.headers) == ("spring", {"trace": "7"})
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [key]


async def test_the_fail_queue_job_stands_in_the_shard_of_the_job_that_died(play: Play) -> None:
    await play.configure(fail_handler=True)

    for number in range(6):
        key = await play.die(f"job#{number}")
        fail_queue = play.queue.fail_queue
        found = await play.store.reads.find(fail_queue, [f"job#{number}#{key.number}"], now_ms=play.now_ms)
        assert found[0] is not None
        assert fail_queue.index_of(f"job#{number}#{key.number}") == key.shard == play.queue.index_of(f"job#{number}")


async def test_the_first_death_reaches_the_fail_handler_although_its_queue_was_never_used(play: Play) -> None:
    """v1-a: an empty or missing fail queue must not swallow the job."""
    await play.configure(fail_handler=True)
    before = (await play.store.queues.names("acme")).rows

    await play.die("a")
    claim = await failed(play)
    await play.store.jobs.settle([claim.settle(Done())], now_ms=play.now_ms)
    await play.die("b")

    assert before == [play.queue]
    assert (await play.store.queues.names("acme")).rows == [play.queue, play.queue.fail_queue]
    assert read(await failed(play))[0] == "b"


async def test_the_fail_job_can_be_claimed_and_is_counted(play: Play) -> None:
    """v1-b: a fail job that is in no queue would never be found."""
    await play.configure(fail_handler=True)

    await play.die("a")
    counts = await play.counts(play.queue.fail_queue)
    claims = await play.claims(10, queues=[play.queue.fail_queue])

    assert (counts.waiting, counts.later, counts.oldest_due_ms) == (1, 0, play.now_ms)
    assert [claim.lease.queue for claim in claims.items] == [play.queue.fail_queue]


async def test_the_payload_of_a_fail_job_is_valid_json_for_any_id(play: Play) -> None:
    """v1-b: an id with quotes must not break the payload."""
    await play.configure(fail_handler=True)

    for id in ('a"b', "a\\b", "a'b", "[1, 2]", "ü🙂", "a#1", "#", "{}", "null", "a:b"):
        key = await play.die(id, payload=b'"x"', error=JobError('Bo"om', 'it "broke"\n\\'))
        claim = await failed(play)

        assert claim.record.id == f"{id}#{key.number}"
        assert read(claim) == (id, "x", {"class": 'Bo"om', "message": 'it "broke"\n\\', "reason": "failed"})


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\x00\xff", id="bytes"),
        pytest.param(b"", id="empty"),
        pytest.param(b"not json", id="words"),
        pytest.param(b'{"a":1', id="cut"),
        pytest.param(b"NaN", id="nan"),
        pytest.param(b"[-Infinity]", id="infinity"),
        pytest.param('{"a":1}'.encode("utf-16"), id="utf-16"),
        pytest.param('{"a":1}'.encode("utf-32-le"), id="utf-32"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', id="with-mark"),
        pytest.param(b"1 2", id="two-values"),
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="deep-and-closed"),
    ],
)
async def test_a_payload_that_is_not_json_comes_as_base64(play: Play, payload: bytes) -> None:
    """v1-b, QB4: whatever a payload holds, the job can die and the fail handler can read it."""
    await play.configure(fail_handler=True)

    await play.die("a", payload=payload)
    id, read_payload, error = read(await failed(play))

    assert (id, error["class"]) == ("a", "Boom")
    assert base64.b64decode(read_payload["base64"]) == payload


async def test_a_payload_that_is_json_comes_as_it_was(play: Play) -> None:
    """Q27: the original data, unchanged."""
    await play.configure(fail_handler=True)

    for payload in (
        b"null",
        b" [1, 2] ",
        b"1e400",
        b"1" * 5_000,
        b'"\\ud800"',
        b'{"base64": "eA=="}',
        b'{"a":1,"a":2}',
    ):
        await play.die("a", payload=payload)
        claim = await failed(play)

        assert claim.record.payload.startswith(b'["a",' + payload + b',{"class"')


async def test_the_largest_payload_and_id_reach_the_fail_handler(play: Play) -> None:
    await play.configure(fail_handler=True)
    payload = b"x" * (256 * 1024)

    await play.die("i" * 256, payload=payload)
    claim = await failed(play)

    assert base64.b64decode(read(claim)[1]["base64"]) == payload
    [settled] = await play.store.jobs.settle([claim.settle(Retried(BOOM))], now_ms=play.now_ms)
    assert settled.status == "retried"


@pytest.mark.parametrize("reason", ["failed", "attempts", "stalls", "expired"])
async def test_every_kind_of_death_reaches_the_fail_handler_with_its_reason(play: Play, reason: str) -> None:
    """Q27, QB17: no way of dying is silent."""
    await play.configure(fail_handler=True, max_attempts=1, max_stalls=1)
    if reason == "expired":
        await play.enqueue("a", policy=Policy(expires_at_ms=play.now_ms - 1))
        await play.claim()
    else:
        claim = await play.start("a", lease_ms=1_000)
        if reason != "stalls":
            await play.settle(claim, Failed(BOOM) if reason == "failed" else Retried(BOOM))
        play.advance(1_000)
        await play.repair()

    _, _, error = read(await failed(play))

    [dead_letter] = await play.dead_letters()
    assert (dead_letter.reason, error["reason"]) == (reason, reason)
    assert (error["class"], error["message"]) == (dead_letter.error.cls, dead_letter.error.message)


async def test_a_job_that_does_not_die_does_not_reach_the_fail_handler(play: Play) -> None:
    await play.configure(fail_handler=True)
    await play.settle(await play.start("done"), Done())
    await play.settle(await play.start("retried"), Retried(BOOM))
    await play.cancel("retried")
    await play.settle(await play.start("released"), Released())
    await play.remove("released")

    assert await play.counts(play.queue.fail_queue) == Counts()
    assert (await play.store.queues.names("acme")).rows == [play.queue]


async def test_without_a_fail_handler_there_is_a_dead_letter_and_nothing_else(play: Play) -> None:
    """QB17, Q28: a dead job without a fail handler is not deleted in silence."""
    await play.die("a")

    assert [dead_letter.record.id for dead_letter in await play.dead_letters()] == ["a"]
    assert (await play.store.queues.names("acme")).rows == [play.queue]


async def test_a_fail_handler_set_later_gets_the_deaths_from_then_on(play: Play) -> None:
    await play.die("before")
    await play.configure(fail_handler=True)
    await play.die("after")
    await play.configure(fail_handler=False)
    await play.die("again")

    assert read(await failed(play))[0] == "after"


async def test_each_death_of_an_id_is_a_job_of_its_own_for_the_fail_handler(play: Play) -> None:
    await play.configure(fail_handler=True)

    first, second = await play.die("a"), await play.die("a")
    claims = await play.claim(10, queues=[play.queue.fail_queue])

    assert [claim.record.id for claim in claims] == [f"a#{first.number}", f"a#{second.number}"]


async def test_the_fail_queue_has_a_patient_policy_of_its_own(play: Play) -> None:
    """Q31: 100 attempts, 3 stalls, 10 s to 15 min."""
    await play.configure(fail_handler=True, max_attempts=1, backoff_ms=1)
    await play.die("a", policy=Policy(priority=9, max_attempts=1, backoff_ms=1, timeout_ms=1))
    config = await play.store.queues.configuration(play.queue.fail_queue)

    claim = await failed(play)
    [answer] = await play.store.jobs.settle([claim.settle(Retried(BOOM))], now_ms=play.now_ms)

    assert (config.max_attempts, config.max_stalls) == (100, 3)
    assert (config.backoff_ms, config.backoff_ms_max) == (10_000, 900_000)
    assert (answer.status, answer.run_at_ms) == ("retried", play.now_ms + 10_000)
    assert (claim.record.attempts, claim.priority, claim.timeout_ms) == (0, 5, 0)


async def test_the_fail_queue_is_configured_and_paused_by_itself(play: Play) -> None:
    await play.configure(fail_handler=True)
    fail_queue = play.queue.fail_queue
    await play.store.queues.configure(fail_queue, {"paused": True}, now_ms=play.now_ms)
    await play.die("a")

    paused = await play.claim(10, queues=[fail_queue])
    await play.store.queues.configure(fail_queue, {"paused": False}, now_ms=play.now_ms)

    assert paused == []
    assert read(await failed(play))[0] == "a"


async def test_the_fail_queue_works_on_while_its_queue_is_paused(play: Play) -> None:
    await play.configure(fail_handler=True)
    await play.die("a")
    await play.configure(paused=True)

    assert read(await failed(play))[0] == "a"


async def test_a_fail_job_that_dies_leaves_a_dead_letter_and_no_fail_queue_of_its_own(play: Play) -> None:
    await play.configure(fail_handler=True)
    fail_queue = play.queue.fail_queue
    await play.store.queues.configure(fail_queue, {"fail_handler": True}, now_ms=play.now_ms)
    key = await play.die("a")

    claim = await failed(play)
    [answer] = await play.store.jobs.settle([claim.settle(Failed(BOOM))], now_ms=play.now_ms)

    dead_letters = (await play.store.dead.list(fail_queue, now_ms=play.now_ms)).rows
    assert answer.status == "dead"
    assert [dead_letter.record.id for dead_letter in dead_letters] == [f"a#{key.number}"]
    assert (await play.store.queues.names("acme")).rows == [play.queue, fail_queue]
    with pytest.raises(Refused):
        _ = fail_queue.fail_queue


async def test_the_fail_queue_has_a_journal_of_its_own_written_in_the_same_step(play: Play) -> None:
    await play.configure(fail_handler=True)
    fail_queue = play.queue.fail_queue

    key = await play.die("a", payload=b"1", tag="spring")

    [event] = await play.events(fail_queue)
    assert (event.line.event, event.line.id, event.seq) == ("enqueued", f"a#{key.number}", 1)
    assert (event.line.kind, event.line.tag, event.line.priority) == ("headrace.fail", "spring", 5)
    assert (event.at_ms, event.shard.index) == (play.now_ms, key.shard)
    assert await play.history("a") == ["enqueued", "claimed", "dead"]


async def test_several_deaths_in_one_call_are_one_entry_of_the_fail_queue(play: Play) -> None:
    await play.configure(fail_handler=True)
    ids = play.ids(3)
    await play.enqueue_all(*[play.job(id) for id in ids])
    claims = await play.claim(3)

    await play.store.jobs.settle([claim.settle(Failed(BOOM)) for claim in claims], now_ms=play.now_ms)

    entries = await play.store.journal.read(play.queue.fail_queue.shard_of(f"{ids[0]}#1"), 0, 99)
    assert [(entry.count, entry.last_seq) for entry in entries] == [(3, 3)]


async def test_a_refused_settle_puts_nothing_on_the_fail_queue(play: Play) -> None:
    await play.configure(fail_handler=True)
    claim = await play.start("a", lease_ms=1_000)
    play.advance(1_000)

    answer = await play.settle(claim, Failed(BOOM))

    assert answer.status == "lease_expired"
    assert (await play.store.queues.names("acme")).rows == [play.queue]


async def test_a_dead_letter_stays_when_its_fail_job_is_done_and_goes_without_it(play: Play) -> None:
    await play.configure(fail_handler=True)
    first, second = await play.die("a"), await play.die("b")

    for claim in await play.claim(10, queues=[play.queue.fail_queue]):
        await play.store.jobs.settle([claim.settle(Done())], now_ms=play.now_ms)
    await play.store.dead.purge(play.queue, [second], now_ms=play.now_ms)

    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [first]
    found = await play.store.reads.find(play.queue.fail_queue, [f"b#{second.number}"], now_ms=play.now_ms)
    assert [each and each.state for each in found] == [State.DONE]


async def test_a_queue_that_keeps_no_dead_letters_still_calls_its_fail_handler(play: Play) -> None:
    await play.configure(fail_handler=True, keep_dead_max=0)

    key: DeadLetterKey = await play.die("a")

    assert await play.dead_letters() == []
    assert (await failed(play)).record.id == f"a#{key.number}"


# A queue and its fail queue in one call: one deed on the fail queue's shard, however it is reached.

BOTH_ORDERS = pytest.mark.parametrize("is_fail_queue_first", [False, True], ids=["queue-first", "fail_queue-first"])


def both(play: Play, is_fail_queue_first: bool) -> list[Queue]:
    """The queue and its fail queue in an order."""
    queues = [play.queue, play.queue.fail_queue]
    return queues[::-1] if is_fail_queue_first else queues


async def deaths_and_fail_jobs(play: Play, number: int) -> tuple[list[Claim], list[Claim]]:
    """`number` active jobs of one shard, and as many fail jobs of others that died before."""
    await play.configure(fail_handler=True)
    ids = play.ids(2 * number)
    await play.enqueue_all(*[play.job(id) for id in ids])
    first, second = await play.claim(number), await play.claim(number)
    await play.store.jobs.settle([claim.settle(Failed(BOOM)) for claim in first], now_ms=play.now_ms)
    return second, await play.claim(number, queues=[play.queue.fail_queue])


async def assert_whole(play: Play) -> None:
    """Both journals are without gaps, possible, and fold to the rows of the shards."""
    for queue in both(play, False):
        for shard in queue.all_shards():
            await ShardFold(shard).look(play.store)


def ordered(deaths: list[Settlement], fail_jobs: list[Settlement], is_fail_queue_first: bool) -> list[Settlement]:
    """The settlements of one call."""
    return fail_jobs + deaths if is_fail_queue_first else deaths + fail_jobs


@BOTH_ORDERS
@pytest.mark.parametrize("number", [1, 3])
async def test_a_settle_of_deaths_and_of_fail_jobs_keeps_both_journals_intact(
    play: Play, is_fail_queue_first: bool, number: int
) -> None:
    dying, fail_claims = await deaths_and_fail_jobs(play, number)
    deaths, fail_jobs = [each.settle(Failed(BOOM)) for each in dying], [each.settle(Done()) for each in fail_claims]

    answers = await play.store.jobs.settle(ordered(deaths, fail_jobs, is_fail_queue_first), now_ms=play.now_ms)

    assert {answer.status for answer in answers} == {"dead", "done"}
    await assert_whole(play)
    counts = await play.counts(play.queue.fail_queue)
    assert (counts.waiting, counts.active, counts.done) == (number, 0, number)
    events = Counter(event.line.event for event in await play.events(play.queue.fail_queue))
    assert events == {"enqueued": 2 * number, "claimed": number, "done": number}


@BOTH_ORDERS
async def test_a_turn_of_deaths_and_of_fail_jobs_keeps_both_journals_intact(
    play: Play, is_fail_queue_first: bool
) -> None:
    dying, fail_claims = await deaths_and_fail_jobs(play, 2)
    deaths, fail_jobs = [each.settle(Failed(BOOM)) for each in dying], [each.settle(Done()) for each in fail_claims]
    request = ClaimRequest(queues=both(play, is_fail_queue_first), worker="worker-1", nonce=play.nonce(), limit=10)

    turned = await play.store.jobs.turn(ordered(deaths, fail_jobs, is_fail_queue_first), request, now_ms=play.now_ms)

    assert {answer.status for answer in turned.settled} == {"dead", "done"}
    assert sorted(json.loads(claim.record.payload)[0] for claim in turned.claimed) == sorted(
        claim.record.id for claim in dying
    )
    await assert_whole(play)


async def test_a_turn_at_its_limit_comes_back_at_once_for_the_fail_queue_that_it_created(play: Play) -> None:
    await play.configure(fail_handler=True)
    await play.enqueue("a")
    dying = await play.claim_one()
    fail_queue = play.queue.fail_queue
    first = play.queue.index_of("a")
    # The nonce decides which shard is visited first: here that of the fail job.
    nonce = next(each for each in (play.nonce() for _ in count()) if visiting_order(fail_queue, each)[0].index == first)
    request = ClaimRequest(queues=[play.queue, fail_queue], worker="worker-1", nonce=nonce, limit=1)

    turned = await play.store.jobs.turn([dying.settle(Failed(BOOM))], request, now_ms=play.now_ms)

    assert [claim.lease.queue for claim in turned.claimed] == [fail_queue]
    is_last = play.queue.shards == 1
    assert turned.next_at_ms == (turned.claimed[0].lease.expires_at_ms if is_last else play.now_ms)


@BOTH_ORDERS
async def test_a_claim_that_lets_jobs_die_keeps_both_journals_intact(play: Play, is_fail_queue_first: bool) -> None:
    await play.configure(fail_handler=True, max_stalls=1)
    first, second, third, fourth = play.ids(4)
    await play.enqueue_all(play.job(first), play.job(second))
    [ended, lasting] = await play.claim(2, lease_ms=50)
    await play.extend(lasting.lease, 50)
    await play.settle(ended, Failed(BOOM))
    await play.enqueue_all(play.job(third), play.job(fourth, run_at_ms=play.now_ms + 1))
    play.advance(50)

    claims = await play.claims(10, queues=both(play, is_fail_queue_first))

    await assert_whole(play)
    left = [] if not is_fail_queue_first else await play.claim(10, queues=[play.queue.fail_queue])
    handed = [claim.record.id.partition("#")[0] for claim in [*claims.items, *left]]
    assert sorted(handed) == [first, second, third, fourth]
    assert claims.next_at_ms == (play.now_ms if is_fail_queue_first else play.now_ms + 30_000)
    await assert_whole(play)
