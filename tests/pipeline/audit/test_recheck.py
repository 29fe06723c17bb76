"""Promises of the recheck of an audit: it judges jobs that did not move, and no others."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done
from headrace.pipeline.audit.judge import MAYBE_FINISHED, ExpectedRecord, JobHistory, judge
from headrace.pipeline.audit.recheck import JournalTail, RecheckResult, check_misplaced, check_records, recheck_jobs
from headrace.pipeline.audit.run import doubt_lost_jobs
from headrace.stores.contract.store import Store
from tests.support.histories import Actor, Draw
from tests.support.play import Play
from tests.support.stores import REWRITES, STORES

SHARDS = 2


async def journal_tails(store: Store, queue: Queue, *ids: str) -> dict[Shard, JournalTail]:
    """The whole journals of a queue, for these ids."""
    return {
        shard: JournalTail(
            store, shard, await store.journal.bounds(shard), 0, {id: None for id in ids if queue.shard_of(id) == shard}
        )
        for shard in queue.all_shards()
    }


async def all_ids(store: Store, queue: Queue) -> set[str]:
    """The ids in the journals."""
    found: set[str] = set()
    for shard in queue.all_shards():
        upto = (await store.journal.bounds(shard)).last_seq
        for entry in await store.journal.read(shard, 0, upto):
            found |= {event.line.id for event in entry.events(shard) if event.line.id is not None}
    return found


async def recheck_all(store: Store, queue: Queue) -> RecheckResult:
    """Recheck all jobs in the journals."""
    return await recheck_jobs(store, queue, await journal_tails(store, queue, *await all_ids(store, queue)))


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_a_line_of_the_journal_that_cannot_be_read_is_a_finding(name: str, tmp_path: Path) -> None:
    async with STORES[name](tmp_path) as store:
        play = Play(store)
        await play.start("a")
        await play.settle(await play.start("b"), Done(), 77)
        await REWRITES[name](store, tmp_path, b'"run_ms":77', b'"run_ms":"x"')
        shard = Shard(play.queue, 0)

        [finding] = [each async for each in check_records(store, shard)]
        result = await recheck_all(store, play.queue)

    assert (finding.what, finding.shard, finding.seq) == ("damage", 0, 5)
    assert "cannot be read" in finding.journal
    assert result == RecheckResult([], 0)


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_random_histories_leave_the_records_that_their_journals_say(name: str, tmp_path: Path) -> None:
    async with STORES[name](tmp_path) as store:
        draw = Draw(Random(11), SHARDS, trims=False)
        actor = Actor(store, draw)
        for _ in range(300):
            await actor.play(draw.op(len(actor.claims)))
        result = [await recheck_all(store, queue) for queue in draw.queues]

    assert result == [RecheckResult([], 0)] * len(draw.queues)


async def test_a_job_that_moves_during_a_recheck_is_never_a_finding(tmp_path: Path) -> None:
    result: list[RecheckResult] = []

    async with STORES["sqlite"](tmp_path) as store:
        draw = Draw(Random(12), SHARDS, trims=False)
        actor = Actor(store, draw)
        for _ in range(50):
            await actor.play(draw.op(len(actor.claims)))

        async def play_on() -> None:
            for _ in range(200):
                await actor.play(draw.op(len(actor.claims)))

        playing = asyncio.create_task(play_on())
        while not playing.done():
            result.append(await recheck_all(store, draw.main))
        await playing

    assert [each.findings for each in result] == [[]] * len(result)
    assert len(result) > 5


async def test_a_journal_without_its_first_events_is_judged_by_the_others_only() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        for id in ("waiting", "done", "dead"):
            await play.enqueue(id)
        await play.settle(await play.claim_one(), Done())
        await play.configure(journal_keep_max=1)
        await store.journal.trim(Shard(play.queue, 0), now_ms=play.now_ms)
        bounds = await store.journal.bounds(Shard(play.queue, 0))
        histories: dict[str, JobHistory | None] = {
            "waiting": None,
            "done": None,
            "gone": JobHistory(seq=1, state="waiting"),
        }
        tail = JournalTail(store, Shard(play.queue, 0), bounds, bounds.last_seq, histories)

        result = await recheck_jobs(store, play.queue, {Shard(play.queue, 0): tail})

    assert bounds.first_seq > 1
    assert [(each.what, each.id) for each in result.findings] == [("lost", "gone")]


async def test_a_job_whose_end_the_journal_lacks_is_unrecorded_and_must_not_be_enqueued_again() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.settle(await play.start("done"), Done(b"1"))
        await play.settle(await play.start("cancelled"), Cancelled())
        await play.die("dead")
        shard = Shard(play.queue, 0)
        bounds = await store.journal.bounds(shard)
        record = ExpectedRecord("send", payload_bytes=7)
        histories: dict[str, JobHistory | None] = {
            id: JobHistory(
                seq=seq, event="claimed", state="active", record=record, finished_job="none", has_blocked_job=False
            )
            for seq, id in enumerate(("done", "cancelled", "dead", "gone"), 1)
        }

        result = await recheck_jobs(
            store, play.queue, {shard: JournalTail(store, shard, bounds, bounds.last_seq, histories)}
        )

    found = {each.id: each for each in result.findings}
    assert {id: each.what for id, each in found.items()} == {
        "done": "unrecorded",
        "cancelled": "unrecorded",
        "dead": "unrecorded",
        "gone": "lost",
    }
    assert len(result.findings) == len(found)
    assert "do not enqueue it again" in found["done"].hint
    assert [each.hint for each in doubt_lost_jobs(result.findings) if each.id == "gone"] == [MAYBE_FINISHED]


async def test_a_queue_that_was_created_again_is_not_judged_by_its_old_journal() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("old")
        tails = await journal_tails(store, play.queue, "old")
        await tails[Shard(play.queue, 0)].read_on()
        await store.queues.purge(play.queue, now_ms=play.now_ms)
        assert await store.queues.delete(play.queue)
        play.advance(1)
        await play.enqueue_all(*[play.job(f"new-{number}") for number in range(5)])

        result = await recheck_jobs(store, play.queue, tails)

    assert result == RecheckResult([], 1)


async def test_a_journal_that_was_trimmed_before_it_was_read_is_not_judged() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("old")
        tails = await journal_tails(store, play.queue, "old")
        await tails[Shard(play.queue, 0)].read_on()
        await play.cancel("old")
        await play.configure(journal_keep_max=1)
        await store.journal.trim(Shard(play.queue, 0), now_ms=play.now_ms)

        result = await recheck_jobs(store, play.queue, tails)

    assert result == RecheckResult([], 1)


async def test_an_expired_dead_letter_is_not_missing_before_it_is_swept() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.configure(keep_dead_ms=1, keep_done_ms=1)
        await play.die("dead")
        await play.settle(await play.start("done"))
        play.advance(1_000)

        result = await recheck_all(store, play.queue)

    assert result == RecheckResult([], 0)


async def test_a_job_is_rechecked_in_its_own_shard() -> None:
    queue = Queue("mail", "acme", 3)
    async with STORES["memory"](Path()) as store:
        await store.jobs.enqueue([Job(queue=queue, id=f"job-{number}", kind="k") for number in range(20)])

        result = await recheck_all(store, queue)

    assert result == RecheckResult([], 0)


@pytest.mark.parametrize("id", ["", "i" * 2_000, "two\nlines"])
async def test_an_invalid_id_is_damage_and_does_not_stop_the_recheck(id: str) -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("good")
        [shard] = play.queue.all_shards()
        tail = JournalTail(store, shard, await store.journal.bounds(shard), 0, {id: None, "good": None, "gone": None})

        result = await recheck_jobs(store, play.queue, {shard: tail})
        misplaced = await check_misplaced(store, play.queue, [(shard, id)])

    assert result.moving == 0
    assert [each.what for each in (*result.findings, *misplaced)] == ["damage", "damage"]
    assert "an invalid id" in result.findings[0].store
    assert result.findings[0].hint.startswith("no call finds it; delete it by hand")


async def test_a_dead_letter_with_another_reason_than_its_death_is_a_finding() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        key = await play.die("dead")
        [found] = await store.reads.find(play.queue, ["dead"], now_ms=0)
        assert found is not None
        record = found.dead_letters[0].record
        death = ExpectedRecord(record.kind, record.attempts, record.stalls, reason="expired", seq=3)
        history = JobHistory(seq=3, event="dead", state="over", finished_job="none", dead_letters={key.number: death})

        [finding] = judge(Shard(play.queue, 0), "dead", history, found, is_whole=True)

    assert (finding.what, finding.seq) == ("dead_letter", 3)
    assert (finding.journal.rpartition(", ")[2], finding.store.rpartition(", ")[2]) == ("expired", "failed")
