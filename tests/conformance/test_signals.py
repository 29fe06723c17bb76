"""Signals: a waiter returns when a claim may succeed or a job has ended, and not before its time otherwise."""

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.errors import Refused
from headrace.model.job import State, new_job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, Released, Retried
from headrace.model.policy import Policy
from headrace.stores.open import open_store
from tests.support.play import BOOM, Play

LONG_MS = 20_000
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
        # Our own check returns after that of the waiter, which began earlier.
        await asyncio.sleep(0)
        await play.find("nobody")
    assert not waiter.done(), "the waiter found work in an empty queue"
    return waiter


async def woken_by(waiter: asyncio.Task[bool], act: Awaitable[object]) -> bool:
    """Whether the waiter returns True once this was done; fails when it sleeps on."""
    await act
    return await asyncio.wait_for(waiter, LONG_MS / 2_000)


async def test_wait_returns_at_once_for_available_work(play: Play) -> None:
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


async def test_wait_times_out_with_false_without_work(play: Play) -> None:
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

    assert await woken_by(waiter, play.settle(claim, Retried(BOOM, 0)))


async def test_a_sleeping_waiter_is_woken_by_a_release(play: Play) -> None:
    claim = await play.start("a")
    waiter = await asleep(play)

    assert await woken_by(waiter, play.settle(claim, Released()))


async def test_a_sleeping_waiter_is_woken_by_a_blocked_job_that_is_freed(play: Play) -> None:
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


async def test_a_sleeping_waiter_on_the_fail_queue_is_woken_by_a_death(play: Play) -> None:
    await play.configure(fail_handler=True)
    claim = await play.start("a", lease_ms=3_600_000)
    waiter = await asleep(play, play.queue.fail_queue)

    await play.settle(claim, Retried(BOOM, 3_600_000))
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


# Waiting for the end of a job.


async def awaiting(play: Play, *ids: str, queue: Queue | None = None) -> asyncio.Task[bool]:
    """A sleeping waiter for the end of one of these jobs."""
    waiter = asyncio.create_task(play.store.signals.ended(queue or play.queue, list(ids), LONG_MS))
    for _ in range(TURNS):
        await asyncio.sleep(0)
        await play.find("nobody")
    assert not waiter.done(), "the waiter found an end without one"
    return waiter


async def test_a_waiter_for_an_end_is_woken_by_another_handle_of_the_store(play: Play, shared_url: str) -> None:
    """Long before its next look: it hears, within what a worker in another process would take as well."""
    claims = [await play.start("done"), await play.start("dead")]
    await play.enqueue("cancelled", delay_ms=3_600_000)
    other = await open_store(shared_url)
    took: list[float] = []
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "done": lambda: other.jobs.settle([claims[0].settle(Done())]),
        "dead": lambda: other.jobs.settle([claims[1].settle(Failed(BOOM))]),
        "cancelled": lambda: other.jobs.cancel(play.queue, ["cancelled"]),
    }

    for id, act in acts.items():
        waiter = await awaiting(play, id)
        began = asyncio.get_running_loop().time()
        assert await woken_by(waiter, act())
        took.append(asyncio.get_running_loop().time() - began)
    await other.close()

    assert max(took) < 1.5, f"found by looking, not by hearing: {took}"


async def test_an_id_that_has_ended_or_is_unknown_answers_at_once(play: Play) -> None:
    """However it ended, and whether its finished job is kept or not."""
    await play.settle(await play.start("done"))
    await play.die("dead")
    await play.enqueue("cancelled")
    await play.cancel("cancelled")
    await play.enqueue("removed")
    await play.remove("removed")
    await play.settle(await play.start("unkept", policy=Policy(result_ttl_ms=0)))
    await play.enqueue("waiting", delay_ms=3_600_000)

    for id in ("done", "dead", "cancelled", "removed", "unkept", "unknown"):
        assert await play.store.signals.ended(play.queue, [id], LONG_MS), id
        assert await play.store.signals.ended(play.queue, ["waiting", id], 0), id


async def test_the_jobs_of_an_unknown_queue_answer_at_once(play: Play) -> None:
    assert await play.store.signals.ended(play.queue, ["a"], LONG_MS)


async def test_the_end_of_a_job_that_waits_or_runs_is_waited_for_until_the_time_is_over(play: Play) -> None:
    await play.start("running")
    await play.enqueue("running")
    await play.enqueue("waiting")
    await play.enqueue("later", delay_ms=3_600_000)
    ids = ["running", "waiting", "later", "waiting"]

    assert not await play.store.signals.ended(play.queue, ids, 0)
    assert not await play.store.signals.ended(play.queue, ids, 20)
    assert not await play.store.signals.ended(play.queue, [], 1)


async def test_a_waiter_for_an_end_is_woken_when_the_job_is_done(play: Play) -> None:
    claim = await play.start("a")
    waiter = await awaiting(play, "a")

    assert await woken_by(waiter, play.settle(claim, Done(b"42")))
    assert await play.state("a") is State.DONE


async def test_a_waiter_for_an_end_is_woken_when_no_finished_job_is_kept(play: Play) -> None:
    await play.configure(keep_done_max=0)
    claim = await play.start("a")
    waiter = await awaiting(play, "a")

    assert await woken_by(waiter, play.settle(claim))
    assert await play.find("a") is None


async def test_a_waiter_for_an_end_is_woken_by_a_turn_that_settles_it(play: Play) -> None:
    claim = await play.start("a")
    waiter = await awaiting(play, "a")
    request = ClaimRequest(queues=[play.queue], worker="worker-1", nonce=play.nonce())

    assert await woken_by(waiter, play.store.jobs.turn([claim.settle(Done())], request, now_ms=play.now_ms))


async def test_a_waiter_for_an_end_is_woken_when_the_job_is_cancelled(play: Play) -> None:
    """Waiting, or running and asked to stop."""
    await play.enqueue("waits", delay_ms=3_600_000)
    claim = await play.start("runs")
    waiting, running = await awaiting(play, "waits"), await awaiting(play, "runs")

    await play.cancel("runs", running=True)
    assert await woken_by(waiting, play.cancel("waits"))
    asked_only = not running.done()

    assert await woken_by(running, play.settle(claim, Cancelled()))
    assert asked_only


async def test_a_waiter_for_an_end_is_woken_when_the_job_dies(play: Play) -> None:
    """Failed for good, out of attempts, or found too late to start."""
    failed = await play.start("failed")
    tried = await play.start("tried", policy=Policy(max_attempts=1))
    await play.enqueue("late", policy=Policy(expires_at_ms=play.now_ms - 1))
    waiters = [await awaiting(play, id) for id in ("failed", "tried", "late")]

    assert await woken_by(waiters[0], play.settle(failed, Failed(BOOM)))
    assert await woken_by(waiters[1], play.settle(tried, Retried(BOOM)))
    assert await woken_by(waiters[2], play.claims())


async def test_a_waiter_for_an_end_is_woken_when_a_repair_lets_the_job_die(play: Play) -> None:
    """KB4: the worker is gone, and only the repair can wake."""
    await play.start("a", lease_ms=3_600_000, policy=Policy(max_stalls=1))
    waiter = await awaiting(play, "a")
    play.advance(3_600_000)

    assert await woken_by(waiter, play.repair())


async def test_a_waiter_for_an_end_is_woken_when_the_job_is_removed_or_purged(play: Play) -> None:
    await play.start("removed")
    await play.enqueue("purged", delay_ms=3_600_000)
    removed, purged = await awaiting(play, "removed"), await awaiting(play, "purged")

    assert await woken_by(removed, play.remove("removed"))
    assert await woken_by(purged, play.store.queues.purge(play.queue, now_ms=play.now_ms))


async def test_a_waiter_for_an_end_is_woken_although_a_blocked_job_continues(play: Play) -> None:
    """The delivery has ended and its finished job is there; the blocked job is a job of its own."""
    claim = await play.start("a")
    await play.enqueue("a", delay_ms=3_600_000)
    waiter = await awaiting(play, "a")

    assert await woken_by(waiter, play.settle(claim, Done(b"42")))
    assert await play.store.signals.ended(play.queue, ["a"], LONG_MS), "the finished job is kept"
    await play.enqueue("b", delay_ms=3_600_000)
    assert not await play.store.signals.ended(play.queue, ["b"], 0)


async def test_a_waiter_for_an_end_sleeps_on_while_the_job_is_only_released(play: Play) -> None:
    claim = await play.start("a")
    waiter = await awaiting(play, "a")

    await play.settle(claim, Retried(BOOM, 0))
    await play.settle(again := await play.claim_one(), Released())
    await play.settle(await play.claim_one(), Retried(BOOM, 3_600_000))
    await play.enqueue("a", payload=b"[2]", run_at_ms=play.now_ms)
    slept = not (await asyncio.wait([waiter], timeout=0.02))[0]

    assert slept
    assert again.lease.id == "a"
    assert await woken_by(waiter, play.settle(await play.claim_one()))


async def test_a_waiter_for_an_end_sleeps_on_while_other_jobs_end(play: Play) -> None:
    """C5: of the same queue, of another one, and of another tenant under the same id."""
    others = [
        Play(play.store, play.queue.shards, name="other"),
        Play(play.store, play.queue.shards, tenant="other"),
    ]
    await play.enqueue("mine", delay_ms=3_600_000)
    waiter = await awaiting(play, "mine")

    for id in play.ids(5):
        await play.settle(await play.start(id))
    for other in others:
        await other.settle(await other.start("mine"))
    slept = not (await asyncio.wait([waiter], timeout=0.02))[0]

    assert slept
    assert await woken_by(waiter, play.cancel("mine"))


async def test_a_waiter_for_several_ends_is_woken_by_the_first(play: Play) -> None:
    ids = [f"job-{number}" for number in range(6)]
    await play.enqueue_all(*[play.job(id) for id in ids])
    claims = {claim.lease.id: claim for claim in await play.claim(10)}

    for number, id in enumerate(reversed(ids)):
        waiter = await awaiting(play, *ids[: len(ids) - number])
        assert await woken_by(waiter, play.settle(claims[id]))


async def test_all_waiters_for_an_end_are_woken_after_one_was_cancelled(play: Play) -> None:
    claim = await play.start("a")
    waiters = [await awaiting(play, "a") for _ in range(4)]

    waiters[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    await play.settle(claim)

    assert await asyncio.wait_for(asyncio.gather(*waiters[1:]), LONG_MS / 2_000) == [True] * 3


async def test_the_end_of_a_job_for_the_fail_handler_can_be_waited_for(play: Play) -> None:
    await play.configure(fail_handler=True)
    await play.die("a")
    [claim] = await play.claim(queues=[play.queue.fail_queue])
    waiter = await awaiting(play, claim.lease.id, queue=play.queue.fail_queue)

    assert await woken_by(waiter, play.settle(claim))


async def test_a_job_that_is_enqueued_again_is_waited_for_again(play: Play) -> None:
    """What ended before under the same id is another job, although its dead letter is kept."""
    await play.die("a")
    claim = await play.start("a")
    waiter = await awaiting(play, "a")

    assert await woken_by(waiter, play.settle(claim))


async def test_waiting_for_ends_with_a_wrong_number_of_shards_is_refused(play: Play) -> None:
    await play.enqueue("a")
    wrong = Queue(play.queue.name, play.queue.tenant, play.queue.shards + 1)

    with pytest.raises(Refused) as refused:
        await play.store.signals.ended(wrong, ["a"], LONG_MS)

    assert refused.value.reason == "wrong_shards"


async def test_waiting_for_more_ends_than_a_batch_holds_is_refused(play: Play) -> None:
    with pytest.raises(Refused, match="at most 1,000 ids; found 1,001"):
        await play.store.signals.ended(play.queue, ["a"] * (BATCH_MAX + 1), 0)
    with pytest.raises(Refused, match="timeout_ms"):
        await play.store.signals.ended(play.queue, ["a"], -1)


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
