"""The second look of an audit judges what stood still, and says nothing of what moved or cannot be known."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done
from headrace.pipeline.audit.checking import check_misplaced, check_records
from headrace.pipeline.audit.job_history import ExpectedRecord, Story
from headrace.pipeline.audit.judge import MAYBE_OVER, judge
from headrace.pipeline.audit.recheck import Looked, Tail, look_again
from headrace.pipeline.audit.run import doubting_losses
from headrace.stores.contract.store import Store
from tests.support.histories import Actor, Draw
from tests.support.play import Play
from tests.support.stores import REWRITES, STORES

SHARDS = 2


async def tailing(store: Store, queue: Queue, *ids: str) -> dict[Shard, Tail]:
    """The journals of a queue from their beginning, for these ids."""
    return {
        shard: Tail(
            store, shard, await store.journal.bounds(shard), 0, {id: None for id in ids if queue.shard_of(id) == shard}
        )
        for shard in queue.all_shards()
    }


async def all_ids(store: Store, queue: Queue) -> set[str]:
    """The ids that the journals tell of."""
    found: set[str] = set()
    for shard in queue.all_shards():
        upto = (await store.journal.bounds(shard)).last_seq
        for entry in await store.journal.read(shard, 0, upto):
            found |= {event.line.id for event in entry.events(shard) if event.line.id is not None}
    return found


async def look(store: Store, queue: Queue) -> Looked:
    """A look at everything that the journals tell of."""
    return await look_again(store, queue, await tailing(store, queue, *await all_ids(store, queue)))


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_a_line_of_the_journal_that_cannot_be_read_is_a_finding(name: str, tmp_path: Path) -> None:
    async with STORES[name](tmp_path) as store:
        play = Play(store)
        await play.start("a")
        await play.settle(await play.start("b"), Done(), 77)
        await REWRITES[name](store, tmp_path, b'"run_ms":77', b'"run_ms":"x"')
        shard = Shard(play.queue, 0)

        [finding] = [each async for each in check_records(store, shard)]
        looked = await look(store, play.queue)

    assert (finding.what, finding.shard, finding.seq) == ("damage", 0, 5)
    assert "cannot be read" in finding.journal
    assert looked == Looked([], 0)


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_what_random_histories_leave_behind_is_what_their_journals_say(name: str, tmp_path: Path) -> None:
    async with STORES[name](tmp_path) as store:
        draw = Draw(Random(11), SHARDS, trims=False)
        actor = Actor(store, draw)
        for _ in range(300):
            await actor.play(draw.op(len(actor.claims)))
        looked = [await look(store, queue) for queue in draw.queues]

    assert looked == [Looked([], 0)] * len(draw.queues)


async def test_what_moves_while_it_is_looked_at_is_never_a_finding(tmp_path: Path) -> None:
    looked: list[Looked] = []

    async with STORES["sqlite"](tmp_path) as store:
        draw = Draw(Random(12), SHARDS, trims=False)
        actor = Actor(store, draw)
        for _ in range(50):
            await actor.play(draw.op(len(actor.claims)))

        async def meddle() -> None:
            for _ in range(200):
                await actor.play(draw.op(len(actor.claims)))

        meddling = asyncio.create_task(meddle())
        while not meddling.done():
            looked.append(await look(store, draw.main))
        await meddling

    assert [each.findings for each in looked] == [[]] * len(looked)
    assert len(looked) > 5


async def test_of_a_journal_without_its_beginning_only_what_it_tells_is_judged() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        for id in ("waiting", "done", "dead"):
            await play.enqueue(id)
        await play.settle(await play.claim_one(), Done())
        await play.configure(journal_keep_max=1)
        await store.journal.trim(Shard(play.queue, 0), now_ms=play.now_ms)
        bounds = await store.journal.bounds(Shard(play.queue, 0))
        stories: dict[str, Story | None] = {"waiting": None, "done": None, "gone": Story(seq=1, state="waiting")}
        tail = Tail(store, Shard(play.queue, 0), bounds, bounds.last_seq, stories)

        looked = await look_again(store, play.queue, {Shard(play.queue, 0): tail})

    assert bounds.first_seq > 1
    assert [(each.what, each.id) for each in looked.findings] == [("lost", "gone")]


async def test_a_job_whose_end_the_journal_lacks_is_told_as_such_and_not_to_be_enqueued_again() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.settle(await play.start("done"), Done(b"1"))
        await play.settle(await play.start("cancelled"), Cancelled())
        await play.die("dead")
        shard = Shard(play.queue, 0)
        bounds = await store.journal.bounds(shard)
        record = ExpectedRecord("send", payload_bytes=7)
        stories: dict[str, Story | None] = {
            id: Story(
                seq=seq, event="claimed", state="active", record=record, finished_job="none", has_blocked_job=False
            )
            for seq, id in enumerate(("done", "cancelled", "dead", "gone"), 1)
        }

        looked = await look_again(store, play.queue, {shard: Tail(store, shard, bounds, bounds.last_seq, stories)})

    found = {each.id: each for each in looked.findings}
    assert {id: each.what for id, each in found.items()} == {
        "done": "untold",
        "cancelled": "untold",
        "dead": "untold",
        "gone": "lost",
    }
    assert len(looked.findings) == len(found)
    assert "do not enqueue it again" in found["done"].hint
    assert [each.hint for each in doubting_losses(looked.findings) if each.id == "gone"] == [MAYBE_OVER]


async def test_a_queue_that_was_made_anew_is_not_judged_by_its_old_journal() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("old")
        tails = await tailing(store, play.queue, "old")
        await tails[Shard(play.queue, 0)].go_on()
        await store.queues.purge(play.queue, now_ms=play.now_ms)
        assert await store.queues.delete(play.queue)
        play.advance(1)
        await play.enqueue_all(*[play.job(f"new-{number}") for number in range(5)])

        looked = await look_again(store, play.queue, tails)

    assert looked == Looked([], 1)


async def test_a_journal_that_was_cut_before_it_was_read_on_is_not_judged() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("old")
        tails = await tailing(store, play.queue, "old")
        await tails[Shard(play.queue, 0)].go_on()
        await play.cancel("old")
        await play.configure(journal_keep_max=1)
        await store.journal.trim(Shard(play.queue, 0), now_ms=play.now_ms)

        looked = await look_again(store, play.queue, tails)

    assert looked == Looked([], 1)


async def test_a_dead_letter_whose_time_is_over_is_not_missing_before_it_is_swept() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.configure(keep_dead_ms=1, keep_done_ms=1)
        await play.die("dead")
        await play.settle(await play.start("done"))
        play.advance(1_000)

        looked = await look(store, play.queue)

    assert looked == Looked([], 0)


async def test_a_job_is_looked_at_in_its_own_shard() -> None:
    queue = Queue("mail", "acme", 3)
    async with STORES["memory"](Path()) as store:
        await store.jobs.enqueue([Job(queue=queue, id=f"job-{number}", kind="k") for number in range(20)])

        looked = await look(store, queue)

    assert looked == Looked([], 0)


@pytest.mark.parametrize("id", ["", "i" * 2_000, "two\nlines"])
async def test_what_can_be_no_id_is_damage_and_does_not_stop_the_look(id: str) -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        await play.enqueue("good")
        [shard] = play.queue.all_shards()
        tail = Tail(store, shard, await store.journal.bounds(shard), 0, {id: None, "good": None, "gone": None})

        looked = await look_again(store, play.queue, {shard: tail})
        astray = await check_misplaced(store, play.queue, [(shard, id)])

    assert looked.moving == 0
    assert [each.what for each in (*looked.findings, *astray)] == ["damage", "damage"]
    assert "what is no id" in looked.findings[0].store
    assert looked.findings[0].hint.startswith("no call finds it; delete it by hand")


async def test_a_dead_letter_with_another_reason_than_its_death_is_told() -> None:
    async with STORES["memory"](Path()) as store:
        play = Play(store)
        key = await play.die("dead")
        [found] = await store.reads.find(play.queue, ["dead"], now_ms=0)
        assert found is not None
        record = found.dead_letters[0].record
        death = ExpectedRecord(record.kind, record.attempts, record.stalls, reason="expired", seq=3)
        story = Story(seq=3, event="dead", state="over", finished_job="none", dead_letters={key.number: death})

        [finding] = judge(Shard(play.queue, 0), "dead", story, found, is_whole=True)

    assert (finding.what, finding.seq) == ("dead_letter", 3)
    assert (finding.journal.rpartition(", ")[2], finding.store.rpartition(", ")[2]) == ("expired", "failed")
