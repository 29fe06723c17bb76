"""Fast paths on PostgreSQL: ordinary batches take them, and after an unusual one they are left alone for a while."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.postgres.connect import connect, settings_of
from headrace.stores.postgres.fast import SLOW_CALLS
from headrace.stores.postgres.store import PostgresStore
from tests.support.schemas import new_schema

QUEUE = Queue("mail", shards=2)


@pytest.fixture
def store(runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A fresh store whose queue is there."""
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
    """The calls whose fast paths had to give up lately."""
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
