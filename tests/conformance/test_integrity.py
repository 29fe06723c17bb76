"""Integrity: an undamaged store has no flaws, and repairing it changes nothing."""

from random import Random

import pytest

from headrace.model.errors import Refused, StoreUnavailable
from headrace.model.integrity import Findings, RepairResult
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from tests.support.histories import Actor, Draw
from tests.support.play import Play

OPERATIONS = 150


async def all_kinds(play: Play) -> None:
    """Leave a record of every kind behind, in the fail queue too."""
    await play.configure(fail_handler=True)
    await play.settle(await play.start("done"), Done())
    await play.settle(await play.start("pinned", policy=Policy(result_ttl_ms=60_000)), Done(b"1"))
    await play.settle(await play.start("cancelled"), Cancelled())
    await play.die("dead")
    await play.start("active", lease_ms=1_000)
    await play.enqueue("active")
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=60_000)


async def findings(play: Play, queue: Queue | None = None, limit: int = 1_000) -> list[Findings]:
    """What looks at all shards of a queue find, each to its end."""
    found: list[Findings] = []
    for shard in (queue or play.queue).all_shards():
        found.append(await play.store.integrity.check(shard, limit=limit, now_ms=play.now_ms))
        while (cursor := found[-1].cursor) is not None:
            found.append(await play.store.integrity.check(shard, cursor=cursor, limit=limit, now_ms=play.now_ms))
    return found


async def repair(play: Play, limit: int = 1_000) -> list[RepairResult]:
    """What repairing all shards does, each to its end."""
    done: list[RepairResult] = []
    for shard in play.queue.all_shards():
        done.append(await play.store.integrity.repair(shard, limit=limit, now_ms=play.now_ms))
        while done[-1].more:
            cursor = done[-1].cursor
            done.append(await play.store.integrity.repair(shard, cursor=cursor, limit=limit, now_ms=play.now_ms))
    return done


async def test_records_of_every_kind_fit_together(play: Play) -> None:
    """K29: nothing stands nowhere, and no counter is off; of the fail queue neither."""
    await all_kinds(play)

    found = await findings(play) + await findings(play, play.queue.fail_queue)

    assert [each for each in found if not each.ok] == []


async def test_check_returns_the_bounds_of_the_journal_and_the_expired_leases(play: Play) -> None:
    await all_kinds(play)
    play.advance(1_000)

    found = await findings(play)

    assert [each.journal for each in found] == [
        await play.store.journal.bounds(each) for each in play.queue.all_shards()
    ]
    assert [each.epoch for each in found] == [each.journal.epoch for each in found]
    assert sum(each.leases_over for each in found) == 1


async def test_repair_of_a_sound_shard_changes_nothing(play: Play) -> None:
    await all_kinds(play)
    before = await play.snapshot()

    repaired = await repair(play)

    assert repaired == [RepairResult()] * play.queue.shards
    assert await play.snapshot() == before


async def test_a_check_in_small_parts_finds_no_more_than_one_in_a_single_part(play: Play) -> None:
    await all_kinds(play)
    await play.enqueue_all(*[play.job(f"job-{number:03}") for number in range(300)])

    found, repaired = await findings(play, limit=1), await repair(play, limit=1)

    assert [each for each in found if not each.ok] == []
    assert {(each.problems, each.count_mismatches, each.cleared) for each in repaired} == {((), (), 0)}


async def test_check_and_repair_do_not_create_an_unknown_queue(play: Play) -> None:
    found, repaired = await findings(play), await repair(play)

    assert (found, repaired) == ([Findings()] * play.queue.shards, [RepairResult()] * play.queue.shards)
    assert (await play.store.queues.names(play.queue.tenant)).rows == []


async def test_check_and_repair_refuse_bad_arguments(play: Play) -> None:
    await play.enqueue("a")
    shard, other = Shard(play.queue, 0), Shard(Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1), 0)

    for call in (play.store.integrity.check, play.store.integrity.repair):
        for limit in (0, 1_001):
            with pytest.raises(Refused, match="limit"):
                await call(shard, limit=limit)
        with pytest.raises(Refused, match="cursor"):
            await call(shard, cursor="nonsense")
        with pytest.raises(Refused, match="shards"):
            await call(other)


async def test_integrity_of_a_store_that_was_closed_is_unavailable(play: Play) -> None:
    await play.store.close()

    for call in (play.store.integrity.check, play.store.integrity.repair):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call(Shard(play.queue, 0))


async def test_no_random_history_leaves_a_flaw(store: Store, shards: int) -> None:
    draw = Draw(Random(shards), shards, trims=False)
    actor = Actor(store, draw)

    for _ in range(OPERATIONS):
        await actor.play(draw.op(len(actor.claims)))

    found = [await store.integrity.check(shard) for queue in draw.queues for shard in queue.all_shards()]
    assert [each for each in found if not each.ok] == []
    assert sum(each.journal.last_seq for each in found) > OPERATIONS / 2
