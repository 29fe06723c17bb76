"""Enqueue: what is taken in, merged, kept apart or refused."""

import pytest

from headrace.model.errors import Refused
from headrace.model.job import State, UpdateRunAt
from headrace.model.limits import BATCH_MAX, PAYLOAD_BYTES_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

ALWAYS, NEVER, IF_LATER, IF_EARLIER = UpdateRunAt
HOSTILE = [
    "a:b",
    "a/b",
    "{mail}:x",
    "{",
    "}{",
    "a#1",
    "#",
    "'; DROP TABLE job; --",
    'say "hi"',
    "back\\slash",
    "100%",
    "*",
    "a b",
    " ",
    "null",
    "1e5",
    "-0",
    "été",
    "e\u0301te\u0301",
    "日本",
    "😀🏳",
    "𐍈𐎀",
    "x" * 256,
    "😀" * 256,
]


async def test_a_new_job_waits_with_its_counters_at_zero(play: Play) -> None:
    """Q7, T8: the first enqueue creates the job."""
    answer = await play.enqueue("a", payload=b'{"x":1}')

    found = await play.found("a")
    assert answer.status == "created"
    assert found.state is State.WAITING
    assert found.record is not None
    assert (found.record.payload, found.record.attempts, found.record.stalls) == (b'{"x":1}', 0, 0)
    assert found.record.enqueued_at_ms == found.record.run_at_ms == play.now_ms
    assert await play.history("a") == ["enqueued"]


async def test_a_job_without_an_id_is_known_by_the_one_in_the_answer(play: Play) -> None:
    """Q6, T8: an id is created for a job without one, and returned."""
    first, second = await play.enqueue(), await play.enqueue()

    assert first.status == second.status == "created"
    assert first.id != second.id
    assert await play.state(first.id) is await play.state(second.id) is State.WAITING


@pytest.mark.parametrize(
    "payload",
    [b"null", b"0", b'"text"', b"[1,[2]]", b'{"a":{}}', b"", b"\x00\xff\x1f\n", b" 1 ", b"x" * PAYLOAD_BYTES_MAX],
)
async def test_a_payload_reaches_the_handler_byte_for_byte(play: Play, payload: bytes) -> None:
    """Q6, T5: data is passed unchanged, up to the limit."""
    await play.enqueue("a", payload=payload)

    claim = await play.claim_one()

    assert claim.record.payload == payload


async def test_everything_a_caller_sends_reaches_the_handler(play: Play) -> None:
    """Q3, Q34, QB10, T3, T4, T5: id, kind, data, times, counters and the policy travel with the job."""
    policy = Policy(priority=7, timeout_ms=1_500, max_attempts=4, max_stalls=2, backoff_ms=10, backoff_ms_max=20)
    run_at_ms = play.now_ms - 5
    await play.enqueue("a", kind="resize", run_at_ms=run_at_ms, policy=policy, tag="big", headers={"trace": "é😀"})

    claim = await play.claim_one()

    record = claim.record
    assert (record.id, record.kind, record.tag, record.headers) == ("a", "resize", "big", {"trace": "é😀"})
    assert (record.run_at_ms, record.enqueued_at_ms, record.policy) == (run_at_ms, play.now_ms, policy)
    assert (claim.priority, claim.timeout_ms, record.attempts, record.stalls) == (7, 1_500, 0, 0)


async def test_a_batch_is_answered_in_order_across_shards(play: Play) -> None:
    ids = [f"job-{number}" for number in range(40)]

    answers = await play.enqueue_all(*[play.job(id) for id in ids])

    assert [(answer.id, answer.status) for answer in answers] == [(id, "created") for id in ids]
    assert (await play.counts()).waiting == 40


async def test_a_batch_is_answered_item_by_item_and_refusals_leave_the_others_alone(play: Play) -> None:
    """Q5, Q12: a batch is not all-or-nothing; each item gets its own answer."""
    active, waiting, keyed = "active", "waiting", "keyed"
    await play.enqueue(active)
    await play.claim_one()
    await play.enqueue_all(play.job(waiting), play.job(keyed, payload=b"1", idempotency_key="k"))
    stranger = Queue("other", play.queue.tenant, 2)
    await play.store.jobs.enqueue([play.job("x", queue=stranger)], now_ms=play.now_ms)

    answers = await play.enqueue_all(
        play.job("new"),
        play.job(waiting),
        play.job(active),
        play.job(keyed, payload=b"1", idempotency_key="k"),
        play.job(keyed, payload=b"2", idempotency_key="k"),
        play.job("y", queue=Queue("other", play.queue.tenant, 5)),
        play.job("last"),
    )

    assert [(answer.id, answer.status, answer.ok) for answer in answers] == [
        ("new", "created", True),
        (waiting, "updated", True),
        (active, "blocked", True),
        (keyed, "duplicate", True),
        (keyed, "conflict", False),
        ("y", "wrong_shards", False),
        ("last", "created", True),
    ]
    assert await play.state("last") is State.WAITING


async def test_the_same_id_twice_is_one_job(play: Play) -> None:
    """TB9, Q5: two enqueues of an id never make two deliveries."""
    answers = await play.enqueue_all(play.job("a", payload=b"1"), play.job("a", payload=b"2"))
    await play.enqueue("a", payload=b"3")

    claims = await play.claim(10)

    assert [answer.status for answer in answers] == ["created", "updated"]
    assert [(claim.record.id, claim.record.payload) for claim in claims] == [("a", b"3")]
    assert (await play.counts()).waiting == 0


async def test_an_enqueued_job_is_counted_listed_and_claimable_at_once(play: Play) -> None:
    """CB14: a job is never known without being in line."""
    await play.enqueue("a")

    counts = await play.counts()
    page = await play.store.reads.list(play.queue, State.WAITING, now_ms=play.now_ms)
    assert (counts.waiting, counts.later, counts.active, counts.oldest_due_ms) == (1, 0, 0, play.now_ms)
    assert [found.id for found in page.rows] == ["a"]
    assert await play.claim_ids() == ["a"]


async def test_update_payload_replaces_kind_payload_headers_and_tag(play: Play) -> None:
    """Q8: a re-enqueue brings the new data, by default."""
    await play.enqueue("a", kind="old", payload=b"1", headers={"h": "1"}, tag="one")

    answer = await play.enqueue("a", kind="new", payload=b"2", headers={"h": "2"}, tag="two")

    record = await play.record("a")
    assert answer.status == "updated"
    assert (record.kind, record.payload, record.headers, record.tag) == ("new", b"2", {"h": "2"}, "two")
    assert await play.history("a") == ["enqueued", "updated"]


async def test_without_update_payload_the_old_work_stays(play: Play) -> None:
    """Q8: update_payload=False keeps the data."""
    await play.enqueue("a", kind="old", payload=b"1", headers={"h": "1"}, tag="one")

    answer = await play.enqueue("a", kind="new", payload=b"2", headers={"h": "2"}, tag="two", update_payload=False)

    record = await play.record("a")
    assert answer.status == "updated"
    assert (record.kind, record.payload, record.headers, record.tag) == ("old", b"1", {"h": "1"}, "one")


async def test_an_update_keeps_the_time_of_the_first_enqueue(play: Play) -> None:
    """T4: CreatedAt is set once."""
    first_ms = play.now_ms
    await play.enqueue("a")
    play.advance(5_000)

    await play.enqueue("a", payload=b"2")

    assert (await play.record("a")).enqueued_at_ms == first_ms


@pytest.mark.parametrize(
    ("flag", "given_ms", "expected_ms"),
    [
        (ALWAYS, 5_000, 5_000),
        (ALWAYS, 20_000, 20_000),
        (ALWAYS, None, 0),
        (NEVER, 5_000, 10_000),
        (NEVER, 20_000, 10_000),
        (NEVER, None, 10_000),
        (IF_LATER, 5_000, 10_000),
        (IF_LATER, 10_000, 10_000),
        (IF_LATER, 20_000, 20_000),
        (IF_LATER, None, 10_000),
        (IF_EARLIER, 5_000, 5_000),
        (IF_EARLIER, 20_000, 10_000),
        (IF_EARLIER, None, 0),
        (None, 5_000, 5_000),
        (None, 20_000, 20_000),
        (None, None, 10_000),
    ],
)
async def test_update_run_at_steers_the_time_of_a_waiting_job(
    play: Play, flag: UpdateRunAt | None, given_ms: int | None, expected_ms: int
) -> None:
    """Q9: always overwrites, never keeps, if_later and if_earlier move one way; by default an explicit time wins."""
    start_ms = play.now_ms
    await play.enqueue("a", run_at_ms=start_ms + 10_000)

    await play.enqueue("a", run_at_ms=None if given_ms is None else start_ms + given_ms, update_run_at=flag)

    found, counts = await play.record("a"), await play.counts()
    assert found.run_at_ms - start_ms == expected_ms
    assert (counts.waiting, counts.later) == (1, int(expected_ms > 0))


async def test_a_plain_re_enqueue_does_not_cut_a_backoff_short(play: Play) -> None:
    """Q9: without a time, the time of the waiting job is kept."""
    await play.enqueue("a")
    retried = await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=60_000))

    answer = await play.enqueue("a", payload=b"2")

    record = await play.record("a")
    assert answer.status == "updated"
    assert (record.run_at_ms, record.payload, record.attempts) == (retried.run_at_ms, b"2", 1)
    assert await play.claim_ids() == []


async def test_an_upsert_changes_only_the_policy_fields_it_gives(play: Play) -> None:
    """Q11: the policy of a waiting job can be changed, field by field."""
    await play.enqueue("a", policy=Policy(priority=3, max_attempts=2, backoff_ms=100))

    await play.enqueue("a", policy=Policy(max_attempts=7, timeout_ms=50))

    assert (await play.record("a")).policy == Policy(priority=3, max_attempts=7, backoff_ms=100, timeout_ms=50)


async def test_without_update_policy_the_old_policy_stays(play: Play) -> None:
    """Q11: update_policy=False keeps every field."""
    await play.enqueue("a", policy=Policy(priority=3))

    await play.enqueue("a", payload=b"2", policy=Policy(priority=9, max_attempts=1), update_policy=False)

    record = await play.record("a")
    assert (record.policy, record.payload) == (Policy(priority=3), b"2")


@pytest.mark.parametrize(("reset", "expected"), [(True, (0, 0, None, None)), (False, (1, 1, BOOM, "kept"))])
async def test_reset_counts_alone_puts_the_counters_back(
    play: Play, reset: bool, expected: tuple[int, int, object, object]
) -> None:
    """Q10: counters survive a re-enqueue unless it asks for fresh ones."""
    await play.enqueue("a")
    await play.claim_one(lease_ms=1_000)
    play.advance(1_000)
    await play.settle(await play.claim_one(), Retried(BOOM, delay_ms=60_000))
    failed_at_ms = (await play.record("a")).failed_at_ms

    await play.enqueue("a", reset_counts=reset)

    record = await play.record("a")
    kept = failed_at_ms if expected[3] == "kept" else None
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms) == (*expected[:3], kept)


async def test_a_ready_job_that_stays_due_keeps_its_number(play: Play) -> None:
    """An upsert does not send a job to the end of the line."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(first), play.job(second), play.job(third))
    play.advance(10)

    await play.enqueue(first, payload=b"2")
    await play.enqueue(second, run_at_ms=play.now_ms)

    assert await play.claim_ids() == [first, second, third]


async def test_a_ready_job_that_is_moved_later_draws_a_new_number_when_it_is_due_again(play: Play) -> None:
    """Q9: moved later, it is no longer in line, and comes back at its end."""
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))

    await play.enqueue(first, delay_ms=1_000)

    assert (await play.counts()).later == 1
    play.advance(1_000)
    assert await play.claim_ids() == [second, first]


async def test_a_later_job_that_an_upsert_makes_due_draws_its_number_then(play: Play) -> None:
    """Q9: it stands before what is enqueued after, and behind what was ready before."""
    first, second, third = play.ids(3)
    await play.enqueue_all(play.job(second, delay_ms=60_000), play.job(first))

    await play.enqueue(second, delay_ms=0)
    await play.enqueue(third)

    assert (await play.counts()).later == 0
    assert await play.claim_ids() == [first, second, third]


async def test_an_upsert_of_a_due_job_that_was_not_promoted_yet_promotes_it(play: Play) -> None:
    """It draws its number at that enqueue, before those that a claim promotes."""
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first, delay_ms=1_000), play.job(second, delay_ms=1_000))
    play.advance(1_000)

    await play.enqueue(second, payload=b"2")

    assert (await play.counts()).later == 1
    assert await play.claim_ids() == [second, first]


async def test_a_changed_priority_moves_a_ready_job_to_the_other_line_with_its_number(play: Play) -> None:
    """C6: priority is re-ranked at once, and the number stays."""
    first, second, third, fourth = ids = play.ids(4)
    await play.enqueue_all(*[play.job(id) for id in ids])

    await play.enqueue(third, policy=Policy(priority=9))
    await play.enqueue(second, policy=Policy(priority=9))
    await play.enqueue(first, policy=Policy(priority=0))

    assert await play.claim_ids() == [second, third, fourth, first]


async def test_a_restored_priority_restores_the_old_order(play: Play) -> None:
    first, second, third = ids = play.ids(3)
    await play.enqueue_all(*[play.job(id) for id in ids])

    await play.enqueue(second, policy=Policy(priority=0))
    await play.enqueue(second, policy=Policy(priority=5))

    assert await play.claim_ids() == [first, second, third]


async def test_a_past_time_is_kept_and_counts_as_now(play: Play) -> None:
    """T11, Q6: RunAt zero or past is runnable at once, first in first out, not by its time."""
    first, second, third = play.ids(3)
    await play.enqueue(first)
    await play.enqueue(second, run_at_ms=0)
    await play.enqueue(third, run_at_ms=play.now_ms - 1)

    assert (await play.record(second)).run_at_ms == 0
    assert await play.claim_ids() == [first, second, third]


async def test_a_delay_is_added_to_the_instant_of_the_call(play: Play) -> None:
    """C7: a delay and an instant mean the same."""
    await play.enqueue_all(play.job("a", delay_ms=1_500), play.job("b", run_at_ms=play.now_ms + 1_500))

    assert (await play.record("a")).run_at_ms == (await play.record("b")).run_at_ms == play.now_ms + 1_500


async def test_without_an_instant_the_stores_own_clock_rules(play: Play) -> None:
    """T22: the store adds the delay to its own time."""
    await play.store.jobs.enqueue([play.job("a", delay_ms=7_000)])

    record = await play.record("a")
    assert record.run_at_ms - record.enqueued_at_ms == 7_000
    assert record.enqueued_at_ms > play.now_ms


async def test_a_job_far_ahead_is_not_swept_away_before_its_time(play: Play) -> None:
    """CB9: no retention touches a job that still waits."""
    await play.enqueue("a", delay_ms=300 * 86_400_000, idempotency_key="k")
    play.advance(299 * 86_400_000)

    await play.store.jobs.repair(play.queue, now_ms=play.now_ms)

    play.advance(86_400_000)
    assert await play.claim_ids() == ["a"]


async def test_a_full_shard_refuses_new_jobs_and_changes_nothing(play: Play) -> None:
    first, second, third = play.ids(3)
    await play.configure(waiting_max=2)
    await play.enqueue_all(play.job(first), play.job(second, delay_ms=1_000))
    before = await play.snapshot()

    answer = await play.enqueue(third, idempotency_key="k")

    assert (answer.status, answer.ok) == ("full", False)
    assert await play.snapshot() == before
    await play.claim_one()
    assert (await play.enqueue(third, idempotency_key="k")).status == "created"


async def test_a_full_shard_still_takes_updates_of_waiting_jobs(play: Play) -> None:
    first, second = play.ids(2)
    await play.configure(waiting_max=1)
    await play.enqueue(first)

    answers = await play.enqueue_all(play.job(first, payload=b"2"), play.job(second))

    assert [answer.status for answer in answers] == ["updated", "full"]
    assert (await play.record(first)).payload == b"2"


async def test_blocked_jobs_count_against_the_limit_and_merge_beyond_it(play: Play) -> None:
    first, second = play.ids(2)
    await play.enqueue_all(play.job(first), play.job(second))
    await play.claim(2)
    await play.configure(waiting_max=1)

    answers = await play.enqueue_all(play.job(first), play.job(second), play.job(first))

    assert [answer.status for answer in answers] == ["blocked", "full", "blocked"]
    assert (await play.counts()).blocked == 1


async def test_a_full_shard_takes_its_own_jobs_back(play: Play) -> None:
    """The limit refuses new jobs, never updates of known ones."""
    first, second = play.ids(2)
    await play.enqueue(first)
    claim = await play.claim_one()
    await play.configure(waiting_max=1)
    await play.enqueue(second)

    settled = await play.settle(claim, Retried(BOOM, delay_ms=0))

    assert settled.status == "retried"
    assert (await play.counts()).waiting == 2


async def test_a_wrong_number_of_shards_is_an_answer_and_changes_nothing(play: Play) -> None:
    await play.enqueue("a")
    before = await play.snapshot()
    wrong = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)

    answers = await play.enqueue_all(play.job("a", queue=wrong), play.job("b", queue=wrong, idempotency_key="k"))

    assert [(answer.id, answer.status) for answer in answers] == [("a", "wrong_shards"), ("b", "wrong_shards")]
    assert await play.snapshot() == before
    assert (await play.enqueue("b", idempotency_key="k")).status == "created"


@pytest.mark.parametrize("text", HOSTILE)
async def test_ids_keys_tags_and_kinds_may_hold_any_printable_character(play: Play, text: str) -> None:
    """v1-d, KB18: text of the caller is never taken apart, quoted or matched as a pattern."""
    short = text[:128]
    await play.enqueue_all(play.job("other"), play.job(text, kind=short, tag=short, idempotency_key=text))

    claims = await play.claim(2)
    claim = next(each for each in claims if each.record.id != "other")
    extended = await play.extend(claim.lease)
    settled = await play.settle(claim)

    assert (claim.record.id, claim.record.kind, claim.record.tag) == (text, short, short)
    assert (extended.id, extended.status, settled.id, settled.status) == (text, "extended", text, "done")
    assert await play.history(text) == ["enqueued", "claimed", "done"]
    assert (await play.found(text)).state is State.DONE
    assert await play.state("other") is State.ACTIVE
    again = await play.enqueue(text, kind=short, idempotency_key=text)
    assert again.status == "duplicate"


async def test_ids_that_look_alike_are_different_jobs(play: Play) -> None:
    """Ids are compared by code point: no case folding, no normalisation, no trimming."""
    ids = ["a", "A", "a ", " a", "é", "e\u0301", "1", "01", "1.0", "null"]

    answers = await play.enqueue_all(*[play.job(id) for id in ids])

    assert [answer.status for answer in answers] == ["created"] * len(ids)
    assert sorted(await play.claim_ids()) == sorted(ids)


async def test_tenants_do_not_see_each_other(play: Play) -> None:
    """C1, C5, CB5, CB12: the same queue, id and key of another tenant is another job."""
    other = Queue(play.queue.name, "rival", play.queue.shards)
    await play.enqueue("a", payload=b"1", idempotency_key="k")

    [answer] = await play.enqueue_all(play.job("a", payload=b"2", idempotency_key="k", queue=other))

    theirs = (await play.claims(10, queues=[other])).items
    assert answer.status == "created"
    assert [claim.record.payload for claim in theirs] == [b"2"]
    assert (await play.record("a")).payload == b"1"
    assert (await play.counts()).waiting == 1
    assert [claim.record.payload for claim in await play.claim(10)] == [b"1"]


async def test_counts_are_those_of_one_queue_of_one_tenant(play: Play) -> None:
    """CB8: the numbers of tenants and queues are independent."""
    rival, second = Queue("mail", "rival", play.queue.shards), Queue("second", "acme", play.queue.shards)
    jobs = [play.job("a"), play.job("b"), play.job("a", queue=rival), play.job("a", queue=second)]

    await play.enqueue_all(*jobs)

    assert (await play.counts()).waiting == 2
    assert (await play.counts(rival)).waiting == (await play.counts(second)).waiting == 1
    assert (await play.counts(Queue("mail", "nobody", play.queue.shards))).waiting == 0


async def test_the_same_id_in_two_queues_is_two_jobs(play: Play) -> None:
    """QB15: an id means something only together with its queue."""
    second = Queue("second", play.queue.tenant, play.queue.shards)
    await play.enqueue_all(play.job("a", payload=b"1"), play.job("a", payload=b"2", queue=second))

    claims = await play.claim(10, queues=[play.queue, second])
    settled = await play.settle(claims[0])

    assert [claim.record.payload for claim in claims] == [b"1", b"2"]
    assert settled.status == "done"
    assert (await play.counts(second)).active == 1


async def test_an_ended_id_can_be_created_again_and_loses_its_old_finished_job(play: Play) -> None:
    """Q24: after finish the id is free."""
    await play.enqueue("a")
    await play.settle(await play.claim_one(), Done(b"1"))

    answer = await play.enqueue("a")

    found = await play.found("a")
    assert answer.status == "created"
    assert (found.state, found.finished_job) == (State.WAITING, None)
    assert await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms) is None


async def test_an_id_that_died_is_free_again_and_keeps_its_dead_letter(play: Play) -> None:
    """T21: a dead letter is not a live job."""
    await play.enqueue("a", payload=b"1")
    await play.settle(await play.claim_one(), Failed(BOOM))

    answer = await play.enqueue("a", payload=b"2")

    found = await play.found("a")
    assert answer.status == "created"
    assert (found.state, [dead_letter.record.payload for dead_letter in found.dead_letters]) == (State.WAITING, [b"1"])
    assert (await play.record("a")).attempts == 0


async def test_a_batch_beyond_the_limit_is_refused_as_a_whole(play: Play) -> None:
    await play.enqueue("a")
    before = await play.snapshot()

    with pytest.raises(Refused, match="at most 1,000 jobs; found 1,001; send them in parts"):
        await play.enqueue_all(*[play.job(f"job-{number}") for number in range(BATCH_MAX + 1)])

    assert await play.snapshot() == before


async def test_a_batch_of_the_largest_size_is_taken(play: Play) -> None:
    answers = await play.enqueue_all(*[play.job(f"job-{number}") for number in range(BATCH_MAX)])

    assert {answer.status for answer in answers} == {"created"}
    assert (await play.counts()).waiting == BATCH_MAX


async def test_an_empty_batch_is_answered_with_nothing(play: Play) -> None:
    before = await play.snapshot()

    answers = await play.enqueue_all()

    assert answers == []
    assert await play.snapshot() == before


@pytest.mark.parametrize("now_ms", [-1, 253_402_300_800_000, 1.5, True])
async def test_an_instant_that_is_none_is_refused_before_anything_is_changed(play: Play, now_ms: int) -> None:
    before = await play.snapshot()

    with pytest.raises(Refused, match="now_ms must be"):
        await play.store.jobs.enqueue([play.job("a")], now_ms=now_ms)

    assert await play.snapshot() == before
