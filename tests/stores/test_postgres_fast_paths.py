"""Fast paths on PostgreSQL: ordinary batches take them, and after an unusual one the next calls skip them."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done, JobError, Retried
from headrace.model.policy import Policy
from headrace.stores.postgres.connection import connect, settings_of
from headrace.stores.postgres.jobs import SLOW_CALLS
from headrace.stores.postgres.store import PostgresStore
from tests.support.schemas import new_schema

QUEUE = Queue("mail", shards=2)


@pytest.fixture
def store(runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A fresh store with its queue."""
    with new_schema() as url:
        store = runner.run(PostgresStore.open(settings_of(url)))
        runner.run(store.queues.configure(QUEUE, {"priority": 3}))
        yield store
        runner.run(store.close())


def jobs(*ids: str) -> list[Job]:
    """Jobs with these ids."""
    return [new_job(QUEUE, "send", fresh_id=id) for id in ids]


def request(nonce: str, limit: int) -> ClaimRequest:
    """A claim of one worker."""
    return ClaimRequest(queues=[QUEUE], worker="w", nonce=nonce, limit=limit)


def gave_up(store: PostgresStore) -> list[str]:
    """The kinds of calls whose fast paths gave up lately."""
    return [kind for kind, left in store.jobs._slow_left.items() if left]


async def test_ordinary_batches_take_the_fast_paths_from_end_to_end(store: PostgresStore) -> None:
    created = await store.jobs.enqueue(jobs("a", "b", "c", "d"))
    first = await store.jobs.claim(request("nonce-001", 2))
    turned = await store.jobs.turn([claim.settle(Done(b"1")) for claim in first.items], request("nonce-002", 2))
    settled = await store.jobs.settle([claim.settle(Done()) for claim in turned.claimed])
    counts = await store.queues.counts(QUEUE)

    assert gave_up(store) == []
    assert {answer.status for answer in created} == {"created"}
    assert {answer.status for answer in (*turned.settled, *settled)} == {"done"}
    assert (counts.waiting, counts.active, counts.done) == (0, 0, 4)


SHAPES = {
    "plain": new_job(QUEUE, "send", fresh_id="a"),
    "tagged": new_job(QUEUE, "send", fresh_id="a", tag="red"),
    "long names": new_job(QUEUE, "k" * 40, fresh_id="a", tag="\u00e9" * 100),
    "headers": new_job(QUEUE, "send", fresh_id="a", headers={"trace": "1"}),
    "policy": new_job(QUEUE, "send", fresh_id="a", policy=Policy(priority=1, max_attempts=3)),
    "pinned": new_job(QUEUE, "send", fresh_id="a", policy=Policy(result_ttl_ms=60_000)),
}


@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_finished_job_made_in_the_server_equals_one_made_here(
    store: PostgresStore, shape: str, attempts: int
) -> None:
    """A settlement in one statement has the server make finished jobs of the bodies that it drops."""
    finished_jobs, left = [], []
    for spared in (0, SLOW_CALLS):
        await store.jobs.enqueue([SHAPES[shape]], now_ms=1_700_000_000_000)
        for attempt in range(attempts):
            [claim] = (await store.jobs.claim(request(f"nonce-{spared}-{attempt}", 1), now_ms=1_700_000_000_001)).items
            retry = claim.settle(Retried(JobError("E", "no"), 0))
            await store.jobs.settle([retry], now_ms=1_700_000_000_002)
        [claim] = (await store.jobs.claim(request(f"nonce-{spared}-last", 1), now_ms=1_700_000_000_003)).items
        store.jobs._slow_left = {"plain": spared}
        await store.jobs.settle([claim.settle(Done(b"1"))], now_ms=1_700_000_000_004)
        left.append(store.jobs._slow_left["plain"])
        finished_jobs.append(await store.reads.finished_job(QUEUE, "a", now_ms=1_700_000_000_005))

    assert finished_jobs[0] == finished_jobs[1]
    assert finished_jobs[0] is not None
    assert finished_jobs[0].attempts == attempts
    assert left == [SLOW_CALLS if shape == "pinned" else 0, SLOW_CALLS - 1], "only what is pinned needs a closer look"


@pytest.mark.parametrize(("priority", "slow"), [(None, []), (5, ["turn"])])
async def test_due_jobs_are_promoted_by_the_fast_path_unless_one_has_a_priority(
    store: PostgresStore, priority: int | None, slow: list[str]
) -> None:
    policy = Policy(priority=priority, max_attempts=3)
    later = [replace(job, run_at_ms=1_700_000_000_100, policy=policy) for job in jobs("a", "b", "c")]
    await store.jobs.enqueue(jobs("now") + later, now_ms=1_700_000_000_000)
    first = await store.jobs.claim(request("nonce-001", 4), now_ms=1_700_000_000_099)
    store.jobs._slow_left.clear()  # the worker was not known to both shards

    settlements = [claim.settle(Done()) for claim in first.items]
    second = await store.jobs.turn(settlements, request("nonce-002", 4), now_ms=1_700_000_000_100)
    counts = await store.queues.counts(QUEUE)

    assert [claim.record.id for claim in first.items] == ["now"]
    assert sorted(claim.record.id for claim in second.claimed) == ["a", "b", "c"]
    assert {claim.priority for claim in second.claimed} == {priority or 3}
    assert (counts.waiting, counts.later, counts.active, counts.done) == (0, 0, 3, 1)
    assert gave_up(store) == slow


async def test_only_the_call_that_makes_a_queue_goes_through_the_transitions(store: PostgresStore) -> None:
    new = Queue("new")

    first = await store.jobs.enqueue([new_job(new, "send", fresh_id="a")])
    after_that = gave_up(store)
    second = await store.jobs.enqueue([new_job(new, "send", fresh_id="b")])
    with closing(connect(store._engine.settings)) as connection:
        bodies = connection.execute("SELECT get_byte(body, 0), octet_length(body) FROM job").fetchall()

    assert [answer.status for answer in (*first, *second)] == ["created", "created"]
    assert after_that == []
    assert bodies[0] == bodies[1], "a body without rarely set fields is short, whichever way it was written"


async def test_a_known_id_goes_through_the_transitions_and_so_do_the_next_calls(store: PostgresStore) -> None:
    await store.jobs.enqueue(jobs("a"))

    again = await store.jobs.enqueue(jobs("b", "a"))
    after_that = gave_up(store)
    for number in range(SLOW_CALLS):
        await store.jobs.enqueue(jobs(f"c-{number}"))
    later = gave_up(store)

    assert [answer.status for answer in again] == ["created", "updated"]
    assert (after_that, later) == (["enqueue"], [])


async def test_a_change_of_the_configuration_is_noticed_by_every_process(store: PostgresStore) -> None:
    other = await PostgresStore.open(store.settings)
    await store.jobs.enqueue(jobs("a", "b"))
    await other.queues.configure(QUEUE, {"paused": True, "priority": 7})

    claims = await store.jobs.claim(request("nonce-001", 2))
    await store.jobs.enqueue(jobs("c"))
    await other.queues.configure(QUEUE, {"paused": False})
    resumed = await store.jobs.claim(request("nonce-002", 3))
    await other.close()

    assert claims.items == []
    assert sorted(claim.record.id for claim in resumed.items) == ["a", "b", "c"]
    assert {claim.priority for claim in resumed.items} == {7}


async def test_a_duplicate_writes_nothing(store: PostgresStore) -> None:
    """TB16: no row is locked for it by an update, and no dead version is left behind."""
    job = new_job(QUEUE, "send", fresh_id="unused", idempotency_key="k")
    await store.jobs.enqueue([job])
    for shard in QUEUE.all_shards():
        await store.journal.bounds(shard)  # numbers what is in the inbox
    versions = "SELECT xmin::text, ctid::text FROM job UNION ALL SELECT xmin::text, ctid::text FROM key"

    with closing(connect(store._engine.settings)) as connection:
        before = connection.execute(versions).fetchall()
        [answer] = await store.jobs.enqueue([job])
        after = connection.execute(versions).fetchall()
        left = connection.execute("SELECT count(*) FROM inbox").fetchall()

    assert answer.status == "duplicate"
    assert len(before) == 2
    assert (after, left) == (before, [(0,)])
