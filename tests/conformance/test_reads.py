"""Reads: one job with everything known of it, lists with stable cursors, finished jobs, snapshots and workers."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from headrace.model.errors import Refused
from headrace.model.event import Event
from headrace.model.job import State
from headrace.model.names import Shard
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import SnapshotRow
from headrace.stores.shared.cursors import write_cursor
from tests.support.play import BOOM, START_MS, Play

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def listed(play: Play, state: State, limit: int = 100) -> list[str]:
    """The ids of all jobs in a state, page by page."""
    found: list[str] = []
    cursor: str | None = None
    for _ in range(100):
        page = await play.store.reads.list(play.queue, state, cursor=cursor, limit=limit, now_ms=play.now_ms)
        assert len(page.rows) <= limit
        found += [each.id for each in page.rows]
        cursor = page.cursor
        if cursor is None:
            return found
    pytest.fail("the list does not end")


# Finding.


async def test_find_shows_a_ready_job_and_why_it_is_not_running(play: Play) -> None:
    """T33: inspect a job in any state."""
    await play.enqueue("a", payload=b"7", kind="send", tag="spring", headers={"trace": "1"}, policy=Policy(priority=7))

    found = await play.found("a")

    assert (found.id, found.state, found.why) == ("a", State.WAITING, "it is due and waits for a worker")
    record = found.record
    assert record is not None
    assert (record.payload, record.kind, record.tag, record.headers) == (b"7", "send", "spring", {"trace": "1"})
    assert (record.policy, record.enqueued_at_ms) == (Policy(priority=7), START_MS)
    assert (found.worker, found.fence, found.lease_expires_at_ms, found.cancel_asked) == (None, None, None, False)
    assert (found.blocked_job, found.finished_job, found.dead_letters) == (None, None, ())


async def test_find_shows_when_a_later_job_is_due(play: Play) -> None:
    """QB10, T33: the time is stored with the job and can be seen."""
    await play.enqueue("a", delay_ms=90_000)
    play.advance(30_000)

    found = await play.found("a")

    assert found.record is not None
    assert found.record.run_at_ms == START_MS + 90_000
    assert found.why is not None
    assert "1 m 0 s" in found.why


async def test_find_shows_after_how_many_attempts_a_job_waits_again(play: Play) -> None:
    """T33: with the error of the last attempt and its time."""
    claim = await play.start("a")
    play.advance(5)
    await play.settle(claim, Retried(BOOM, 1_000))

    found = await play.found("a")

    assert found.record is not None
    assert (found.record.attempts, found.record.error, found.record.failed_at_ms) == (1, BOOM, play.now_ms)
    assert found.why is not None
    assert "1 failed attempt" in found.why
    assert "1.0 s" in found.why


async def test_find_shows_that_a_paused_queue_holds_a_waiting_job(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)

    why = (await play.found("a")).why

    assert why is not None
    assert "paused" in why


async def test_find_shows_an_active_job_with_its_lease_and_blocked_job(play: Play) -> None:
    """T33: with the lease, and what waits behind it."""
    claim = await play.start("a", worker="worker-7", lease_ms=5_000, payload=b"1")
    await play.enqueue("a", payload=b"2", delay_ms=9)
    await play.cancel("a")
    await play.enqueue("a", payload=b"3", delay_ms=9)

    found = await play.found("a")

    assert (found.state, found.why) == (State.ACTIVE, None)
    assert (found.worker, found.fence) == ("worker-7", claim.lease.fence)
    assert found.lease_expires_at_ms == claim.lease.expires_at_ms == play.now_ms + 5_000
    assert found.record is not None
    assert found.blocked_job is not None
    assert (found.record.payload, found.blocked_job.payload, found.blocked_job.run_at_ms) == (
        b"1",
        b"3",
        play.now_ms + 9,
    )


async def test_find_shows_an_extended_lease_and_a_cancel_request(play: Play) -> None:
    claim = await play.start("a")
    play.advance(1_000)
    await play.extend(claim.lease, 7_000)
    await play.cancel("a", running=True)

    found = await play.found("a")

    assert (found.lease_expires_at_ms, found.cancel_asked) == (play.now_ms + 7_000, True)


@pytest.mark.parametrize(("outcome", "state"), [(Done(b"9"), State.DONE), (Cancelled(), State.CANCELLED)])
async def test_find_shows_the_finished_job_of_a_job_that_is_over(play: Play, outcome: Outcome, state: State) -> None:
    """T33, K23: the result can be fetched afterwards."""
    claim = await play.start("a", tag="spring", kind="send")
    play.advance(50)
    await play.settle(claim, outcome)

    found = await play.found("a")

    finished_job = found.finished_job
    assert (found.state, found.record, found.why) == (state, None, None)
    assert finished_job is not None
    assert (finished_job.id, finished_job.state, finished_job.kind, finished_job.tag) == (
        "a",
        state.value,
        "send",
        "spring",
    )
    assert (finished_job.enqueued_at_ms, finished_job.ended_at_ms) == (START_MS, START_MS + 50)
    assert finished_job.result == (b"9" if state is State.DONE else None)


async def test_find_shows_the_dead_letters_of_a_dead_job_oldest_first(play: Play) -> None:
    """T33: with what killed it."""
    first, second = await play.die("a", payload=b"1"), await play.die("a", payload=b"2")

    found = await play.found("a")

    assert (found.state, found.finished_job) == (State.DEAD, None)
    assert [dead_letter.key for dead_letter in found.dead_letters] == [first, second]
    assert found.record is not None
    assert found.record.payload == b"2"


async def test_find_shows_all_records_of_an_id_under_the_liveliest_state(play: Play) -> None:
    await play.die("a")
    claim = await play.start("a")
    await play.enqueue("a", delay_ms=1)
    await play.settle(claim, Done(b"9"))
    waiting = await play.found("a")
    play.advance(1)
    await play.claim_one()
    active = await play.found("a")

    for found, state in ((waiting, State.WAITING), (active, State.ACTIVE)):
        assert (found.state, len(found.dead_letters)) == (state, 1)
        assert found.finished_job is not None
        assert found.finished_job.result == b"9"


async def test_find_answers_in_order_and_none_for_unknown_ids(play: Play) -> None:
    """T33: an unknown id is not found."""
    for id in ("a", "b", "c"):
        await play.enqueue(id)

    found = await play.store.reads.find(play.queue, ["c", "nobody", "a", "c"], now_ms=play.now_ms)

    assert [each and each.id for each in found] == ["c", None, "a", "c"]


async def test_find_shows_nothing_of_another_tenant(play: Play) -> None:
    """CB12, C1: no visibility across tenants, not even with the id in hand."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.enqueue("a")
    await other.enqueue("b")

    assert await other.find("a") is None
    assert await listed(other, State.WAITING) == ["b"]


async def test_no_read_shows_the_token_or_the_nonce_of_a_lease(play: Play) -> None:
    """CB11: to see is not to own."""
    nonce = "secret-of-worker-1"
    await play.enqueue("a")
    claim = await play.claim_one(nonce=nonce)
    await play.enqueue("a")

    shards = play.queue.all_shards()
    seen = [
        await play.find("a"),
        await play.store.reads.list(play.queue, State.ACTIVE, now_ms=play.now_ms),
        await play.store.reads.list(play.queue, State.BLOCKED, now_ms=play.now_ms),
        await play.store.reads.workers(play.queue, now_ms=play.now_ms),
        [await play.store.reads.snapshot(shard, now_ms=play.now_ms) for shard in shards],
        [await play.store.journal.read(shard, 0, 99) for shard in shards],
        [event.line for event in await play.events()],
    ]

    text = b"".join(msgspec.json.encode(each) for each in seen) + repr(seen).encode()
    assert nonce in claim.lease.token
    assert nonce.encode() not in text


# Lists.


async def one_of_each(play: Play) -> None:
    """Two jobs in every state."""
    for id in ("done-1", "done-2"):
        await play.settle(await play.start(id))
    for id in ("cancelled-1", "cancelled-2"):
        await play.settle(await play.start(id), Cancelled())
    for id in ("dead-1", "dead-2"):
        await play.die(id)
    for id in ("active-1", "active-2"):
        await play.start(id)
        await play.enqueue(id)
    await play.enqueue("waiting-1")
    await play.enqueue("waiting-2", delay_ms=1_000)


async def test_a_list_holds_exactly_the_jobs_in_a_state(play: Play) -> None:
    """T34, K28: list by state."""
    await one_of_each(play)

    found = {state: sorted(await listed(play, state)) for state in State if state is not State.DEAD}

    assert found == {
        State.WAITING: ["waiting-1", "waiting-2"],
        State.BLOCKED: ["active-1", "active-2"],
        State.ACTIVE: ["active-1", "active-2"],
        State.DONE: ["done-1", "done-2"],
        State.CANCELLED: ["cancelled-1", "cancelled-2"],
    }


async def test_a_listed_job_shows_all_that_find_shows(play: Play) -> None:
    await one_of_each(play)

    for state in (State.WAITING, State.BLOCKED, State.ACTIVE, State.DONE, State.CANCELLED):
        page = await play.store.reads.list(play.queue, state, now_ms=play.now_ms)
        assert page.rows == [await play.found(each.id) for each in page.rows]


@pytest.mark.parametrize("limit", [1, 3, 20])
async def test_a_list_goes_by_shard_then_id_page_by_page(play: Play, limit: int) -> None:
    """T34: stable order, opaque cursor."""
    ids = ["b", "a", "ä", "Z", "🙂", "a#1", "10", "9", "a/b", "{a}", "ﬀ", "a b"]
    for id in ids:
        await play.enqueue(id, delay_ms=len(id))

    assert await listed(play, State.WAITING, limit) == sorted(ids, key=lambda id: (play.queue.index_of(id), id))


@pytest.mark.parametrize("behind", ["job-00002", "job-000020", "job-"])
async def test_a_list_continues_after_any_id_even_an_unknown_one(play: Play, behind: str) -> None:
    """Ids in order: what begins with a text comes next behind it."""
    ids = play.ids(6)
    for id in ids:
        await play.enqueue(id)
    shard = play.queue.index_of(ids[0])

    cursor = write_cursor(shard, behind)
    page = await play.store.reads.list(play.queue, State.WAITING, cursor=cursor, limit=2, now_ms=play.now_ms)

    assert [each.id for each in page.rows] == [id for id in ids if id > behind][:2]


async def test_a_job_that_stays_is_listed_once_while_others_come_and_go(play: Play) -> None:
    """T34, TB14: paging is right whatever else moves."""
    stays = [f"stays-{number:02}" for number in range(0, 40, 2)]
    comes = [f"stays-{number:02}" for number in range(1, 40, 2)]
    for id in [*stays, "goes-1", "goes-2", "goes-3"]:
        await play.enqueue(id, delay_ms=1_000)
    turn = random.Random(7)

    found: list[str] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await play.store.reads.list(play.queue, State.WAITING, cursor=cursor, limit=3, now_ms=play.now_ms)
        found += [each.id for each in page.rows]
        cursor = page.cursor
        await play.enqueue(comes.pop(turn.randrange(len(comes))) if comes else "late", delay_ms=turn.randrange(2_000))
        await play.enqueue(
            turn.choice(stays), delay_ms=turn.randrange(2_000), policy=Policy(priority=turn.randrange(9))
        )
        await play.remove(turn.choice(["goes-1", "goes-2", "goes-3"]))

    assert sorted(id for id in found if id in stays) == stays
    assert len(found) == len(set(found))


async def test_a_list_shows_earlier_jobs_while_another_list_is_under_way(play: Play) -> None:
    """TB14: what one walk has found already is not what another one gets."""
    shard_ids = play.ids(40)
    early, late = shard_ids[::2], shard_ids[1::2]
    await play.enqueue_all(*[play.job(id) for id in early])
    lister = play.store.reads.list
    older = await lister(play.queue, State.WAITING, limit=3, now_ms=play.now_ms)
    older = await lister(play.queue, State.WAITING, cursor=older.cursor, limit=3, now_ms=play.now_ms)
    await play.enqueue_all(*[play.job(id) for id in late])

    newer = await listed(play, State.WAITING, limit=3)
    rest = [each.id for each in older.rows]
    while older.cursor is not None:
        older = await lister(play.queue, State.WAITING, cursor=older.cursor, limit=3, now_ms=play.now_ms)
        rest += [each.id for each in older.rows]

    assert newer == shard_ids
    assert [id for id in rest if id in early] == early[3:]
    assert rest == sorted(set(rest))


async def test_a_list_of_finished_jobs_leaves_out_those_whose_time_is_over(play: Play) -> None:
    await play.configure(keep_done_ms=1_000)
    old, new = play.ids(2)
    await play.settle(await play.start(old))
    play.advance(1)
    await play.settle(await play.start(new))

    play.advance(999)

    assert await listed(play, State.DONE) == [new]


async def test_dead_jobs_are_not_listed_here(play: Play) -> None:
    await play.die("a")

    with pytest.raises(Refused) as refused:
        await play.store.reads.list(play.queue, State.DEAD, now_ms=play.now_ms)

    assert refused.value.reason == "bad_state"
    assert "dead.list" in str(refused.value)


async def test_a_cursor_that_no_list_gave_is_refused(play: Play) -> None:
    """T34: a bad cursor is refused."""
    await play.enqueue("a")

    for cursor in ("?", "", "bm90IGEgY3Vyc29y", "OTk5OS8x", "LTEvYQ==", "é", "x" * 5_000):
        with pytest.raises(Refused) as refused:
            await play.store.reads.list(play.queue, State.WAITING, cursor=cursor, now_ms=play.now_ms)
        assert refused.value.reason == "bad_cursor", cursor


async def test_a_list_of_an_unknown_queue_is_empty(play: Play) -> None:
    for state in (State.WAITING, State.BLOCKED, State.ACTIVE, State.DONE, State.CANCELLED):
        page = await play.store.reads.list(play.queue, state, now_ms=play.now_ms)
        assert (page.rows, page.cursor) == ([], None)


# Finished jobs.


async def test_a_finished_job_is_read_with_its_result_until_its_time_and_not_longer(play: Play) -> None:
    """K22, K23: the result of a finished job can be fetched while it is kept."""
    await play.settle(await play.start("a", policy=Policy(result_ttl_ms=10_000)), Done(b'{"ok":1}'))

    play.advance(9_999)
    last = await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)
    play.advance(1)
    gone = await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)

    assert last is not None
    assert (last.result, last.until_ms, last.pinned) == (b'{"ok":1}', START_MS + 10_000, True)
    assert gone is None
    assert await play.find("a") is None


async def test_a_finished_job_without_a_time_of_its_own_is_kept_for_keep_done_ms(play: Play) -> None:
    await play.settle(await play.start("a"), Done(b""))

    play.advance(HOUR_MS - 1)
    last = await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)
    play.advance(1)

    assert last is not None
    assert (last.result, last.pinned) == (b"", False)
    assert await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms) is None


async def test_a_result_with_a_time_of_its_own_is_kept_whatever_the_count(play: Play) -> None:
    """KB12: reading a result does not delete it."""
    await play.configure(keep_done_max=1)
    pinned, first, second = play.ids(3)

    await play.settle(await play.start(pinned, policy=Policy(result_ttl_ms=5_000)), Done(b"1"))
    await play.settle(await play.start(first), Done(b"2"))
    await play.settle(await play.start(second), Done(b"3"))

    finished_jobs = [
        await play.store.reads.finished_job(play.queue, id, now_ms=play.now_ms) for id in (pinned, first, second)
    ]
    assert [each and each.result for each in finished_jobs] == [b"1", None, b"3"]


async def test_waiting_active_and_dead_jobs_have_no_finished_job(play: Play) -> None:
    await play.die("dead")
    await play.start("active")
    await play.enqueue("waiting")

    for id in ("dead", "active", "waiting", "nobody"):
        assert await play.store.reads.finished_job(play.queue, id, now_ms=play.now_ms) is None


# Snapshots against the journal.


def fold(events: Iterable[Event]) -> list[SnapshotRow]:  # noqa: PLR0912 - one branch per event
    """The records of a shard according to its journal alone, written without looking at any store."""
    live: dict[str, SnapshotRow] = {}
    blocked_jobs: dict[str, SnapshotRow] = {}
    over: dict[str, SnapshotRow] = {}
    dead_letters: dict[int, SnapshotRow] = {}
    for event in events:
        line = event.line
        id, kind, dead_letter = line.id or "", line.kind or "", line.dead_letter or 0
        counts = (line.attempts or 0, line.stalls or 0)
        waiting = SnapshotRow(id, State.WAITING, kind, line.priority, *counts, line.run_at_ms)
        match line.event:
            case "enqueued" | "replayed":
                live[id] = waiting
                over.pop(id, None)
                dead_letters.pop(dead_letter, None)
            case "updated" | "retried" | "released" | "stalled":
                live[id] = waiting
            case "merged" | "unblocked":
                live[id] = waiting
                del blocked_jobs[id]
            case "blocked":
                blocked_jobs[id] = msgspec.structs.replace(waiting, state=State.BLOCKED)
            case "claimed":
                live[id] = msgspec.structs.replace(live[id], state=State.ACTIVE, fence=line.fence)
            case "done":
                del live[id]
                over[id] = SnapshotRow(id, State.DONE, kind, None, *counts)
            case "cancelled" if line.fence is None and live[id].state is State.ACTIVE:
                del blocked_jobs[id]
            case "cancelled":
                del live[id]
                over[id] = SnapshotRow(id, State.CANCELLED, kind, None, *counts)
            case "dead":
                del live[id]
                dead_letters[dead_letter] = SnapshotRow(
                    id, State.DEAD, kind, line.priority, *counts, dead_letter=dead_letter
                )
            case "removed":
                for table in (live, blocked_jobs, over):
                    table.pop(id, None)
                dead_letters = {number: row for number, row in dead_letters.items() if row.id != id}
            case "purged" if line.dead_letter is not None:
                del dead_letters[dead_letter]
            case "purged":
                del live[id]
            case "asked" | "configured":
                pass
    rows = [*live.values(), *blocked_jobs.values(), *over.values(), *dead_letters.values()]
    return sorted(rows, key=lambda row: (row.id, row.state, row.dead_letter or 0))


async def random_step(play: Play, turn: random.Random) -> None:
    """One random call on a few ids."""
    ids = [f"job-{number}" for number in range(8)]
    id = turn.choice(ids)
    outcomes: list[Outcome] = [Done(b"1"), Retried(BOOM, turn.randrange(900)), Failed(BOOM), Released(5), Cancelled()]
    match turn.randrange(10):
        case 0 | 1 | 2:
            policy = Policy(priority=turn.randrange(10), max_attempts=turn.randrange(1, 4), max_stalls=2)
            kind = turn.choice(["send", "resize"])
            await play.enqueue(id, delay_ms=turn.choice([0, 300]), policy=policy, kind=kind)
        case 3 | 4 | 5:
            claims = await play.claim(turn.randrange(1, 4), lease_ms=turn.choice([200, 5_000]))
            for claim in claims[turn.randrange(2) :]:
                await play.enqueue(claim.lease.id, delay_ms=turn.choice([0, 50]))
                await play.settle(claim, turn.choice(outcomes))
        case 6:
            await play.cancel(id, running=turn.random() < 0.5)
        case 7:
            await play.replay(id, keep_counts=turn.random() < 0.5)
        case 8:
            await (play.remove(id) if turn.random() < 0.3 else play.repair())
        case _:
            play.advance(turn.randrange(400))


@pytest.mark.parametrize("seed", range(4))
async def test_a_snapshot_equals_the_fold_of_the_journal_up_to_its_seq(play: Play, seed: int) -> None:
    turn = random.Random(seed)
    snapshots: list[tuple[Shard, int, list[SnapshotRow]]] = []

    for _ in range(12):
        for _ in range(8):
            await random_step(play, turn)
        for shard in play.queue.all_shards():
            snapshot = await play.store.reads.snapshot(shard, now_ms=play.now_ms)
            snapshots.append((shard, snapshot.as_of_seq, snapshot.rows))

    for shard, as_of_seq, rows in snapshots:
        events = [event for event in await play.events() if event.shard == shard and event.seq <= as_of_seq]
        assert len(events) == as_of_seq
        assert rows == fold(events)
    assert len({row.state for _, _, rows in snapshots for row in rows}) >= 4


async def test_a_snapshot_leaves_out_rows_past_their_retention(play: Play) -> None:
    await play.configure(keep_done_ms=1_000, keep_dead_ms=1_000)
    await play.settle(await play.start("done"))
    await play.die("dead")

    play.advance(1_000)

    for shard in play.queue.all_shards():
        assert (await play.store.reads.snapshot(shard, now_ms=play.now_ms)).rows == []


async def test_a_snapshot_of_an_unknown_queue_is_empty(play: Play) -> None:
    snapshot = await play.store.reads.snapshot(play.queue.all_shards()[0], now_ms=play.now_ms)

    assert (snapshot.as_of_seq, snapshot.rows) == (0, [])


# Workers.


async def test_workers_are_seen_by_name_then_shard_also_when_they_found_nothing(play: Play) -> None:
    await play.configure(priority=3)
    await play.claim(worker="worker-2")
    play.advance(5)
    await play.claim(worker="worker-1")

    seen = await play.store.reads.workers(play.queue, now_ms=play.now_ms)

    assert [(each.worker, each.shard, each.seen_at_ms) for each in seen] == [
        *(("worker-1", shard, START_MS + 5) for shard in range(play.queue.shards)),
        *(("worker-2", shard, START_MS) for shard in range(play.queue.shards)),
    ]


async def test_a_worker_that_was_handed_a_job_is_seen_at_once(play: Play) -> None:
    await play.start("a", worker="worker-1")
    play.advance(5)
    await play.start("b", worker="worker-1")

    seen = await play.store.reads.workers(play.queue, now_ms=play.now_ms)

    assert {each.worker for each in seen} == {"worker-1"}
    assert max(each.seen_at_ms for each in seen) == play.now_ms


async def test_an_idle_worker_is_seen_to_within_ten_seconds(play: Play) -> None:
    await play.configure(priority=3)
    for _ in range(5):
        await play.claim(worker="worker-1")
        play.advance(4_000)
    await play.claim(worker="worker-1")

    seen = await play.store.reads.workers(play.queue, now_ms=play.now_ms)

    assert len(seen) == play.queue.shards
    assert all(play.now_ms - each.seen_at_ms < 10_000 for each in seen)


async def test_a_worker_is_forgotten_after_a_day(play: Play) -> None:
    await play.configure(priority=3)
    await play.claim(worker="worker-1")

    play.advance(DAY_MS - 1)
    last = await play.store.reads.workers(play.queue, now_ms=play.now_ms)
    play.advance(1)
    gone = await play.store.reads.workers(play.queue, now_ms=play.now_ms)

    assert len(last) == play.queue.shards
    assert gone == []


async def test_workers_of_one_tenant_are_not_seen_by_another(play: Play) -> None:
    """C1: every structure is per tenant."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.start("a")
    await other.enqueue("a")

    assert await play.store.reads.workers(other.queue, now_ms=play.now_ms) == []
