"""Signals: a waiter returns when a claim may succeed, and not before its time otherwise."""

import asyncio
import multiprocessing
from collections.abc import Awaitable

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Release, Retry
from headrace.stores.open import open_store
from tests.support.play import BOOM, Play

LONG_MS = 60_000
"""Longer than any test takes: a waiter that is not woken fails the test instead of passing it late."""
TURNS = 10
"""Turns of the event loop after which a waiter that was started has looked and sleeps."""


@pytest.fixture(autouse=True)
def present(play: Play) -> None:
    """A waiter looks at the store's own clock, so the play starts now."""
    play.now_ms = SystemClock().now_ms()


async def asleep(play: Play, *queues: Queue) -> asyncio.Task[bool]:
    """A waiter that has looked, found nothing and sleeps."""
    waiter = asyncio.create_task(play.store.signals.wait(list(queues) or [play.queue], LONG_MS))
    for _ in range(TURNS):
        # A look of our own returns after the waiter's, which was asked for before it.
        await asyncio.sleep(0)
        await play.find("nobody")
    assert not waiter.done(), "the waiter found something where there was nothing"
    return waiter


async def woken_by(waiter: asyncio.Task[bool], act: Awaitable[object]) -> bool:
    """Whether the waiter returns True once this was done; fails when it sleeps on."""
    await act
    return await asyncio.wait_for(waiter, LONG_MS / 2_000)


async def test_wait_returns_at_once_when_work_is_there(play: Play) -> None:
    await play.enqueue("a")

    assert await play.store.signals.wait([play.queue], LONG_MS)


async def test_wait_returns_at_once_when_a_later_job_has_become_due(play: Play) -> None:
    await play.enqueue("a", run_at_ms=play.now_ms + 5)
    play.now_ms -= 60_000
    await play.enqueue("b", delay_ms=1_000)

    assert await play.store.signals.wait([play.queue], LONG_MS)


async def test_wait_returns_at_once_when_a_lease_has_run_out(play: Play) -> None:
    """CB10, KB4: an idle worker is what finds the jobs of a dead one."""
    play.now_ms -= 60_000
    await play.start("a", lease_ms=1_000)

    assert await play.store.signals.wait([play.queue], LONG_MS)


async def test_wait_times_out_with_false_when_nothing_is_there(play: Play) -> None:
    unknown = await play.store.signals.wait([play.queue], 0)
    await play.start("active")
    await play.enqueue("later", delay_ms=3_600_000)
    known = await play.store.signals.wait([play.queue], 1)

    assert (unknown, known) == (False, False)


async def test_wait_does_not_see_the_jobs_of_a_paused_queue(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)

    assert not await play.store.signals.wait([play.queue], 1)


async def test_wait_does_not_see_the_jobs_of_other_queues_and_tenants(play: Play) -> None:
    """C5: a hint belongs to its tenant."""
    await Play(play.store, play.queue.shards, name="other").enqueue("a")
    await Play(play.store, play.queue.shards, tenant="other").enqueue("a")

    assert not await play.store.signals.wait([play.queue], 1)


async def test_a_sleeping_waiter_is_woken_by_an_enqueue(play: Play) -> None:
    waiter = await asleep(play)

    assert await woken_by(waiter, play.enqueue("a"))


async def test_a_sleeping_waiter_is_woken_by_an_enqueue_to_any_shard(play: Play) -> None:
    await play.enqueue("a", delay_ms=3_600_000)

    for number in range(6):
        waiter = await asleep(play)
        assert await woken_by(waiter, play.enqueue(f"job-{number}"))
        await play.settle(await play.claim_one())


async def test_a_sleeping_waiter_is_woken_by_an_enqueue_with_an_earlier_time(play: Play) -> None:
    await play.enqueue("later", delay_ms=3_600_000)
    waiter = await asleep(play)

    assert await woken_by(waiter, play.enqueue("earlier", delay_ms=1_800_000))


async def test_a_sleeping_waiter_is_woken_by_an_update_that_makes_a_job_due(play: Play) -> None:
    await play.enqueue("a", delay_ms=3_600_000)
    waiter = await asleep(play)

    assert await woken_by(waiter, play.enqueue("a", run_at_ms=play.now_ms))


async def test_a_sleeping_waiter_is_woken_by_resuming_its_queue(play: Play) -> None:
    await play.enqueue("a")
    await play.configure(paused=True)
    waiter = await asleep(play)

    assert await woken_by(waiter, play.configure(paused=False))


async def test_a_sleeping_waiter_is_woken_by_a_retry_that_is_due_at_once(play: Play) -> None:
    claim = await play.start("a")
    waiter = await asleep(play)

    assert await woken_by(waiter, play.settle(claim, Retry(BOOM, 0)))


async def test_a_sleeping_waiter_is_woken_by_a_release(play: Play) -> None:
    claim = await play.start("a")
    waiter = await asleep(play)

    assert await woken_by(waiter, play.settle(claim, Release()))


async def test_a_sleeping_waiter_is_woken_by_a_twin_that_is_freed(play: Play) -> None:
    claim = await play.start("a")
    await play.enqueue("a")
    waiter = await asleep(play)

    assert await woken_by(waiter, play.settle(claim))


async def test_a_sleeping_waiter_is_woken_by_a_repair(play: Play) -> None:
    await play.start("a", lease_ms=3_600_000)
    waiter = await asleep(play)
    play.advance(3_600_000)

    assert await woken_by(waiter, play.repair())


async def test_a_sleeping_waiter_is_woken_by_a_replay(play: Play) -> None:
    await play.die("a")
    waiter = await asleep(play)

    assert await woken_by(waiter, play.replay("a"))


async def test_a_sleeping_waiter_on_the_companion_is_woken_by_a_death(play: Play) -> None:
    await play.configure(fail_handler=True)
    claim = await play.start("a", lease_ms=3_600_000)
    waiter = await asleep(play, play.queue.companion)

    await play.settle(claim, Retry(BOOM, 3_600_000))
    still_asleep = not waiter.done()
    await play.cancel("a")
    assert await woken_by(waiter, play.die("b"))

    assert still_asleep


async def test_a_waiter_on_several_queues_is_woken_by_each_of_them(play: Play) -> None:
    other = Play(play.store, play.queue.shards, name="other")
    other.now_ms = play.now_ms

    for each in (play, other):
        waiter = await asleep(play, play.queue, other.queue)
        assert await woken_by(waiter, each.enqueue("a"))
        await each.settle(await each.claim_one())


async def test_a_queue_may_be_named_twice(play: Play) -> None:
    timed_out = await play.store.signals.wait([play.queue, play.queue], 1)
    waiter = await asleep(play, play.queue, play.queue)

    assert not timed_out
    assert await woken_by(waiter, play.enqueue("a"))


async def test_all_waiters_of_a_queue_are_woken(play: Play) -> None:
    waiters = [await asleep(play) for _ in range(3)]

    await play.enqueue("a")

    assert await asyncio.wait_for(asyncio.gather(*waiters), LONG_MS / 2_000) == [True] * 3


async def test_a_waiter_that_is_cancelled_leaves_the_others_alone(play: Play) -> None:
    first, second = await asleep(play), await asleep(play)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert await woken_by(second, play.enqueue("a"))


async def test_an_idle_worker_sleeps_until_the_next_time_of_its_claim_and_then_finds_the_job(play: Play) -> None:
    """TB11: what is due later is not missed by waiting for signals only."""
    await play.store.jobs.enqueue([play.job("a", delay_ms=30)])
    request = ClaimRequest(queues=[play.queue], worker="worker-1", nonce="nonce-of-mine")

    claims = await play.store.jobs.claim(request)
    while not claims.items:
        assert claims.next_at_ms is not None
        await play.store.signals.wait([play.queue], max(claims.next_at_ms - SystemClock().now_ms(), 0))
        claims = await play.store.jobs.claim(request)

    assert [claim.record.id for claim in claims.items] == ["a"]


# Woken by another process.


def enqueue_elsewhere(url: str, queue: Queue, delay_ms: int) -> None:
    """What the other process does."""

    async def run() -> None:
        store = await open_store(url)
        await store.jobs.enqueue([new_job(queue, "send", fresh_id="elsewhere", delay_ms=delay_ms)])
        await store.close()

    asyncio.run(run())


async def elsewhere(url: str, queue: Queue, delay_ms: int = 0) -> None:
    """Enqueue in another process."""
    process = multiprocessing.get_context("spawn").Process(target=enqueue_elsewhere, args=(url, queue, delay_ms))
    process.start()
    await asyncio.get_running_loop().run_in_executor(None, process.join)
    assert process.exitcode == 0


async def test_a_sleeping_waiter_is_woken_by_an_enqueue_of_another_process(play: Play, shared_url: str) -> None:
    waiter = await asleep(play)

    assert await woken_by(waiter, elsewhere(shared_url, play.queue))
    assert [claim.record.id for claim in (await play.store.jobs.claim(now_request(play))).items] == ["elsewhere"]


async def test_a_sleeping_waiter_is_woken_by_an_earlier_time_of_another_process(play: Play, shared_url: str) -> None:
    await play.enqueue("later", delay_ms=3_600_000)
    waiter = await asleep(play)

    assert await woken_by(waiter, elsewhere(shared_url, play.queue, 1_800_000))


async def test_a_sleeping_waiter_is_not_woken_by_the_work_of_others_in_another_process(
    play: Play, shared_url: str
) -> None:
    waiter = await asleep(play)

    await elsewhere(shared_url, Queue("other", "acme", play.queue.shards))

    assert not waiter.done()
    assert await woken_by(waiter, play.enqueue("a"))


def now_request(play: Play) -> ClaimRequest:
    return ClaimRequest(queues=[play.queue], worker="worker-1", nonce=play.nonce())
