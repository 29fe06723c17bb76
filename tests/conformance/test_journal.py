"""The journal: each transition writes its event, under numbers without a gap, and readers are remembered."""

from typing import Any

import pytest
from msgspec.structs import asdict

from headrace.model.claim import ClaimRequest
from headrace.model.errors import Refused
from headrace.model.event import EVENTS, Bounds, Entry, Event, columns
from headrace.model.names import Shard
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, START_MS, Play

DAY_MS = 24 * 3_600_000
FAILED = {"error_class": "Boom", "error_message": "it broke"}


def set_columns(event: Event) -> dict[str, object]:
    """The columns that an event sets, without its name and id."""
    return {
        name: value for name, value in asdict(event.line).items() if value is not None and name not in ("event", "id")
    }


async def last(play: Play, id: str | None, event: str) -> dict[str, object]:
    """The columns of the last event of an id, which must have this name."""
    found = [each for each in await play.events() if each.line.id == id][-1]
    assert found.line.event == event
    assert found.line.id == id
    return set_columns(found)


async def read(play: Play, shard: Shard, after: int, upto: int) -> list[Event]:
    """The events of a range."""
    entries = await play.store.journal.read(shard, after, upto)
    return [event for entry in entries for event in entry.events(shard)]


async def fill(play: Play, count: int) -> tuple[Shard, list[str]]:
    """Jobs of one shard, each enqueued by a call of its own."""
    ids = play.ids(count)
    for id in ids:
        await play.enqueue(id)
    return play.queue.shard_of(ids[0]), ids


async def bounds(play: Play, shard: Shard) -> Bounds:
    return await play.store.journal.bounds(shard)


async def seqs(play: Play, shard: Shard) -> list[int]:
    """The numbers that can be read."""
    return [event.seq for event in await read(play, shard, 0, 2**62)]


# One test per event: the columns that it sets, and by being a whole dictionary, those that it does not.


async def test_enqueued_describes_the_job_and_its_due_time(play: Play) -> None:
    await play.enqueue("a", kind="send", tag="spring", payload=b"12345", delay_ms=500, policy=Policy(priority=7))

    assert await last(play, "a", "enqueued") == {
        "kind": "send",
        "tag": "spring",
        "priority": 7,
        "run_at_ms": play.now_ms + 500,
        "payload_bytes": 5,
    }


async def test_updated_has_the_attempts(play: Play) -> None:
    await play.settle(await play.start("a"), Retried(BOOM))
    await play.enqueue("a", kind="resize", payload=b"[]", run_at_ms=play.now_ms + 700)

    assert await last(play, "a", "updated") == {
        "kind": "resize",
        "priority": 5,
        "attempts": 1,
        "stalls": 0,
        "run_at_ms": play.now_ms + 700,
        "payload_bytes": 2,
    }


async def test_blocked_describes_the_blocked_job(play: Play) -> None:
    await play.start("a")
    await play.enqueue("a", kind="resize", tag="autumn", payload=b"[]", delay_ms=40, policy=Policy(priority=2))

    assert await last(play, "a", "blocked") == {
        "kind": "resize",
        "tag": "autumn",
        "priority": 2,
        "run_at_ms": play.now_ms + 40,
        "payload_bytes": 2,
    }


async def test_unblocked_describes_the_waiting_job(play: Play) -> None:
    claim = await play.start("a")
    await play.enqueue("a", kind="resize", tag="autumn", payload=b"[]", delay_ms=40)
    await play.settle(claim)

    assert await last(play, "a", "unblocked") == {
        "kind": "resize",
        "tag": "autumn",
        "priority": 5,
        "run_at_ms": play.now_ms + 40,
        "payload_bytes": 2,
    }


async def test_merged_describes_the_waiting_job_and_its_attempts(play: Play) -> None:
    claim = await play.start("a")
    await play.enqueue("a", kind="resize", tag="autumn", payload=b"[]", run_at_ms=play.now_ms + 40)
    await play.settle(claim, Retried(BOOM))

    assert await last(play, "a", "merged") == {
        "kind": "resize",
        "tag": "autumn",
        "priority": 5,
        "attempts": 1,
        "stalls": 0,
        "run_at_ms": play.now_ms + 40,
        "payload_bytes": 2,
    }


async def test_claimed_carries_the_fence_and_the_worker_only(play: Play) -> None:
    claim = await play.start("a", worker="worker-7", tag="spring")

    assert await last(play, "a", "claimed") == {"fence": claim.lease.fence, "worker": "worker-7"}


async def test_done_has_the_times_of_waiting_and_running(play: Play) -> None:
    await play.enqueue("a", kind="send", tag="spring", payload=b"12345", delay_ms=500)
    play.advance(800)
    claim = await play.claim_one(worker="worker-7")
    play.advance(50)
    await play.settle(claim, Done(b"1"), run_ms=48)

    assert await last(play, "a", "done") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "fence": claim.lease.fence,
        "worker": "worker-7",
        "enqueued_at_ms": START_MS,
        "wait_ms": 300,
        "run_ms": 48,
        "payload_bytes": 5,
    }


async def test_retried_names_its_error_and_its_next_due_time(play: Play) -> None:
    claim = await play.start("a", payload=b"12345", tag="spring")
    play.advance(50)
    await play.settle(claim, Retried(BOOM, 3_000), run_ms=50)

    assert await last(play, "a", "retried") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 1,
        "stalls": 0,
        "fence": claim.lease.fence,
        "worker": "worker-1",
        "run_at_ms": play.now_ms + 3_000,
        "enqueued_at_ms": START_MS,
        "wait_ms": 0,
        "run_ms": 50,
        "payload_bytes": 5,
        **FAILED,
    }


async def test_released_names_its_next_due_time_and_counts_nothing(play: Play) -> None:
    claim = await play.start("a", payload=b"12345")
    await play.settle(claim, Released(3_000), run_ms=1)

    assert await last(play, "a", "released") == {
        "kind": "send",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "fence": claim.lease.fence,
        "worker": "worker-1",
        "run_at_ms": play.now_ms + 3_000,
        "enqueued_at_ms": START_MS,
        "wait_ms": 0,
        "run_ms": 1,
        "payload_bytes": 5,
    }


@pytest.mark.parametrize("by", ["claim", "sweep"])
async def test_stalled_names_the_lost_worker_and_not_the_repairing_one(play: Play, by: str) -> None:
    claim = await play.start("a", worker="lost", lease_ms=1_000, payload=b"12345")
    play.advance(1_500)
    await (play.repair() if by == "sweep" else play.store.jobs.claim(finder_claim(play), now_ms=play.now_ms))

    stalled = [event for event in await play.events(id="a") if event.line.event == "stalled"]
    assert [set_columns(event) for event in stalled] == [
        {
            "kind": "send",
            "priority": 5,
            "attempts": 0,
            "stalls": 1,
            "fence": claim.lease.fence,
            "worker": "lost",
            "run_at_ms": play.now_ms,
            "enqueued_at_ms": START_MS,
            "wait_ms": 0,
            "run_ms": 1_500,
            "payload_bytes": 5,
        }
    ]


def finder_claim(play: Play) -> ClaimRequest:
    return ClaimRequest(queues=[play.queue], worker="finder", nonce=play.nonce())


async def test_dead_names_its_reason_and_dead_letter(play: Play) -> None:
    claim = await play.start("a", payload=b"12345", tag="spring")
    play.advance(50)
    answer = await play.settle(claim, Failed(BOOM), run_ms=50)

    assert answer.dead_letter is not None
    assert await last(play, "a", "dead") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 1,
        "stalls": 0,
        "fence": claim.lease.fence,
        "worker": "worker-1",
        "enqueued_at_ms": START_MS,
        "wait_ms": 0,
        "run_ms": 50,
        "reason": "failed",
        "dead_letter": answer.dead_letter.number,
        "payload_bytes": 5,
        **FAILED,
    }


async def test_dead_of_a_job_that_never_started_names_no_delivery(play: Play) -> None:
    await play.enqueue("a", payload=b"12345", policy=Policy(expires_at_ms=play.now_ms))
    play.advance(1)
    await play.claim()

    written = await last(play, "a", "dead")
    [dead_letter] = await play.dead_letters()
    assert written == {
        "kind": "send",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "enqueued_at_ms": START_MS,
        "reason": "expired",
        "dead_letter": dead_letter.key.number,
        "payload_bytes": 5,
        "error_class": dead_letter.error.cls,
        "error_message": dead_letter.error.message,
    }


async def test_asked_names_the_delivery(play: Play) -> None:
    claim = await play.start("a", worker="worker-7", tag="spring")
    await play.cancel("a", running=True)

    assert await last(play, "a", "asked") == {"fence": claim.lease.fence, "worker": "worker-7"}


async def test_cancelled_of_a_waiting_job_names_no_delivery(play: Play) -> None:
    await play.enqueue("a", tag="spring", payload=b"12345", delay_ms=99)
    play.advance(1)
    await play.cancel("a")

    assert await last(play, "a", "cancelled") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "enqueued_at_ms": START_MS,
        "payload_bytes": 5,
    }


async def test_cancelled_of_a_blocked_job_names_the_blocked_job(play: Play) -> None:
    await play.start("a")
    play.advance(1)
    await play.enqueue("a", kind="resize", payload=b"12")
    await play.cancel("a")

    assert await last(play, "a", "cancelled") == {
        "kind": "resize",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "enqueued_at_ms": START_MS + 1,
        "payload_bytes": 2,
        "reason": "blocked",
    }


async def test_cancelled_of_an_active_job_names_its_delivery(play: Play) -> None:
    claim = await play.start("a", tag="spring", payload=b"12345")
    await play.settle(claim, Cancelled(), run_ms=3)

    assert await last(play, "a", "cancelled") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "fence": claim.lease.fence,
        "worker": "worker-1",
        "enqueued_at_ms": START_MS,
        "wait_ms": 0,
        "run_ms": 3,
        "payload_bytes": 5,
    }


@pytest.mark.parametrize("place", ["ready", "later", "retried"])
async def test_removed_of_a_waiting_job_has_its_kind_and_state(play: Play, place: str) -> None:
    if place == "retried":
        await play.settle(await play.start("a", kind="resize"), Retried(BOOM))
    else:
        await play.enqueue("a", kind="resize", tag="spring", delay_ms=99 if place == "later" else 0)
    await play.remove("a")

    assert await last(play, "a", "removed") == {"kind": "resize", "reason": "waiting"}


@pytest.mark.parametrize("blocks", [True, False], ids=["with-a-blocked_job", "alone"])
async def test_removed_of_an_active_job_has_its_kind_and_state(play: Play, blocks: bool) -> None:
    await play.start("a", kind="resize", tag="spring")
    if blocks:
        await play.enqueue("a", kind="send")
    await play.remove("a")

    assert await last(play, "a", "removed") == {"kind": "resize", "reason": "active"}


async def test_removed_of_an_ended_job_has_only_its_id(play: Play) -> None:
    await play.settle(await play.start("done"), Done())
    await play.die("dead")
    for id in ("done", "dead"):
        await play.remove(id)

    assert await last(play, "done", "removed") == {}
    assert await last(play, "dead", "removed") == {}


async def test_replayed_names_the_dead_letter_and_describes_the_waiting_job(play: Play) -> None:
    key = await play.die("a", tag="spring", payload=b"12345")
    play.advance(10)
    await play.replay(key)

    assert await last(play, "a", "replayed") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "run_at_ms": play.now_ms,
        "dead_letter": key.number,
        "payload_bytes": 5,
    }


async def test_purged_describes_the_waiting_job(play: Play) -> None:
    await play.enqueue("a", tag="spring", payload=b"12345")
    play.advance(1)
    await play.store.queues.purge(play.queue, now_ms=play.now_ms)

    assert await last(play, "a", "purged") == {
        "kind": "send",
        "tag": "spring",
        "priority": 5,
        "attempts": 0,
        "stalls": 0,
        "enqueued_at_ms": START_MS,
        "payload_bytes": 5,
    }


async def test_purged_of_a_dead_letter_names_it(play: Play) -> None:
    key = await play.die("a", tag="spring")
    await play.store.dead.purge(play.queue, [key], now_ms=play.now_ms)

    assert await last(play, "a", "purged") == {"kind": "send", "tag": "spring", "dead_letter": key.number}


async def test_configured_is_written_to_every_shard_with_the_version(play: Play) -> None:
    await play.configure(priority=4)
    config = await play.configure(paused=True)

    for shard in play.queue.all_shards():
        written = await read(play, shard, 0, 99)
        assert [(event.line.event, event.line.id) for event in written] == [("configured", None)] * 2
        assert [set_columns(event) for event in written] == [{"version": config.version - 1}, {"version": 2}]


async def test_an_event_is_one_flat_row_with_its_tenant_queue_shard_epoch_seq_and_time(play: Play) -> None:
    await play.enqueue("a")

    [event] = await play.events()
    row = columns(event)
    assert (row["tenant"], row["queue"], row["shard"]) == ("acme", "mail", play.queue.index_of("a"))
    assert (row["seq"], row["at_ms"], row["event"], row["id"]) == (1, play.now_ms, "enqueued", "a")
    assert row["epoch"] == (await bounds(play, play.queue.shard_of("a"))).epoch


async def test_events_are_numbered_without_a_gap_whatever_call_they_are_of(play: Play) -> None:
    ids = play.ids(3)
    await play.enqueue(ids[0])
    await play.enqueue_all(play.job(ids[1]), play.job(ids[2]))
    await play.settle(await play.claim_one())

    assert [columns(event)["seq"] for event in await play.events()] == [1, 2, 3, 4, 5]


def test_every_event_name_has_its_test() -> None:
    names = {name.removeprefix("test_").partition("_")[0] for name in globals() if name.startswith("test_")}

    assert set(EVENTS) <= names


@pytest.mark.parametrize(
    "ids",
    [
        ["plain", 'quo"ted', "back\\slash", "wíde", "d" * 36],
        [f"018bcfe5-6800-7000-8000-00000000000{each}" for each in range(5)],
        [f"018BCFE5-6800-7000-8000-00000000000{each}" for each in range(5)],
        [
            "018bcfe5-6800-7000-8000-00000000000 ",
            *["018bcfe5-6800-7000-8000-0000000000" + each for each in ("-1", "2")],
        ],
    ],
)
async def test_jobs_of_a_call_each_have_their_own_event(play: Play, ids: list[str]) -> None:
    given: list[dict[str, Any]] = [
        {"kind": "send", "payload": b""},
        {"kind": 're"size', "payload": b"x" * 99, "tag": 'spr"ing'},
        {"kind": "send", "payload": b"x" * 100, "policy": Policy(priority=8)},
        {"kind": "sénd", "payload": b"x" * 70_000, "policy": Policy(timeout_ms=9)},
        {"kind": "send", "payload": b"12345", "headers": {"a": "b"}},
    ]
    jobs = [play.job(id, **fields) for id, fields in zip(ids, given, strict=False)]
    await play.enqueue_all(*jobs)
    claims = {claim.lease.id: claim for claim in await play.claim(10)}

    recorded = {event.line.id: set_columns(event) for event in await play.events() if event.line.event == "enqueued"}
    claimed = {event.line.id: event.line.fence for event in await play.events() if event.line.event == "claimed"}

    assert recorded == {
        job.id: {
            "kind": job.kind,
            **({} if job.tag is None else {"tag": job.tag}),
            "priority": 8 if job.policy.priority else 5,
            "payload_bytes": len(job.payload),
            "run_at_ms": play.now_ms,
        }
        for job in jobs
    }
    assert claimed == {id: claim.lease.fence for id, claim in claims.items()}
    assert claimed.keys() == recorded.keys()


async def test_claims_behind_expired_jobs_are_written_in_their_order(play: Play) -> None:
    ids = play.ids(5)
    late = Policy(expires_at_ms=play.now_ms)
    await play.enqueue_all(*[play.job(id, policy=late if id in ids[1:3] else Policy()) for id in ids])
    play.advance(1)
    claims = await play.claim(10)

    events = await read(play, play.queue.shard_of(ids[0]), 5, 2**62)

    recorded = [(event.line.event, event.line.id) for event in events]
    names = ["claimed", "dead", "dead", "claimed", "claimed"]
    assert recorded == list(zip(names, ids, strict=True))
    assert [event.line.fence for event in events if event.line.fence] == [claim.lease.fence for claim in claims]


async def test_wait_ms_counts_from_the_time_it_was_due_again(play: Play) -> None:
    await play.settle(await play.start("a"), Retried(BOOM, 1_000))
    play.advance(1_400)
    await play.settle(await play.claim_one())

    assert (await last(play, "a", "done"))["wait_ms"] == 400


async def test_wait_ms_of_a_past_time_counts_from_the_enqueue(play: Play) -> None:
    await play.enqueue("a", run_at_ms=play.now_ms - 60_000)
    play.advance(25)
    await play.settle(await play.claim_one())

    assert (await last(play, "a", "done"))["wait_ms"] == 25


async def test_a_long_error_is_cut_before_it_is_written(play: Play) -> None:
    await play.die("a", error=JobError.of("Boom", "x" * 100_000))

    written = await last(play, "a", "dead")
    assert len(str(written["error_message"])) == 1_024


# What is not written.


@pytest.mark.parametrize(("max_attempts", "max_stalls"), [(1, 3), (10, 1)], ids=["attempts", "stalls"])
async def test_a_death_writes_dead_only(play: Play, max_attempts: int, max_stalls: int) -> None:
    claim = await play.start("a", lease_ms=1_000, policy=Policy(max_attempts=max_attempts, max_stalls=max_stalls))
    if max_attempts == 1:
        await play.settle(claim, Retried(BOOM))
    play.advance(1_000)
    await play.repair()

    assert await play.history("a") == ["enqueued", "claimed", "dead"]


async def test_refused_calls_and_reads_write_nothing(play: Play) -> None:
    await play.enqueue("a", idempotency_key="k")
    claim = await play.claim_one(lease_ms=5_000)
    await play.configure(waiting_max=0)
    before = [await bounds(play, shard) for shard in play.queue.all_shards()]

    await play.extend(claim.lease)
    await play.enqueue("a", idempotency_key="k")
    await play.enqueue("a", idempotency_key="k", kind="other")
    await play.enqueue("full")
    await play.claim(10)
    await play.cancel("a")
    await play.cancel("nobody")
    await play.remove("nobody")
    await play.replay("nobody")
    await play.repair()
    await play.found("a")
    play.advance(30_000)
    assert not (await play.settle(claim)).ok
    assert not (await play.extend(claim.lease)).ok

    assert [await bounds(play, shard) for shard in play.queue.all_shards()] == before


# Numbers, entries and times.


async def test_seq_is_gap_free_from_one_in_every_shard(play: Play) -> None:
    await busy(play)

    for shard in play.queue.all_shards():
        numbers = await seqs(play, shard)
        end = await bounds(play, shard)
        assert numbers == list(range(1, len(numbers) + 1))
        assert (end.first_seq, end.last_seq) == (1, len(numbers))


async def busy(play: Play) -> None:
    """Something of everything, on all shards."""
    for number in range(8):
        await play.enqueue(f"job-{number}", policy=Policy(max_attempts=2))
    for _ in range(3):
        play.advance(700)
        claims = await play.claim(6, lease_ms=1_000)
        outcomes: list[Outcome] = [Done(), Retried(BOOM, 0), Failed(BOOM), Released(), Cancelled()]
        settlements = [claim.settle(outcome) for claim, outcome in zip(claims, outcomes, strict=False)]
        await play.enqueue_all(*[play.job(claim.lease.id) for claim in claims])
        await play.store.jobs.settle(settlements, now_ms=play.now_ms)
    play.advance(5_000)
    await play.repair()


async def test_a_call_writes_one_entry_for_each_shard_that_it_changes(play: Play) -> None:
    ids = play.ids(5)
    shard = play.queue.shard_of(ids[0])

    await play.enqueue_all(*[play.job(id) for id in ids])
    claims = await play.claim(5)
    await play.store.jobs.settle([claim.settle(Done()) for claim in claims], now_ms=play.now_ms)

    entries = await play.store.journal.read(shard, 0, 99)
    assert [(entry.first_seq, entry.last_seq, entry.count) for entry in entries] == [(1, 5, 5), (6, 10, 5), (11, 15, 5)]
    assert [entry.worker for entry in entries] == [None, "worker-1", "worker-1"]
    assert [event.line.id for entry in entries for event in entry.events(shard)] == ids * 3


async def test_an_entry_of_several_workers_names_each_of_them(play: Play) -> None:
    first, second = play.ids(2)
    one = await play.start(first, worker="worker-1")
    two = await play.start(second, worker="worker-2")

    await play.store.jobs.settle([one.settle(Done()), two.settle(Done())], now_ms=play.now_ms)

    done = [event.line for event in await play.events() if event.line.event == "done"]
    assert [(line.id, line.worker) for line in done] == [(first, "worker-1"), (second, "worker-2")]


async def test_a_turn_writes_its_settlements_and_its_claims(play: Play) -> None:
    first, second = play.ids(2)
    claim = await play.start(first)
    await play.enqueue(second)

    await play.store.jobs.turn([claim.settle(Done())], finder_claim(play), now_ms=play.now_ms)

    events = [(event.line.event, event.line.id) for event in await play.events()]
    assert events[-2:] == [("done", first), ("claimed", second)]


async def test_at_ms_never_decreases_in_a_shard_even_when_the_clock_goes_back(play: Play) -> None:
    ids = play.ids(5)
    await play.enqueue(ids[0])
    play.advance(-5_000)
    await play.enqueue(ids[1])
    await play.enqueue_all(play.job(ids[2]), play.job(ids[3]))
    play.advance(5_001)
    await play.enqueue(ids[4])

    times = [event.at_ms - START_MS for event in await play.events()]

    assert times == [0, 0, 0, 0, 1]


# Reading.


async def test_a_read_is_cut_exactly_at_both_ends(play: Play) -> None:
    ids = play.ids(6)
    shard = play.queue.shard_of(ids[0])
    await play.enqueue(ids[0])
    await play.enqueue_all(*[play.job(id) for id in ids[1:5]])
    await play.enqueue(ids[5])
    whole = await read(play, shard, 0, 6)

    cuts = {(after, upto): await read(play, shard, after, upto) for after in range(8) for upto in range(9)}

    assert [event.line.id for event in whole] == ids
    for (after, upto), found in cuts.items():
        assert found == whole[after : max(upto, after)], (after, upto)


async def test_a_read_again_gives_the_same_events(play: Play) -> None:
    await busy(play)
    shard = play.queue.shard_of("job-0")
    end = (await bounds(play, shard)).last_seq
    first = await read(play, shard, 1, end)

    await busy(play)
    again = await read(play, shard, 1, end)

    assert first == again


async def test_a_read_page_by_page_gives_the_whole_journal(play: Play) -> None:
    shard, ids = await fill(play, 7)

    pages: list[list[Entry]] = []
    after = 0
    while page := list(await play.store.journal.read(shard, after, 2**62, limit=3)):
        pages.append(page)
        after = page[-1].last_seq

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [event.line.id for page in pages for entry in page for event in entry.events(shard)] == ids


async def test_the_journal_of_an_unknown_queue_is_empty(play: Play) -> None:
    shard = play.queue.all_shards()[-1]

    assert await play.store.journal.read(shard, 0, 99) == []
    empty = await bounds(play, shard)
    assert (empty.first_seq, empty.last_seq, empty.bytes, empty.first_at_ms) == (1, 0, 0, None)
    assert await play.store.journal.consumers(shard) == []
    assert await play.store.journal.trim(shard, now_ms=play.now_ms) == 0
    assert (await play.store.queues.names("acme")).rows == []


async def test_bounds_are_those_of_the_readable_events(play: Play) -> None:
    shard, _ = await fill(play, 1)
    one = await bounds(play, shard)
    play.advance(70)
    await play.enqueue(play.ids(1)[0])

    two = await bounds(play, shard)
    await play.enqueue_all(*[play.job(id) for id in play.ids(3)[1:]])
    four = await bounds(play, shard)

    assert (two.first_seq, two.last_seq, four.last_seq) == (1, 2, 4)
    assert (two.first_at_ms, two.last_at_ms) == (START_MS, START_MS + 70)
    assert 0 < one.bytes < two.bytes < four.bytes
    assert two.epoch == one.epoch > 0


async def test_tenants_have_journals_of_their_own(play: Play) -> None:
    """C1: every structure is per tenant."""
    other = Play(play.store, play.queue.shards, tenant="other")
    await play.enqueue("a")
    await other.enqueue("b")

    assert [event.line.id for event in await play.events()] == ["a"]
    assert [event.line.id for event in await other.events()] == ["b"]


# Retention.


async def test_entries_are_kept_until_their_age_is_reached_and_not_longer(play: Play) -> None:
    shard, _ = await fill(play, 1)
    play.advance(10)
    await fill(play, 1)
    await play.configure(journal_keep_ms=1_000)

    play.advance(989)
    early = await play.store.journal.trim(shard, now_ms=play.now_ms)
    play.advance(1)
    first = await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert (early, first) == (0, 1)
    end = await bounds(play, shard)
    assert (end.first_seq, end.last_seq, end.first_at_ms) == (2, 3, START_MS + 10)
    assert await seqs(play, shard) == [2, 3]


async def test_a_journal_that_was_trimmed_to_nothing_goes_on_counting(play: Play) -> None:
    shard, ids = await fill(play, 3)
    await play.configure(journal_keep_ms=1_000)
    play.advance(1_000)
    await play.store.journal.trim(shard, now_ms=play.now_ms)

    empty = await bounds(play, shard)
    play.advance(1)
    await play.enqueue(ids[0])
    after = await bounds(play, shard)

    assert (empty.first_seq, empty.last_seq, empty.bytes) == (5, 4, 0)
    assert (empty.first_at_ms, empty.last_at_ms) == (None, None)
    assert (after.first_seq, after.last_seq, after.first_at_ms) == (5, 5, play.now_ms)
    assert await seqs(play, shard) == [5]


async def test_entries_beyond_the_count_go_oldest_first_as_others_come(play: Play) -> None:
    await play.configure(journal_keep_max=3)

    shard, _ = await fill(play, 6)

    assert await seqs(play, shard) == [5, 6, 7]


async def test_an_entry_is_dropped_only_when_the_others_reach_the_count(play: Play) -> None:
    await play.configure(journal_keep_max=3)
    ids = play.ids(5)
    shard = play.queue.shard_of(ids[0])

    await play.enqueue_all(*[play.job(id) for id in ids])
    kept = await seqs(play, shard)
    for id in ids[:3]:
        await play.enqueue(id)

    assert kept == [2, 3, 4, 5, 6]
    assert await seqs(play, shard) == [7, 8, 9]


async def test_entries_beyond_the_bytes_go_oldest_first_as_others_come(play: Play) -> None:
    shard, ids = await fill(play, 10)
    size = (await bounds(play, shard)).bytes

    await play.configure(journal_bytes_max=size // 2)
    for id in ids:
        await play.enqueue(id)

    numbers = await seqs(play, shard)
    end = await bounds(play, shard)
    assert 0 < end.bytes <= size // 2
    assert numbers == list(range(end.first_seq, end.last_seq + 1))
    assert 1 < end.first_seq <= end.last_seq == 21


async def test_a_journal_of_no_bytes_keeps_nothing_and_still_counts(play: Play) -> None:
    await play.configure(journal_bytes_max=0)

    shard, _ = await fill(play, 3)

    end = await bounds(play, shard)
    assert (end.first_seq, end.last_seq, end.bytes) == (5, 4, 0)
    assert await seqs(play, shard) == []


async def test_trim_is_bounded_and_counts_the_dropped_entries(play: Play) -> None:
    shard, _ = await fill(play, 9)
    await play.configure(journal_keep_ms=1_000)
    play.advance(1_000)

    dropped = [await play.store.journal.trim(shard, limit=4, now_ms=play.now_ms) for _ in range(4)]

    assert dropped == [4, 4, 2, 0]


async def test_the_background_sweep_trims_too(play: Play) -> None:
    shard, _ = await fill(play, 9)
    await play.configure(journal_keep_ms=1_000)
    play.advance(1_000)

    swept = await play.repair()

    assert swept.swept >= 10
    assert await seqs(play, shard) == []


async def test_a_late_reader_sees_its_loss_in_the_bounds(play: Play) -> None:
    await play.configure(journal_keep_max=2)
    shard, _ = await fill(play, 6)

    found = await read(play, shard, 1, 99)

    assert [event.seq for event in found] == [6, 7]
    assert (await bounds(play, shard)).first_seq > 1 + 1


# Consumers.


async def test_a_consumer_keeps_its_offset(play: Play) -> None:
    shard, _ = await fill(play, 4)

    new = await play.store.journal.register(shard, "history", seq=2, hold=True, now_ms=play.now_ms)
    play.advance(5)
    moved = await play.store.journal.advance(shard, "history", 4, now_ms=play.now_ms)

    assert (new.name, new.seq, new.hold, new.seen_at_ms) == ("history", 2, True, START_MS)
    assert (moved.name, moved.seq, moved.hold, moved.seen_at_ms) == ("history", 4, True, START_MS + 5)
    assert await play.store.journal.consumers(shard) == [moved]


async def test_a_consumer_never_goes_back(play: Play) -> None:
    shard, _ = await fill(play, 4)
    await play.store.journal.register(shard, "history", seq=3, now_ms=play.now_ms)

    moved = await play.store.journal.advance(shard, "history", 1, now_ms=play.now_ms)

    assert moved.seq == 3


async def test_a_consumer_that_registers_again_keeps_its_offset_and_takes_the_new_hold(play: Play) -> None:
    shard, _ = await fill(play, 4)
    await play.store.journal.register(shard, "history", seq=3, now_ms=play.now_ms)

    again = await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)

    assert (again.seq, again.hold) == (3, True)
    assert await play.store.journal.consumers(shard) == [again]


async def test_consumers_are_listed_by_name_and_belong_to_their_shard(play: Play) -> None:
    shard, _ = await fill(play, 1)
    other = next((each for each in play.queue.all_shards() if each != shard), None)

    for name in ("stats", "audit", "history"):
        await play.store.journal.register(shard, name, now_ms=play.now_ms)

    assert [each.name for each in await play.store.journal.consumers(shard)] == ["audit", "history", "stats"]
    assert other is None or await play.store.journal.consumers(other) == []


async def test_a_forgotten_consumer_is_unknown(play: Play) -> None:
    shard, _ = await fill(play, 1)
    await play.store.journal.register(shard, "history", now_ms=play.now_ms)

    answers = [await play.store.journal.forget(shard, "history") for _ in range(2)]

    assert answers == [True, False]
    assert await play.store.journal.consumers(shard) == []
    with pytest.raises(Refused, match="register before advancing"):
        await play.store.journal.advance(shard, "history", 1, now_ms=play.now_ms)


async def test_an_offset_beyond_the_end_is_refused(play: Play) -> None:
    shard, _ = await fill(play, 2)
    await play.store.journal.register(shard, "history", seq=2, now_ms=play.now_ms)

    with pytest.raises(Refused) as registered:
        await play.store.journal.register(shard, "other", seq=3, now_ms=play.now_ms)
    with pytest.raises(Refused) as advanced:
        await play.store.journal.advance(shard, "history", 3, now_ms=play.now_ms)

    assert (registered.value.reason, advanced.value.reason) == ("beyond_journal", "beyond_journal")
    assert [(each.name, each.seq) for each in await play.store.journal.consumers(shard)] == [("history", 2)]


async def test_register_refuses_an_unknown_queue(play: Play) -> None:
    shard = play.queue.all_shards()[0]

    with pytest.raises(Refused) as refused:
        await play.store.journal.register(shard, "history", now_ms=play.now_ms)

    assert refused.value.reason == "unknown_queue"
    assert not await play.store.journal.forget(shard, "history")
    assert (await play.store.queues.names("acme")).rows == []


async def test_age_and_count_wait_for_a_holding_consumer(play: Play) -> None:
    shard, ids = await fill(play, 3)
    await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)
    await play.configure(journal_keep_ms=1_000, journal_keep_max=1)
    play.advance(1_000)

    await play.enqueue(ids[0])
    held = await seqs(play, shard)
    await play.store.journal.advance(shard, "history", 2, now_ms=play.now_ms)
    dropped = await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert held == [1, 2, 3, 4, 5]
    assert dropped == 2
    assert await seqs(play, shard) == [3, 4, 5]


async def test_retention_waits_for_the_slowest_of_those_that_hold(play: Play) -> None:
    shard, _ = await fill(play, 5)
    await play.store.journal.register(shard, "fast", seq=4, hold=True, now_ms=play.now_ms)
    await play.store.journal.register(shard, "slow", seq=2, hold=True, now_ms=play.now_ms)
    await play.store.journal.register(shard, "careless", seq=0, hold=False, now_ms=play.now_ms)

    await play.configure(journal_keep_max=0)
    await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert await seqs(play, shard) == [3, 4, 5, 6]


async def test_a_forgotten_consumer_holds_nothing(play: Play) -> None:
    shard, _ = await fill(play, 3)
    await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)
    await play.configure(journal_keep_max=1)

    await play.store.journal.forget(shard, "history")
    await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert await seqs(play, shard) == [4]


async def test_the_byte_limit_wins_over_a_holding_consumer(play: Play) -> None:
    shard, ids = await fill(play, 3)
    await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)

    await play.configure(journal_bytes_max=0)
    await play.enqueue(ids[0])

    assert await seqs(play, shard) == []
    assert [each.seq for each in await play.store.journal.consumers(shard)] == [0]


async def test_a_consumer_that_is_silent_for_a_week_holds_nothing(play: Play) -> None:
    shard, _ = await fill(play, 3)
    await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)
    await play.configure(journal_keep_max=0)

    play.advance(7 * DAY_MS - 1)
    early = await play.store.journal.trim(shard, now_ms=play.now_ms)
    play.advance(1)
    late = await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert (early, late) == (0, 4)


async def test_a_consumer_that_advances_is_heard_of_even_without_moving(play: Play) -> None:
    shard, _ = await fill(play, 3)
    await play.store.journal.register(shard, "history", seq=0, hold=True, now_ms=play.now_ms)
    await play.configure(journal_keep_max=0)
    play.advance(7 * DAY_MS - 1)

    await play.store.journal.advance(shard, "history", 0, now_ms=play.now_ms)
    play.advance(7 * DAY_MS - 1)
    dropped = await play.store.journal.trim(shard, now_ms=play.now_ms)

    assert dropped == 0


async def test_the_journal_has_all_events_of_a_job_in_order(play: Play) -> None:
    claim = await play.start("a", policy=Policy(max_attempts=2))
    await play.enqueue("a")
    await play.settle(claim, Retried(BOOM, 0))
    await play.settle(await play.claim_one(), Failed(BOOM))
    await play.replay("a")
    await play.settle(await play.claim_one(), Released())
    await play.claim_one(lease_ms=1_000)
    play.advance(1_000)
    await play.settle(await play.claim_one())

    assert await play.history("a") == [
        *("enqueued", "claimed", "blocked", "retried", "merged", "claimed", "dead"),
        *("replayed", "claimed", "released", "claimed", "stalled", "claimed", "done"),
    ]
