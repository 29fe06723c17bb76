"""Dead letters: written when a job dies, listed, replayed, thrown away, and swept when their time is over."""

import pytest

from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import State
from headrace.model.outcome import Done, Failed, JobError, Released, Retried
from headrace.model.policy import Policy
from headrace.stores.contract.dead_letters import DeadLetterFilter
from tests.support.play import BOOM, Play

OTHER = JobError("Other", "something else")


async def pages(play: Play, where: DeadLetterFilter = DeadLetterFilter(), limit: int = 100) -> list[list[DeadLetter]]:  # noqa: B008 - immutable
    """All pages of a list of dead letters."""
    found: list[list[DeadLetter]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await play.store.dead.list(play.queue, where=where, cursor=cursor, limit=limit, now_ms=play.now_ms)
        found.append(page.rows)
        cursor = page.cursor
        assert len(found) < 100, "the list does not end"
    return found


# Dying.


async def test_a_failed_job_leaves_a_dead_letter_with_its_record_error_time_and_reason(play: Play) -> None:
    """T21, K25: Fail moves the job aside with reason and time."""
    claim = await play.start("a", payload=b'{"x":1}', kind="send", tag="spring", headers={"trace": "1"})
    play.advance(500)

    answer = await play.settle(claim, Failed(BOOM))

    [dead_letter] = await play.dead_letters()
    assert (answer.status, answer.dead_letter) == ("dead", dead_letter.key)
    assert (dead_letter.reason, dead_letter.error, dead_letter.died_at_ms) == ("failed", BOOM, play.now_ms)
    record = dead_letter.record
    assert (record.id, record.payload, record.kind, record.tag) == ("a", b'{"x":1}', "send", "spring")
    assert (record.headers, record.attempts, record.error) == ({"trace": "1"}, 1, BOOM)
    assert dead_letter.key.shard == play.queue.index_of("a")


async def test_a_dead_job_is_not_handed_out_and_not_deleted(play: Play) -> None:
    """T21, K25: dead jobs are never claimed."""
    await play.die("a")

    play.advance(24 * 3_600_000)
    claims = await play.claim(10)

    assert claims == []
    assert await play.state("a") is State.DEAD
    assert [dead_letter.record.id for dead_letter in await play.dead_letters()] == ["a"]


async def test_a_job_out_of_attempts_dies_for_attempts(play: Play) -> None:
    """C18: `attempts >= max_attempts` ends in the dead letters."""
    claim = await play.start("a", policy=Policy(max_attempts=2))
    await play.settle(claim, Retried(OTHER, 0))

    answer = await play.settle(await play.claim_one(), Retried(BOOM))

    [dead_letter] = await play.dead_letters()
    assert answer.status == "dead"
    assert (dead_letter.reason, dead_letter.error, dead_letter.record.attempts) == ("attempts", BOOM, 2)
    assert await play.history("a") == ["enqueued", "claimed", "retried", "claimed", "dead"]


async def test_a_job_out_of_stalls_dies_for_stalls(play: Play) -> None:
    """TB4: a job that kills its worker is not redelivered for ever."""
    await play.start("a", lease_ms=1_000, policy=Policy(max_stalls=2))
    play.advance(1_000)
    await play.claim_one(lease_ms=1_000)

    play.advance(1_000)
    claims = await play.claim(10)

    [dead_letter] = await play.dead_letters()
    assert claims == []
    assert (dead_letter.reason, dead_letter.record.stalls, dead_letter.record.attempts) == ("stalls", 2, 0)
    assert dead_letter.error.cls
    assert dead_letter.error.message


async def test_a_job_that_expired_before_it_started_dies_for_expired(play: Play) -> None:
    await play.enqueue("a", policy=Policy(expires_at_ms=play.now_ms + 1_000))

    play.advance(1_001)
    claims = await play.claim(10)

    [dead_letter] = await play.dead_letters()
    assert claims == []
    assert (dead_letter.reason, dead_letter.record.attempts, dead_letter.died_at_ms) == ("expired", 0, play.now_ms)


async def test_a_settle_sent_again_does_not_write_a_second_dead_letter(play: Play) -> None:
    """T21: a repeated Fail does not duplicate the dead job."""
    claim = await play.start("a")
    first = await play.settle(claim, Failed(BOOM))

    again = await play.settle(claim, Failed(BOOM))

    assert (first.status, again.status) == ("dead", "not_active")
    assert len(await play.dead_letters()) == 1


async def test_dead_letter_numbers_only_grow_in_a_shard_even_when_dead_letters_go(play: Play) -> None:
    first, second = [await play.die(id) for id in play.ids(2)]
    await play.store.dead.purge(play.queue, [first, second], now_ms=play.now_ms)

    third = await play.die(play.ids(1)[0])

    assert first < second < third
    assert first.shard == second.shard == third.shard


async def test_the_id_of_a_dead_job_is_free_again_and_may_die_again(play: Play) -> None:
    first = await play.die("a", error=OTHER)

    answer = await play.enqueue("a")
    waiting = await play.found("a")
    [claim] = await play.claim()
    second = (await play.settle(claim, Failed(BOOM))).dead_letter

    assert answer.status == "created"
    assert (waiting.state, [dead_letter.key for dead_letter in waiting.dead_letters]) == (State.WAITING, [first])
    assert claim.record.attempts == 0
    assert [(dead_letter.key, dead_letter.error) for dead_letter in (await play.found("a")).dead_letters] == [
        (first, OTHER),
        (second, BOOM),
    ]


async def test_the_blocked_job_of_a_dying_job_becomes_a_job_of_its_own(play: Play) -> None:
    claim = await play.start("a", payload=b"1", policy=Policy(max_attempts=1))
    await play.enqueue("a", payload=b"2", delay_ms=1_000)

    await play.settle(claim, Retried(BOOM))
    record = await play.record("a")

    assert [dead_letter.record.payload for dead_letter in await play.dead_letters()] == [b"1"]
    assert (record.payload, record.attempts, record.run_at_ms) == (b"2", 0, play.now_ms + 1_000)


# Listing.


async def test_dead_letters_are_listed_by_shard_then_number(play: Play) -> None:
    keys = [await play.die(f"job-{number}") for number in range(6)]

    listed = [dead_letter.key for dead_letter in await play.dead_letters()]

    assert listed == sorted(keys)


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 100])
async def test_the_pages_of_a_list_show_every_dead_letter_once(play: Play, limit: int) -> None:
    keys = [await play.die(f"job-{number}") for number in range(6)]

    found = await pages(play, limit=limit)

    assert [dead_letter.key for page in found for dead_letter in page] == sorted(keys)
    assert all(len(page) <= limit for page in found)


async def test_a_list_continues_while_dead_letters_come_and_go(play: Play) -> None:
    ids = play.ids(6)
    keys = [await play.die(id) for id in ids[:5]]

    first = await play.store.dead.list(play.queue, limit=2, now_ms=play.now_ms)
    await play.store.dead.purge(play.queue, [keys[1], keys[2]], now_ms=play.now_ms)
    keys.append(await play.die(ids[5]))
    second = await play.store.dead.list(play.queue, cursor=first.cursor, limit=100, now_ms=play.now_ms)

    assert [dead_letter.key for dead_letter in first.rows] == keys[:2]
    assert [dead_letter.key for dead_letter in second.rows] == keys[3:]
    assert second.cursor is None


async def test_a_filter_picks_dead_letters_by_id_kind_tag_reason_error_and_time(play: Play) -> None:
    await play.die("a", kind="send", tag="spring")
    play.advance(10)
    await play.die("b", kind="resize", tag="autumn", error=OTHER)
    play.advance(10)
    await play.enqueue("c", kind="resize", policy=Policy(expires_at_ms=play.now_ms - 1))
    await play.claim()
    start_ms = play.now_ms - 20

    wanted = {
        "id": (DeadLetterFilter(id="a"), ["a"]),
        "kind": (DeadLetterFilter(kind="resize"), ["b", "c"]),
        "tag": (DeadLetterFilter(tag="autumn"), ["b"]),
        "reason": (DeadLetterFilter(reason="expired"), ["c"]),
        "class": (DeadLetterFilter(error_class="Other"), ["b"]),
        "after": (DeadLetterFilter(died_after_ms=start_ms), ["b", "c"]),
        "before": (DeadLetterFilter(died_before_ms=start_ms + 10), ["a", "b"]),
        "both": (DeadLetterFilter(kind="resize", reason="failed"), ["b"]),
        "none": (DeadLetterFilter(tag="winter"), []),
        "all": (DeadLetterFilter(), ["a", "b", "c"]),
    }
    found = {name: await pages(play, where) for name, (where, _) in wanted.items()}

    assert {
        name: sorted(dead_letter.record.id for page in each for dead_letter in page) for name, each in found.items()
    } == {name: ids for name, (_, ids) in wanted.items()}


async def test_a_filtered_list_finds_every_match_page_by_page(play: Play) -> None:
    for number in range(9):
        await play.die(f"job-{number}", kind="odd" if number % 2 else "even")

    found = await pages(play, DeadLetterFilter(kind="odd"), limit=1)

    assert sorted(dead_letter.record.id for page in found for dead_letter in page) == [
        "job-1",
        "job-3",
        "job-5",
        "job-7",
    ]


async def test_a_list_of_an_unknown_queue_is_empty(play: Play) -> None:
    page = await play.store.dead.list(play.queue, now_ms=play.now_ms)

    assert (page.rows, page.cursor) == ([], None)
    assert (await play.store.queues.names("acme")).rows == []


async def test_dead_letters_of_one_tenant_are_not_seen_or_replayed_by_another(play: Play) -> None:
    """C1, CB12: no visibility across tenants, not even with the key in hand."""
    other = Play(play.store, play.queue.shards, tenant="other")
    key = await play.die("a")
    await other.enqueue("b")

    statuses = [(await other.replay(pick)).status for pick in (key, "a")]
    purged = await play.store.dead.purge(other.queue, [key], now_ms=play.now_ms)

    assert await other.dead_letters() == []
    assert statuses == ["not_found", "not_found"]
    assert purged == 0
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [key]


# Replaying.


async def test_replay_drops_the_dead_letter_and_makes_the_job_due_at_once(play: Play) -> None:
    """K26, T35: a dead job goes back to the queue with its counters at zero."""
    key = await play.die("a", payload=b"7", kind="send", tag="spring")
    play.advance(1_000)

    answer = await play.replay(key)

    assert (answer.key, answer.id, answer.status) == (key, "a", "replayed")
    assert await play.dead_letters() == []
    record = (await play.claim_one()).record
    assert (record.id, record.payload, record.kind, record.tag) == ("a", b"7", "send", "spring")
    assert (record.attempts, record.stalls, record.error, record.failed_at_ms) == (0, 0, None, None)
    assert record.run_at_ms == play.now_ms
    assert await play.history("a") == ["enqueued", "claimed", "dead", "replayed", "claimed"]


async def test_replay_can_keep_the_counters(play: Play) -> None:
    """T35: the counters are cleared only when that is wanted."""
    claim = await play.start("a", lease_ms=1_000, policy=Policy(max_attempts=9))
    play.advance(1_000)
    claim = await play.claim_one()
    await play.settle(claim, Failed(BOOM))

    await play.replay("a", keep_counts=True)

    record = await play.record("a")
    assert (record.attempts, record.stalls, record.error) == (1, 1, BOOM)


async def test_replay_by_id_takes_the_newest_dead_letter(play: Play) -> None:
    older = await play.die("a", payload=b"1")
    newer = await play.die("a", payload=b"2")

    answer = await play.replay("a")

    assert (answer.key, answer.status) == (newer, "replayed")
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [older]
    assert (await play.record("a")).payload == b"2"


async def test_replay_by_dead_letter_takes_exactly_that_one(play: Play) -> None:
    older = await play.die("a", payload=b"1")
    newer = await play.die("a", payload=b"2")

    answer = await play.replay(older)

    assert answer.status == "replayed"
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [newer]
    assert (await play.record("a")).payload == b"1"


async def test_a_dead_letter_is_replayed_once_however_often_it_is_requested(play: Play) -> None:
    """KB6: a second replay must not put a second copy on the queue."""
    key = await play.die("a")

    batch = await play.store.dead.replay(play.queue, [key, key, "a"], now_ms=play.now_ms)
    later = [(await play.replay(pick)).status for pick in (key, "a")]
    claims = await play.claim(10)

    assert [answer.status for answer in batch] == ["replayed", "not_found", "not_found"]
    assert later == ["not_found", "not_found"]
    assert [claim.record.id for claim in claims] == ["a"]


@pytest.mark.parametrize("pick", ["by dead letter", "by id"])
@pytest.mark.parametrize("state", ["ready", "later", "active", "blocked"])
async def test_replay_refuses_an_id_that_is_in_use_and_keeps_its_dead_letter(play: Play, state: str, pick: str) -> None:
    """KB6, K26: a job that is not dead any more is not enqueued a second time."""
    key = await play.die("a")
    await play.enqueue("a", delay_ms=1_000 if state == "later" else 0)
    if state in ("active", "blocked"):
        await play.claim_one()
    if state == "blocked":
        await play.enqueue("a")
    before = await play.snapshot()

    answer = await play.replay(key if pick == "by dead letter" else "a")

    assert (answer.key, answer.id, answer.status) == (key, "a", "id_in_use")
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [key]
    assert await play.snapshot() == before


@pytest.mark.parametrize("known", ["never there", "done", "waiting"])
async def test_replay_of_a_live_id_finds_nothing_and_changes_nothing(play: Play, known: str) -> None:
    """KB6, K26, T35: only a dead job can be replayed."""
    await play.enqueue("other")
    if known != "never there":
        await play.cancel("other")
        claim = await play.start("a")
        await play.settle(claim, Done() if known == "done" else Released())
    before = await play.snapshot()

    by_id = await play.replay("a")
    by_dead_letter = await play.replay(DeadLetterKey(0, 999))

    assert (by_id.key, by_id.id, by_id.status) == (None, "a", "not_found")
    assert (by_dead_letter.key, by_dead_letter.id, by_dead_letter.status) == (DeadLetterKey(0, 999), None, "not_found")
    assert await play.snapshot() == before


async def test_replay_in_an_unknown_queue_finds_nothing_and_does_not_make_it(play: Play) -> None:
    answers = await play.store.dead.replay(play.queue, ["a", DeadLetterKey(0, 1)], now_ms=play.now_ms)

    assert [answer.status for answer in answers] == ["not_found", "not_found"]
    assert (await play.store.queues.names("acme")).rows == []


async def test_replay_drops_an_expiry_that_has_passed(play: Play) -> None:
    await play.enqueue("a", policy=Policy(priority=7, expires_at_ms=play.now_ms + 10))
    play.advance(11)
    await play.claim()

    await play.replay("a")
    claim = await play.claim_one()

    assert claim.record.policy == Policy(priority=7)


async def test_replay_keeps_an_expiry_that_is_still_ahead_or_just_now(play: Play) -> None:
    await play.die("a", policy=Policy(expires_at_ms=play.now_ms + 10))
    play.advance(10)

    await play.replay("a")

    assert (await play.record("a")).policy.expires_at_ms == play.now_ms
    assert [claim.record.id for claim in await play.claim()] == ["a"]


async def test_replay_spreads_dead_letters_evenly_over_time_in_order(play: Play) -> None:
    keys = [await play.die(f"job-{number}") for number in range(4)]

    answers = await play.store.dead.replay(play.queue, keys, spread_ms=1_000, now_ms=play.now_ms)

    assert [answer.id for answer in answers] == [f"job-{number}" for number in range(4)]
    times = [(await play.record(f"job-{number}")).run_at_ms - play.now_ms for number in range(4)]
    assert times == [0, 250, 500, 750]


async def test_replay_delays_dead_letters_and_spreads_them_from_there(play: Play) -> None:
    """T35: a dead letter may be replayed for a later time."""
    keys = [await play.die(f"job-{number}") for number in range(2)]

    await play.store.dead.replay(play.queue, keys, delay_ms=60_000, spread_ms=1_000, now_ms=play.now_ms)

    times = [(await play.record(f"job-{number}")).run_at_ms - play.now_ms for number in range(2)]
    assert times == [60_000, 60_500]
    assert await play.claim() == []


async def test_replay_answers_a_batch_item_by_item_in_order(play: Play) -> None:
    keys = [await play.die(f"job-{number}") for number in range(3)]
    await play.enqueue("job-1", delay_ms=1)

    answers = await play.store.dead.replay(play.queue, [keys[2], "nobody", keys[1], "job-0"], now_ms=play.now_ms)

    assert [(answer.key, answer.id, answer.status) for answer in answers] == [
        (keys[2], "job-2", "replayed"),
        (None, "nobody", "not_found"),
        (keys[1], "job-1", "id_in_use"),
        (keys[0], "job-0", "replayed"),
    ]


async def test_a_replayed_job_can_die_again_under_a_larger_number(play: Play) -> None:
    first = await play.die("a")
    await play.replay(first)

    answer = await play.settle(await play.claim_one(), Failed(BOOM))

    assert answer.dead_letter is not None
    assert answer.dead_letter > first


async def test_a_replay_deletes_a_finished_job_of_its_id(play: Play) -> None:
    await play.die("a")
    await play.settle(await play.start("a"), Done(b"1"))

    await play.replay("a")

    found = await play.found("a")
    assert (found.state, found.finished_job) == (State.WAITING, None)


async def test_replay_stands_last_among_the_ready_jobs_of_its_priority(play: Play) -> None:
    first, second, third = play.ids(3)
    await play.die(first)
    await play.enqueue(second)
    await play.enqueue(third, policy=Policy(priority=0))

    await play.replay(first)

    assert [claim.record.id for claim in await play.claim(10)] == [second, first, third]


# Throwing away.


async def test_purge_drops_dead_letters_and_counts_them(play: Play) -> None:
    keys = [await play.die(f"job-{number}") for number in range(3)]

    purged = await play.store.dead.purge(
        play.queue, [keys[0], keys[2], keys[0], DeadLetterKey(0, 999)], now_ms=play.now_ms
    )

    assert purged == 2
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [keys[1]]
    assert await play.history("job-0") == ["enqueued", "claimed", "dead", "purged"]
    assert (await play.replay("job-0")).status == "not_found"


async def test_a_dead_letter_is_kept_until_its_age_is_reached_and_not_longer(play: Play) -> None:
    await play.configure(keep_dead_ms=10_000)
    key = await play.die("a")

    play.advance(9_999)
    last = (await play.dead_letters(), await play.state("a"))
    play.advance(1)
    gone = (await play.dead_letters(), await play.state("a"))

    assert ([dead_letter.key for dead_letter in last[0]], last[1]) == ([key], State.DEAD)
    assert gone == ([], None)


async def test_a_dead_letter_past_its_retention_is_neither_replayed_nor_purged(play: Play) -> None:
    await play.configure(keep_dead_ms=10_000)
    key = await play.die("a")

    play.advance(10_000)
    statuses = [(await play.replay(pick)).status for pick in (key, "a")]
    purged = await play.store.dead.purge(play.queue, [key], now_ms=play.now_ms)

    assert statuses == ["not_found", "not_found"]
    assert purged == 0
    assert await play.claim(10) == []


async def test_a_sweep_drops_dead_letters_past_their_retention_each_with_its_event(play: Play) -> None:
    await play.configure(keep_dead_ms=10_000)
    await play.die("a")
    play.advance(1)
    await play.die("b")

    play.advance(9_999)
    swept = await play.repair()

    assert (swept.swept, swept.more) == (1, False)
    assert await play.history("a") == ["enqueued", "claimed", "dead", "purged"]
    assert await play.history("b") == ["enqueued", "claimed", "dead"]
    assert (await play.counts()).dead == 1


async def test_dead_letters_beyond_the_count_of_a_shard_go_oldest_first_each_with_its_event(play: Play) -> None:
    await play.configure(keep_dead_max=2)
    ids = play.ids(4)

    keys = [await play.die(id) for id in ids]

    assert [dead_letter.key for dead_letter in await play.dead_letters()] == keys[2:]
    assert [await play.history(id) for id in ids[:2]] == [["enqueued", "claimed", "dead", "purged"]] * 2
    assert [event.line.dead_letter for event in await play.events() if event.line.event == "purged"] == [
        key.number for key in keys[:2]
    ]


async def test_a_smaller_count_is_reached_by_sweeping(play: Play) -> None:
    ids = play.ids(5)
    keys = [await play.die(id) for id in ids]

    await play.configure(keep_dead_max=1)
    await play.repair()

    assert [dead_letter.key for dead_letter in await play.dead_letters()] == keys[4:]


async def test_a_queue_that_keeps_no_dead_letters_still_writes_dead(play: Play) -> None:
    await play.configure(keep_dead_max=0)

    await play.die("a")

    assert await play.dead_letters() == []
    assert await play.find("a") is None
    assert await play.history("a") == ["enqueued", "claimed", "dead", "purged"]


@pytest.mark.parametrize(
    "cursor",
    [
        "?",
        "bm90IGEgY3Vyc29y",
        "OTk5OS8x",
        "MC9hYmM=",
        "MC_Csg==",
        "MC85OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=",
        "x" * 5_000,
    ],
)
async def test_a_cursor_that_no_list_gave_is_refused(play: Play, cursor: str) -> None:
    """T34: a bad cursor is refused."""
    await play.die("a")

    with pytest.raises(Refused) as refused:
        await play.store.dead.list(play.queue, cursor=cursor, now_ms=play.now_ms)

    assert refused.value.reason == "bad_cursor"
