"""Leftovers: what is over goes, in bounded steps, until nothing is left."""

import asyncio
from pathlib import Path

import pytest

from headrace.model.job import State
from headrace.model.outcome import Cancelled, Done, Failed, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.model.results import Counts, Repaired
from tests.support.play import BOOM, Play
from tests.support.stores import LEFTOVERS

DAY_MS = 24 * 3_600_000
SWEEPS_MAX = 20
"""More sweeps than anything here needs: a sweep that never ends fails the test."""


async def live(play: Play) -> None:
    """One of each kind of record, so that every structure of a store is used."""
    await play.configure(fail_handler=True, max_attempts=3, max_stalls=2)
    outcomes: list[Outcome] = [Done(b"1"), Retried(BOOM, 5), Failed(BOOM), Released(5), Cancelled()]
    for number in range(20):
        await play.enqueue(
            f"job-{number}",
            idempotency_key="k",
            delay_ms=number % 3,
            headers={"trace": "1"},
            policy=Policy(result_ttl_ms=number % 2 * 1_000, priority=number % 10),
        )
    await play.enqueue("too-late", policy=Policy(expires_at_ms=play.now_ms - 1))
    for shard in play.queue.all_shards():
        await play.store.journal.register(shard, "history", hold=True, now_ms=play.now_ms)
    for number in range(6):
        play.advance(10)
        claims = await play.claim(8, worker=f"worker-{number}", lease_ms=100)
        await play.enqueue_all(*[play.job(claim.lease.id) for claim in claims])
        settlements = [claim.settle(outcome) for claim, outcome in zip(claims, outcomes, strict=False)]
        await play.store.jobs.settle(settlements, now_ms=play.now_ms)
    await play.replay("job-2")
    await play.cancel("job-3", running=True)
    await play.store.signals.wait([play.queue, play.queue.fail_queue], 0)
    await play.store.signals.ended(play.queue, [f"job-{number}" for number in range(20)], 1)
    await play.store.signals.ended(play.queue.fail_queue, ["job-2#1"], 1)
    play.advance(100)
    await play.repair()


async def drain(play: Play) -> None:
    """Run everything that is left, on the queue and its fail queue, to its end."""
    for _ in range(50):
        claims = await play.claim(100, queues=[play.queue, play.queue.fail_queue])
        await play.store.jobs.settle([claim.settle(Done()) for claim in claims], now_ms=play.now_ms)
        play.advance(1_000)
    assert (await play.counts()).waiting == (await play.counts()).active == 0


async def sweep(play: Play) -> list[Repaired]:
    """Sweep the queue and its fail queue until nothing more is over."""
    answers: list[Repaired] = []
    for queue in (play.queue, play.queue.fail_queue):
        answers.append(await play.store.jobs.repair(queue, now_ms=play.now_ms))
        while answers[-1].more or answers[-1].swept:
            answers.append(await play.store.jobs.repair(queue, now_ms=play.now_ms))
            assert len(answers) < SWEEPS_MAX, "sweeping does not end"
    return answers


async def test_nothing_stays_of_jobs_that_are_over_once_their_time_is_over_too(
    play: Play, store_name: str, tmp_path: Path
) -> None:
    """KB10, TB13: finished jobs, dead letters, keys, workers and journal do not grow without bound."""
    await live(play)
    await drain(play)
    for shard in play.queue.all_shards():
        await play.store.journal.forget(shard, "history")
    before = await LEFTOVERS[store_name](play.store, tmp_path)

    for _ in range(2):  # sweeping dead letters writes to the journal, so the journal goes in a second round
        play.advance(40 * DAY_MS)
        await sweep(play)
    after = await LEFTOVERS[store_name](play.store, tmp_path)

    assert len(before) > 5
    assert set(after) <= {"queue", "queues", "shard"}
    assert await play.counts() == Counts()


async def test_nothing_stays_of_jobs_that_were_removed(play: Play) -> None:
    """K27, KB10: remove takes everything of an id from every structure."""
    await live(play)

    for number in range(20):
        await play.remove(f"job-{number}")
    await play.remove("too-late")

    assert await play.counts() == Counts()
    for shard in play.queue.all_shards():
        assert (await play.store.reads.snapshot(shard, now_ms=play.now_ms)).rows == []


async def test_nothing_stays_of_a_deleted_queue(play: Play, store_name: str, tmp_path: Path) -> None:
    """KB10: deleting leaves no key, row or consumer behind."""
    await live(play)
    await drain(play)

    for queue in (play.queue, play.queue.fail_queue):
        for _ in range(SWEEPS_MAX):
            if await play.store.queues.delete(queue, limit=100):
                break

    assert await LEFTOVERS[store_name](play.store, tmp_path) == {}


async def test_reads_and_waits_leave_nothing_behind(play: Play, store_name: str, tmp_path: Path) -> None:
    await play.claims(10)
    await play.repair()
    await play.cancel("a", running=True)
    await play.remove("a")
    await play.find("a")
    await play.replay("a")
    await play.dead_letters()
    await play.snapshot()
    await play.store.signals.wait([play.queue], 1)
    await play.store.signals.ended(play.queue, ["a"], 1)

    assert await LEFTOVERS[store_name](play.store, tmp_path) == {}


async def test_a_waiter_leaves_nothing_behind_however_it_ends(play: Play, store_name: str, tmp_path: Path) -> None:
    timed_out = await play.store.signals.wait([play.queue], 1)
    waiter = asyncio.create_task(play.store.signals.wait([play.queue], 60_000))
    await asyncio.sleep(0)
    await play.find("a")
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter

    assert not timed_out
    assert await LEFTOVERS[store_name](play.store, tmp_path) == {}


async def test_a_waiter_for_an_end_leaves_nothing_behind_however_the_wait_ends(
    play: Play, store_name: str, tmp_path: Path
) -> None:
    await play.enqueue("a")
    before = await LEFTOVERS[store_name](play.store, tmp_path)

    timed_out = await play.store.signals.ended(play.queue, ["a"], 1)
    waiter = asyncio.create_task(play.store.signals.ended(play.queue, ["a"], 60_000))
    await asyncio.sleep(0)
    await play.find("a")
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter

    assert not timed_out
    assert await LEFTOVERS[store_name](play.store, tmp_path) == before


async def test_a_sweep_drops_a_thousand_of_a_kind_in_a_shard_and_returns_more(play: Play) -> None:
    """TB13, QB8: no call moves a whole backlog."""
    ids = play.ids(2_400)
    for part in (ids[:800], ids[800:1_600], ids[1_600:]):
        await play.enqueue_all(*[play.job(id, idempotency_key="k", idempotency_ttl_ms=1_000) for id in part])
        claims = await play.claim(800)
        settlements = [claim.settle(Failed(BOOM) if number % 2 else Done()) for number, claim in enumerate(claims)]
        await play.store.jobs.settle(settlements, now_ms=play.now_ms)
    await play.configure(journal_keep_ms=40 * DAY_MS)

    play.advance(30 * DAY_MS)
    answers = [await play.repair() for _ in range(4)]

    # 1,200 finished jobs, 1,200 dead letters, 2,400 keys and a worker in each shard.
    assert [(answer.swept, answer.more) for answer in answers] == [
        (3_000 + play.queue.shards, True),
        (1_400, True),
        (400, False),
        (0, False),
    ]


async def test_a_repair_takes_back_at_most_its_limit_in_a_shard_and_returns_more(play: Play) -> None:
    """QB8, CB10: exact and bounded, and without any claim."""
    ids = play.ids(25)
    await play.enqueue_all(*[play.job(id) for id in ids])
    await play.claim(25, lease_ms=1_000)

    play.advance(1_000)
    answers = [await play.repair(limit=10) for _ in range(4)]

    assert [(answer.stalled, answer.more) for answer in answers] == [(10, True), (10, True), (5, False), (0, False)]
    assert (await play.counts()).waiting == 25


async def test_a_job_that_is_far_ahead_outlives_every_sweep_and_runs(play: Play) -> None:
    """CB9: retention is for what is over, never for what is still to run."""
    await play.enqueue("a", delay_ms=300 * DAY_MS)

    for _ in range(10):
        play.advance(30 * DAY_MS)
        await sweep(play)

    assert [claim.record.id for claim in await play.claim()] == ["a"]


async def test_a_job_that_waits_unclaimed_outlives_every_sweep(play: Play) -> None:
    """CB9, CB17: waiting long is no reason to be deleted, and no sweep works by guess."""
    await play.enqueue("a")
    await play.configure(paused=True)

    for _ in range(10):
        play.advance(30 * DAY_MS)
        await sweep(play)

    assert await play.state("a") is State.WAITING


async def test_finished_jobs_go_as_others_come_without_any_sweep(play: Play, store_name: str, tmp_path: Path) -> None:
    """TB13: a queue that is only worked on does not pile up what it finished."""
    await play.configure(keep_done_max=3, journal_keep_max=5)

    for id in play.ids(40):
        await play.settle(await play.start(id))

    leftovers = await LEFTOVERS[store_name](play.store, tmp_path)
    assert (await play.counts()).done == 3
    assert max(size for name, size in leftovers.items() if name not in ("queue", "shard")) <= 5 + play.queue.shards
