"""Races: several processes on one store, with short leases, and some of them killed."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.event import Event
from headrace.model.job import Job
from headrace.model.outcome import Done, Failed, JobError
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.fold import Folded
from tests.support.play import Play
from tests.support.races import (
    JOBS,
    PATIENCE_S,
    Racer,
    claim_all,
    enqueue_the_same,
    repair_all,
    settle_the_same,
    together,
)

LEASE_MS = 250
PROCESSES = 3
ROUNDS = 30
ONE_ATTEMPT = Policy(max_attempts=1)


@pytest.fixture
def now(play: Play) -> Play:
    """The processes use the store's own clock, and so does the play."""
    play.now_ms = SystemClock().now_ms()
    return play


def gap_free(events: list[Event]) -> bool:
    """Whether every shard's numbers go from 1 without a gap, at times that never decrease."""
    shards: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        shards[event.shard.index].append(event)
    return all(
        [event.seq for event in each] == list(range(1, len(each) + 1))
        and [event.at_ms for event in each] == sorted(event.at_ms for event in each)
        for each in shards.values()
    )


async def test_ids_and_keys_enqueued_by_several_processes_at_once_give_one_job_each(now: Play, shared_url: str) -> None:
    """TB9, CB14: the same id or key is one job, whichever enqueue is first."""
    answers: list[list[str]] = await asyncio.to_thread(together, PROCESSES, shared_url, now.queue, enqueue_the_same)

    assert Counter(status for each in answers for status in each) == {
        "created": 2 * JOBS,
        "updated": JOBS * (PROCESSES - 1),
        "duplicate": JOBS * (PROCESSES - 1),
    }
    assert (await now.counts()).waiting == 2 * JOBS
    assert gap_free(await now.events())


async def test_purges_and_removals_during_work_match_the_journal(now: Play, shared_url: str) -> None:
    stores, queue, ids = [await open_store(shared_url) for _ in range(3)], now.queue, [f"id-{n}" for n in range(24)]

    async def send(store: Store, chance: Random) -> None:
        for _ in range(ROUNDS):
            picks = sorted(chance.sample(ids, 12))
            await store.jobs.enqueue([Job(queue=queue, id=id, kind="k", policy=ONE_ATTEMPT) for id in picks])

    async def work(store: Store, chance: Random) -> None:
        for number in range(ROUNDS):
            nonce = f"nonce-of-round-{number}-{chance.random()}"
            request = ClaimRequest(queues=[queue], worker=f"w{chance.random()}", nonce=nonce, limit=12)
            claims = (await store.jobs.claim(request)).items
            outcomes = [Done() if chance.random() < 0.5 else Failed(JobError("E", "no")) for _ in claims]
            await store.jobs.settle([each.settle(end, 1) for each, end in zip(claims, outcomes, strict=True)])

    async def meddle(store: Store, chance: Random) -> None:
        for _ in range(ROUNDS):
            await store.queues.purge(queue, limit=6)
            await store.jobs.remove(queue, chance.sample(ids, 6))

    calls = [(send, 0), (work, 1), (work, 2), (meddle, 1), (meddle, 2)]
    try:
        await asyncio.gather(*(act(stores[at], Random(seed)) for seed, (act, at) in enumerate(calls)))
        for shard in queue.all_shards():
            snapshot, folded = await stores[0].reads.snapshot(shard), Folded()
            for event in await now.events():
                if event.shard == shard:
                    folded.add(event)

            folded.check(snapshot.rows)
    finally:
        for store in stores:
            await store.close()


async def test_jobs_that_become_due_are_handed_to_one_of_several_processes(now: Play, shared_url: str) -> None:
    """CB2, KB1, KB2, K18: promoted and handed out once, however many claim at that instant."""
    await now.enqueue_all(*[now.job(f"job-{number}", run_at_ms=now.now_ms + 1) for number in range(JOBS)])

    answers: list[list[tuple[str, int]]] = await asyncio.to_thread(
        together, PROCESSES, shared_url, now.queue, claim_all
    )

    handed = [id for each in answers for id, _ in each]
    fences = [(now.queue.index_of(id), fence) for each in answers for id, fence in each]
    assert sorted(handed) == sorted(f"job-{number}" for number in range(JOBS))
    assert len(set(fences)) == JOBS
    assert gap_free(await now.events())


async def test_a_lease_that_ran_out_is_repaired_by_one_of_several_processes(now: Play, shared_url: str) -> None:
    """KB3, CB3, CB15: one winner per repair, so a stall is counted once."""
    now.advance(-60_000)
    await now.enqueue_all(*[now.job(f"job-{number}") for number in range(JOBS)])
    assert len(await now.claim(JOBS, lease_ms=1_000)) == JOBS

    repaired = await asyncio.to_thread(together, PROCESSES, shared_url, now.queue, repair_all)

    now.advance(120_000)
    assert sum(repaired) == JOBS
    assert [(await now.record(f"job-{number}")).stalls for number in range(JOBS)] == [1] * JOBS
    assert (await now.counts()).waiting == JOBS


async def test_a_delivery_settled_by_several_processes_at_once_is_done_once(now: Play, shared_url: str) -> None:
    """CB15, K18, KB15: one of them is answered done, the others not_active, and none must retry."""
    await now.enqueue_all(*[now.job(f"job-{number}") for number in range(JOBS)])
    await now.claim(JOBS, worker="worker-0", nonce="nonce-shared")

    settled = await asyncio.to_thread(together, PROCESSES, shared_url, now.queue, settle_the_same)

    assert Counter(status for each in settled for status in each) == {
        "done": JOBS,
        "not_active": JOBS * (PROCESSES - 1),
    }
    assert Counter(event.line.event for event in await now.events()) == dict.fromkeys(
        ("enqueued", "claimed", "done"), JOBS
    )


@pytest.fixture
def racers() -> Iterator[list[Racer]]:
    """Racers that are gone when the test is over, however it ends."""
    running: list[Racer] = []
    yield running
    for racer in running:
        racer.kill()


async def test_every_job_is_done_once_although_workers_are_killed_in_the_midst_of_it(
    now: Play, shared_url: str, tmp_path: Path, racers: list[Racer]
) -> None:
    """T32, T14, KB1, KB2, KB4, CB4: nothing is lost, nothing runs under two leases, nothing is done twice."""
    await now.configure(max_stalls=100)
    for start in range(0, JOBS, 10):
        await now.store.jobs.enqueue([now.job(f"job-{number}") for number in range(start, start + 10)])

    def race(name: str, *, settles: bool) -> Racer:
        racers.append(Racer(tmp_path, shared_url, now.queue, name, lease_ms=LEASE_MS, settles=settles))
        return racers[-1]

    idle = race("idle-1", settles=False)
    await until(lambda: len(idle.lines()) >= 8)
    idle.kill()
    idle = race("idle-2", settles=False)
    await until(lambda: len(idle.lines()) >= 8)
    busy = race("busy-1", settles=True)
    await until(lambda: len(busy.lines()) >= 8)
    busy.kill()
    idle.kill()
    others = [race("busy-2", settles=True), race("busy-3", settles=True)]
    await done_all(now)
    (tmp_path / "stop").touch()
    for racer in others:
        racer.join()

    lines = [line for racer in racers for line in racer.lines()]
    settled = Counter(line["settled"] for line in lines if line.get("status") == "done")
    assert max(settled.values()) == 1, "two workers finished one job"
    events = await now.events()
    assert gap_free(events)
    stalls = check_lives(events)
    assert stalls >= 8, "the killed workers held nothing"
    assert {(line["claimed"], line["fence"]) for line in lines if "claimed" in line} <= {
        (event.line.id, event.line.fence) for event in events if event.line.event == "claimed"
    }


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - another process cannot set an event of ours
            await asyncio.sleep(0.01)


async def done_all(play: Play) -> None:
    """Wait until nothing waits and nothing runs."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            counts = await play.store.queues.counts(play.queue)
            if counts.done == JOBS:
                return
            await asyncio.sleep(0.02)


def check_lives(events: list[Event]) -> int:
    """Walk through the life of each job; returns how many deliveries stalled.

    A job is handed out only while it waits, is taken back only when its lease is over, and is done once.
    """
    lives: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.line.id is not None:
            lives[event.line.id].append(event)
    assert len(lives) == JOBS
    stalls = 0
    for id, life in lives.items():
        names = [event.line.event for event in life]
        fences = [event.line.fence or 0 for event in life if event.line.event == "claimed"]
        assert names == ["enqueued", *["claimed", "stalled"] * (len(fences) - 1), "claimed", "done"], id
        assert fences == sorted(set(fences)), id
        for claimed, ended in zip(life[1::2], life[2::2], strict=True):
            assert ended.line.fence == claimed.line.fence, id
            if ended.line.event == "stalled":
                stalls += 1
                assert (ended.line.run_ms or 0) >= LEASE_MS, f"{id} was taken back before its lease was over"
    return stalls
