"""Idempotency keys: a repeated enqueue of the same work is one job."""

from typing import Any

import pytest

from headrace.model.job import State, UpdateRunAt
from headrace.model.names import Queue, derived_id
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

DAY_MS = 86_400_000


async def test_a_key_that_was_used_answers_with_the_first_id_and_changes_nothing(play: Play) -> None:
    """T10, C8: no second copy, and no change to the first."""
    first = await play.enqueue(idempotency_key="k", payload=b"1")
    before = await play.snapshot()
    play.advance(10)

    second = await play.enqueue(idempotency_key="k", payload=b"1")

    play.advance(-10)
    assert (first.status, second.status, second.ok) == ("created", "duplicate", True)
    assert first.id == second.id
    assert await play.snapshot() == before
    assert await play.history(first.id) == ["enqueued"]


async def test_jobs_without_a_key_are_never_duplicates(play: Play) -> None:
    """T10: no key, no comparison."""
    answers = [await play.enqueue(payload=b"1") for _ in range(3)]

    assert [answer.status for answer in answers] == ["created"] * 3
    assert len({answer.id for answer in answers}) == 3


@pytest.mark.parametrize("change", [{"payload": b"2"}, {"kind": "other"}, {"payload": b'{ "n":1}'}])
async def test_a_key_that_stands_for_other_work_is_a_conflict_and_changes_nothing(
    play: Play, change: dict[str, Any]
) -> None:
    """The fingerprint covers kind and encoded payload."""
    await play.enqueue(idempotency_key="k")
    before = await play.snapshot()

    answer = await play.enqueue(idempotency_key="k", **change)

    assert (answer.status, answer.ok) == ("conflict", False)
    assert await play.snapshot() == before


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {"trace": "2"}},
        {"run_at_ms": 0},
        {"delay_ms": 5_000},
        {"policy": Policy(priority=9, max_attempts=1)},
        {"tag": "two"},
        {"reset_counts": True},
        {"update_payload": False},
        {"update_run_at": UpdateRunAt.ALWAYS},
        {"idempotency_ttl_ms": 1},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_the_fingerprint_covers_nothing_but_the_work(play: Play, change: dict[str, Any]) -> None:
    """Never headers, times or policy; such a repeat is the same work."""
    first = await play.enqueue(idempotency_key="k")
    before = await play.snapshot()

    answer = await play.enqueue(idempotency_key="k", **change)

    assert (answer.status, answer.id) == ("duplicate", first.id)
    assert await play.snapshot() == before


async def test_the_parts_of_a_fingerprint_do_not_run_into_each_other(play: Play) -> None:
    await play.enqueue(kind="send", payload=b"er1", idempotency_key="k")

    answer = await play.enqueue(kind="sender", payload=b"1", idempotency_key="k")

    assert answer.status == "conflict"


async def test_the_fingerprint_covers_an_explicit_id(play: Play) -> None:
    """An explicit id is other work, even if it equals the derived one."""
    first = await play.enqueue(idempotency_key="k")

    answer = await play.enqueue(first.id, idempotency_key="k")

    assert (answer.id, answer.status) == (first.id, "conflict")


async def test_a_key_without_an_id_derives_it_from_tenant_queue_and_key(play: Play) -> None:
    """So key and job share a shard, and every client finds the same id."""
    answer = await play.enqueue(idempotency_key="order:17")

    assert answer.id == derived_id(play.queue, "order:17")
    assert await play.state(answer.id) is State.WAITING


async def test_a_key_with_an_id_is_scoped_to_that_id(play: Play) -> None:
    """The same key under another id, or under none, is another key."""
    answers = [await play.enqueue(id, idempotency_key="k") for id in ("a", "b", None, "a")]

    assert [answer.status for answer in answers] == ["created", "created", "created", "duplicate"]
    assert (await play.counts()).waiting == 3


async def test_an_id_may_be_enqueued_with_several_keys_each_checked_by_itself(play: Play) -> None:
    answers = [await play.enqueue("a", idempotency_key=key) for key in ("k1", "k2", "k1", "k2")]

    assert [answer.status for answer in answers] == ["created", "updated", "duplicate", "duplicate"]


async def test_a_key_does_not_stand_in_the_way_of_a_plain_upsert(play: Play) -> None:
    """Only a job with a key is checked against keys."""
    await play.enqueue("a", payload=b"1", idempotency_key="k")

    plain = await play.enqueue("a", payload=b"2")
    again = await play.enqueue("a", payload=b"1", idempotency_key="k")

    assert (plain.status, again.status) == ("updated", "duplicate")
    assert (await play.record("a")).payload == b"2"


async def test_a_key_is_scoped_to_its_tenant(play: Play) -> None:
    """CB5, C1: another tenant with the same key gets a job of its own, and never another payload."""
    rival = Queue(play.queue.name, "rival", play.queue.shards)
    mine = await play.enqueue(payload=b"mine", idempotency_key="k")

    theirs = await play.enqueue(payload=b"theirs", idempotency_key="k", queue=rival)

    [claim] = await play.claim(10, queues=[rival])
    assert theirs.status == "created"
    assert theirs.id != mine.id
    assert claim.record.payload == b"theirs"


async def test_a_key_is_scoped_to_its_queue(play: Play) -> None:
    """T10: the same key in another queue is independent, with and without an id."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job(idempotency_key="k"), play.job("a", idempotency_key="k"))

    answers = await play.enqueue_all(
        play.job(idempotency_key="k", queue=second), play.job("a", payload=b"2", idempotency_key="k", queue=second)
    )

    assert [answer.status for answer in answers] == ["created", "created"]


async def test_a_key_holds_until_its_time_and_not_at_it(play: Play) -> None:
    """C8, TB13: kept while now < until, 24 hours by default; then the key is free for other work."""
    await play.enqueue("a", idempotency_key="k")

    play.advance(DAY_MS - 1)
    last = await play.enqueue("a", idempotency_key="k")
    play.advance(1)
    free = await play.enqueue("a", payload=b"2", idempotency_key="k")

    assert (last.status, free.status) == ("duplicate", "updated")
    assert (await play.record("a")).payload == b"2"


@pytest.mark.parametrize("ttl_ms", [None, 5_000], ids=["of-the-queue", "of-the-job"])
async def test_a_duplicate_returns_until_when_its_key_is_remembered(play: Play, ttl_ms: int | None) -> None:
    """The end of the key that matched, not of the new one; other answers have none."""
    await play.configure(idempotency_ttl_ms=7_000)
    first = await play.enqueue_all(*[play.job(id, idempotency_key="k", idempotency_ttl_ms=ttl_ms) for id in "ab"])
    play.advance(10)

    second = await play.enqueue_all(
        play.job("c", idempotency_key="k"),
        play.job("a", idempotency_key="k", idempotency_ttl_ms=1),
        play.job("b", idempotency_key="k", payload=b"other"),
        play.job("c", idempotency_key="k"),
        play.job("d"),
        play.job("b", idempotency_key="k"),
    )

    kept_ms = play.now_ms - 10 + (ttl_ms or 7_000)
    assert [each.until_ms for each in first] == [None, None]
    assert [(each.id, each.status, each.until_ms) for each in second] == [
        ("c", "created", None),
        ("a", "duplicate", kept_ms),
        ("b", "conflict", None),
        ("c", "duplicate", play.now_ms + 7_000),
        ("d", "created", None),
        ("b", "duplicate", kept_ms),
    ]


async def test_a_duplicate_does_not_prolong_its_key(play: Play) -> None:
    await play.enqueue("a", idempotency_key="k", idempotency_ttl_ms=1_000)
    play.advance(999)
    await play.enqueue("a", idempotency_key="k", idempotency_ttl_ms=1_000)

    play.advance(1)

    assert (await play.enqueue("a", idempotency_key="k")).status == "updated"


async def test_a_key_that_is_used_again_holds_from_then_on(play: Play) -> None:
    await play.enqueue("a", payload=b"1", idempotency_key="k", idempotency_ttl_ms=1_000)
    play.advance(1_000)
    await play.enqueue("a", payload=b"2", idempotency_key="k", idempotency_ttl_ms=1_000)

    play.advance(999)

    answers = [await play.enqueue("a", payload=payload, idempotency_key="k") for payload in (b"2", b"1")]
    assert [answer.status for answer in answers] == ["duplicate", "conflict"]


async def test_a_job_may_choose_how_long_its_key_holds(play: Play) -> None:
    await play.enqueue("a", idempotency_key="k", idempotency_ttl_ms=10 * DAY_MS)

    play.advance(10 * DAY_MS - 1)
    last = await play.enqueue("a", idempotency_key="k")
    play.advance(1)

    assert last.status == "duplicate"
    assert (await play.enqueue("a", idempotency_key="k")).status == "updated"


async def test_a_queue_may_choose_how_long_keys_hold(play: Play) -> None:
    await play.configure(idempotency_ttl_ms=500)
    await play.enqueue("a", idempotency_key="k")

    play.advance(499)
    last = await play.enqueue("a", idempotency_key="k")
    play.advance(1)

    assert (last.status, (await play.enqueue("a", idempotency_key="k")).status) == ("duplicate", "updated")


@pytest.mark.parametrize(
    "outcome",
    [Done(), Failed(BOOM), Cancelled(), Retried(BOOM), Released()],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_a_key_is_kept_however_the_job_ends(play: Play, outcome: Outcome) -> None:
    """C8, CB14: done, dead, cancelled or waiting again, the work was enqueued already."""
    first = await play.enqueue(idempotency_key="k")
    await play.settle(await play.claim_one(), outcome)

    answer = await play.enqueue(idempotency_key="k")

    assert (answer.status, answer.id) == ("duplicate", first.id)


@pytest.mark.parametrize("how", ["cancel", "remove", "purge", "active", "forgotten"])
async def test_a_key_is_kept_whatever_becomes_of_the_job(play: Play, how: str) -> None:
    """Kept 24 h, also when nothing else of the job is left."""
    first = await play.enqueue(idempotency_key="k")
    match how:
        case "cancel":
            await play.cancel(first.id)
        case "remove":
            await play.store.jobs.remove(play.queue, [first.id], now_ms=play.now_ms)
        case "purge":
            await play.store.queues.purge(play.queue, now_ms=play.now_ms)
        case "active":
            await play.claim_one()
        case _:
            await play.settle(await play.claim_one())
            play.advance(DAY_MS - 1)
            await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    answers = [await play.enqueue(idempotency_key="k", payload=payload) for payload in (b'{"n":1}', b"2")]

    counts = await play.counts()
    assert [answer.status for answer in answers] == ["duplicate", "conflict"]
    assert (counts.waiting, counts.blocked) == (0, 0)


async def test_a_key_of_a_blocked_enqueue_is_kept_like_any_other(play: Play) -> None:
    """The key is written in the same step as the blocked job, and checked before it."""
    await play.enqueue("a")
    await play.claim_one()

    answers = [await play.enqueue("a", payload=payload, idempotency_key="k") for payload in (b"1", b"1", b"2")]

    found = await play.found("a")
    assert [answer.status for answer in answers] == ["blocked", "duplicate", "conflict"]
    assert found.blocked_job is not None
    assert found.blocked_job.payload == b"1"


async def test_a_batch_may_hold_a_key_twice(play: Play) -> None:
    """CB14: within a call as between calls, one of them creates."""
    answers = await play.enqueue_all(
        *[play.job(idempotency_key="k", payload=payload) for payload in (b"1", b"1", b"2")]
    )

    assert [answer.status for answer in answers] == ["created", "duplicate", "conflict"]
    assert len({answer.id for answer in answers}) == 1


async def test_keys_that_are_over_are_swept_by_repair(play: Play) -> None:
    """TB13, KB10: keys do not grow without bound."""
    await play.enqueue_all(*[play.job(idempotency_key=f"k{number}", idempotency_ttl_ms=1_000) for number in range(20)])

    play.advance(999)
    early = await play.store.jobs.repair(play.queue, now_ms=play.now_ms)
    play.advance(1)
    due = await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    assert early.swept == 0
    assert due.swept > 0


async def test_keys_are_compared_by_code_point(play: Play) -> None:
    keys = ["k", "K", "k ", "é", "e\u0301", "😀", "k%", "k_"]

    answers = [await play.enqueue("a", idempotency_key=key) for key in keys]

    assert [answer.status for answer in answers] == ["created", *["updated"] * (len(keys) - 1)]
