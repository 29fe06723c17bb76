"""What was damaged in a Redis by hand is found by `check` and put right by `repair`, and its jobs run once."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.model.integrity import CountMismatch, Findings, Flaw, Problem, Quarantined, RepairResult
from headrace.model.limits import LEASE_MS_DEFAULT
from headrace.model.names import Shard
from headrace.model.outcome import Cancelled, Done
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.redis.keys import prefix_of
from headrace.stores.redis.packing import counters_of, pack_counters
from tests.support.play import Play
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server


@pytest.fixture
def server() -> RedisServer:
    """An empty server that tests may damage."""
    flush([redis_server()])
    return redis_server()


@pytest.fixture
def store(server: RedisServer, runner: asyncio.Runner) -> Iterator[Store]:
    """A store on it, as the user with the least rights."""
    store = runner.run(open_store(server.url_of(USER, PASSWORD)))
    yield store
    runner.run(store.close())


@pytest.fixture
def play(store: Store) -> Play:
    return Play(store)


def key_of(play: Play, suffix: str) -> str:
    return prefix_of(Shard(play.queue, 0)) + suffix


async def check(play: Play) -> Findings:
    return await play.store.integrity.check(Shard(play.queue, 0), now_ms=play.now_ms)


async def repair(play: Play) -> RepairResult:
    return await play.store.integrity.repair(Shard(play.queue, 0), now_ms=play.now_ms)


async def run_all(play: Play) -> list[str]:
    """The ids that are handed out and done until nothing is left, leases that run out included."""
    ran: list[str] = []
    for _ in range(5):
        claims = await play.claim(100)
        ran += [claim.record.id for claim in claims]
        for claim in claims:
            await play.settle(claim)
        play.advance(LEASE_MS_DEFAULT)
    return ran


async def removals(play: Play) -> list[tuple[str | None, str | None, str | None]]:
    """The journal's events of removed jobs: id, kind and reason."""
    lines = [event.line for event in await play.events() if event.line.event == "removed"]
    return [(line.id, line.kind, line.reason) for line in lines]


def damage(server: RedisServer, play: Play, *commands: tuple[Any, ...]) -> None:
    """Run commands whose second word is the last part of a key."""
    for name, suffix, *rest in commands:
        server.ask(name, key_of(play, suffix), *rest)


WAITING: list[tuple[list[tuple[Any, ...]], Flaw]] = [
    ([("ZREM", "r", "job")], "unindexed"),
    ([("ZADD", "l", 5, "job")], "doubled"),
    ([("ZADD", "x", 5, "job")], "doubled"),
    ([("HSET", "a", "job", b"1")], "doubled"),
]


@pytest.mark.parametrize(("commands", "flaw"), WAITING)
async def test_a_job_that_waits_nowhere_or_twice_waits_again_and_runs_once(
    server: RedisServer, play: Play, commands: list[tuple[Any, ...]], flaw: Flaw
) -> None:
    """K29: one look is enough, since it sees all places of a job at one instant."""
    await play.enqueue("job")
    damage(server, play, *commands)

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (found.problems, repaired.problems, again.ok) == ((Problem(flaw, "job"),), (Problem(flaw, "job"),), True)
    assert await run_all(play) == ["job"]
    assert await play.history("job") == ["enqueued", "claimed", "done"]


async def test_an_active_job_that_also_stands_in_line_is_not_handed_out_again(server: RedisServer, play: Play) -> None:
    claim = await play.start("job")
    damage(server, play, ("ZADD", "r", 5, "job"), ("ZADD", "l", 5, "job"))

    repaired, again = await repair(play), await check(play)

    assert (repaired.problems, again.ok) == ((Problem("doubled", "job"),), True)
    assert await play.claim_ids() == []
    assert (await play.settle(claim)).ok


async def test_a_job_that_was_to_wait_until_later_does_so_again(server: RedisServer, play: Play) -> None:
    await play.enqueue("job", delay_ms=60_000)
    damage(server, play, ("ZREM", "l", "job"))

    await repair(play)

    counts = await play.counts()
    assert (counts.waiting, counts.later) == (1, 1)
    assert await play.claim_ids() == []


async def test_a_lease_without_an_end_gets_one_so_that_its_worker_can_still_settle(
    server: RedisServer, play: Play
) -> None:
    claim = await play.start("job")
    damage(server, play, ("ZREM", "x", "job"))

    repaired = await repair(play)

    assert repaired.problems == (Problem("unleased", "job"),)
    assert (await play.found("job")).lease_expires_at_ms == play.now_ms + LEASE_MS_DEFAULT
    assert (await play.settle(claim)).ok
    assert await run_all(play) == []


async def test_a_lease_without_an_end_runs_out_after_its_repair(server: RedisServer, play: Play) -> None:
    await play.start("job")
    damage(server, play, ("ZREM", "x", "job"))

    await repair(play)
    play.advance(LEASE_MS_DEFAULT)

    assert await run_all(play) == ["job"]
    assert await play.history("job") == ["enqueued", "claimed", "stalled", "claimed", "done"]


@pytest.mark.parametrize("is_noticed", [False, True], ids=["before repair", "after repair"])
async def test_a_job_whose_delivery_is_lost_waits_again_uncharged_and_the_journal_says_so(
    server: RedisServer, play: Play, is_noticed: bool
) -> None:
    await play.start("job", lease_ms=1_000)
    await play.enqueue("job", payload=b"2")
    damage(server, play, ("HDEL", "a", "job"))
    if is_noticed:
        play.advance(1_000)
        await play.repair()

    found, repaired = await check(play), await repair(play)

    assert [each.flaw for each in repaired.problems] == ["unindexed" if is_noticed else "undelivered"]
    assert found.quarantine == ((Quarantined("delivery", "job"),) if is_noticed else ())
    assert (await check(play)).ok
    record = await play.record("job")
    assert (record.payload, record.attempts, record.stalls) == (b"2", 0, 0)
    assert await play.history("job") == ["enqueued", "claimed", "blocked", "stalled", "merged"]
    assert await run_all(play) == ["job"]


@pytest.mark.parametrize("place", ["ready", "later", "active"])
async def test_a_place_without_its_job_is_dropped_and_the_journal_says_so(
    server: RedisServer, play: Play, place: str
) -> None:
    if place == "active":
        await play.start("lost")
    else:
        await play.enqueue("lost", delay_ms=60_000 if place == "later" else 0)
    await play.enqueue("kept")
    damage(server, play, ("HDEL", "b", "lost"))

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (found.problems, repaired.problems, again.ok) == (
        (Problem("bodiless", "lost"),),
        (Problem("bodiless", "lost"),),
        True,
    )
    counts = await play.counts()
    assert (counts.waiting, counts.active) == (1, 0)
    assert (await play.history("lost"))[-1] == "removed"
    assert await removals(play) == [("lost", None, "lost")]
    assert await run_all(play) == ["kept"]


async def test_the_blocked_job_of_a_job_that_is_gone_takes_its_place(server: RedisServer, play: Play) -> None:
    await play.start("job")
    await play.enqueue("job", payload=b"2")
    damage(server, play, ("HDEL", "b", "job"))

    await repair(play)

    assert (await play.record("job")).payload == b"2"
    assert await play.history("job") == ["enqueued", "claimed", "blocked", "removed", "enqueued"]
    assert await removals(play) == [("job", None, "lost")]
    assert await run_all(play) == ["job"]


@pytest.mark.parametrize("has_body", [True, False], ids=["merged", "freed"])
async def test_a_blocked_job_behind_nothing_comes_forward(server: RedisServer, play: Play, has_body: bool) -> None:
    await play.start("job")
    await play.enqueue("job", payload=b"2")
    damage(server, play, ("HDEL", "a", "job"), ("ZREM", "x", "job"))
    damage(server, play, ("ZADD", "r", 5, "job") if has_body else ("HDEL", "b", "job"))

    found, repaired = await check(play), await repair(play)

    assert (found.problems, repaired.problems) == ((Problem("stranded", "job"),), (Problem("stranded", "job"),))
    assert (await play.history("job"))[-1] == ("merged" if has_body else "unblocked")
    assert await run_all(play) == ["job"]


async def test_records_that_calls_skipped_are_reported_and_cleared_and_journalled(
    server: RedisServer, play: Play
) -> None:
    await play.enqueue_all(*[play.job(id) for id in ("lost", "again", "kept")])
    damage(server, play, ("HDEL", "b", "lost", "again"))
    [kept] = await play.claim(10)
    await play.enqueue("again")

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (found.quarantined, found.ok) == (2, False)
    assert {*found.quarantine} == {Quarantined("body", "lost"), Quarantined("body", "again")}
    assert (repaired.cleared, again.quarantined, again.ok) == (2, 0, True)
    assert await play.history("lost") == ["enqueued", "removed"]
    assert await removals(play) == [("lost", None, "lost")]
    assert await play.history("again") == ["enqueued", "enqueued"]
    assert (await play.settle(kept)).ok
    assert await run_all(play) == ["again"]


async def test_a_dead_letter_that_no_list_shows_is_listed_again(server: RedisServer, play: Play) -> None:
    key = await play.die("job")
    damage(server, play, ("DEL", "dn"), ("DEL", "di"))
    unlisted = await play.dead_letters()

    repaired = await repair(play)

    assert (unlisted, repaired.problems) == ([], (Problem("unlisted", str(key.number)),))
    assert [dead_letter.key for dead_letter in await play.dead_letters()] == [key]
    assert (await check(play)).ok
    assert (await play.replay("job")).status == "replayed"
    assert await run_all(play) == ["job"]


async def test_a_place_among_the_dead_letters_without_its_dead_letter_is_dropped(
    server: RedisServer, play: Play
) -> None:
    key = await play.die("job")
    damage(server, play, ("HDEL", "d", key.number))

    repaired = await repair(play)

    assert repaired.problems == (Problem("bodiless", str(key.number)),)
    assert (await check(play)).ok
    last = (await play.events())[-1].line
    assert (last.event, last.id, last.dead_letter) == ("purged", "job", key.number)


async def test_counts_of_finished_jobs_are_set_right(server: RedisServer, play: Play) -> None:
    await play.settle(await play.start("a"), Done())
    await play.settle(await play.start("b"), Cancelled())
    counters = counters_of(server.ask("HGET", key_of(play, "m"), "head"))
    damage(server, play, ("HSET", "m", "head", pack_counters({**counters, "done": 7, "cancelled": 0})))

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (
        found.count_mismatches
        == repaired.count_mismatches
        == (CountMismatch("cancelled", 0, 1), CountMismatch("done", 7, 1))
    )
    assert again.ok
    counts = await play.counts()
    assert (counts.done, counts.cancelled) == (1, 1)


async def test_a_large_shard_is_repaired_in_bounded_steps_and_every_job_runs_once(
    server: RedisServer, play: Play
) -> None:
    """K29: each step is atomic, and workers may go on between two of them."""
    ids = [f"job-{number:04}" for number in range(1_500)]
    for half in (ids[:750], ids[750:]):
        await play.enqueue_all(*[play.job(id) for id in half])
    damage(server, play, ("ZREM", "r", *ids[::3]), ("HDEL", "b", *ids[1::3]))
    shard, cursor, steps, ran = Shard(play.queue, 0), None, 0, []

    while steps == 0 or cursor is not None:
        repaired = await play.store.integrity.repair(shard, cursor=cursor, limit=100, now_ms=play.now_ms)
        assert len(repaired.problems) <= 1_000
        ran += await play.claim_ids(20)
        cursor, steps = repaired.cursor, steps + 1

    assert steps > 5
    assert (await check(play)).problems == ()
    while more := await play.claim_ids(100):
        ran += more
    assert sorted(ran) == sorted({*ids} - {*ids[1::3]})
