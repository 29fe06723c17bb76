"""Enqueue inside a caller's own transaction."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from headrace.model.errors import Refused, StoreUnavailable
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.store import PostgresStore
from tests.support.schemas import new_schema
from tests.support.servers import postgres_server

QUEUE = Queue("mail", shards=2)
LONG_MS = 60_000


@pytest.fixture
def store(runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A fresh store."""
    with new_schema() as url:
        store = runner.run(PostgresStore.open(settings_of(url)))
        yield store
        runner.run(store.close())


def job(id: str) -> Job:
    """A job with this id."""
    return new_job(QUEUE, "send", fresh_id=id)


async def waiting(store: PostgresStore) -> int:
    """How many jobs wait."""
    return (await store.queues.counts(QUEUE)).waiting


async def test_jobs_come_with_the_commit_of_the_caller(store: PostgresStore) -> None:
    with psycopg.connect(postgres_server().url) as connection:
        answers = await store.enqueue_on(connection, [job("a"), job("b")])
        before = await waiting(store)
        connection.commit()

    assert [answer.status for answer in answers] == ["created", "created"]
    assert (before, await waiting(store)) == (0, 2)


async def test_jobs_never_were_when_the_caller_rolls_back(store: PostgresStore) -> None:
    with psycopg.connect(postgres_server().url) as connection:
        await store.enqueue_on(connection, [job("a")])
        connection.rollback()

    bounds = [await store.journal.bounds(shard) for shard in QUEUE.all_shards()]
    assert await store.reads.find(QUEUE, ["a"]) == [None]
    assert [each.last_seq for each in bounds] == [0, 0]


async def test_an_async_connection_serves_as_well_and_known_ids_are_merged(store: PostgresStore) -> None:
    await store.jobs.enqueue([job("a")])
    async with await psycopg.AsyncConnection.connect(postgres_server().url) as connection:
        answers = await store.enqueue_on(connection, [job("a"), job("b")])

    assert [answer.status for answer in answers] == ["updated", "created"]
    assert await waiting(store) == 2


async def test_a_connection_in_autocommit_is_refused(store: PostgresStore) -> None:
    with psycopg.connect(postgres_server().url, autocommit=True) as connection:
        with pytest.raises(Refused) as refused:
            await store.enqueue_on(connection, [job("a")])
        with connection.transaction():
            await store.enqueue_on(connection, [job("b")])

    assert refused.value.reason == "no_transaction"
    assert await waiting(store) == 1


async def test_the_callers_connection_is_left_as_it_was(store: PostgresStore) -> None:
    with psycopg.connect(postgres_server().url, row_factory=dict_row) as connection:
        before = connection.execute("SHOW search_path").fetchone()
        connection.execute("CREATE TEMPORARY TABLE mine (note text)")
        await store.enqueue_on(connection, [job("a")])
        connection.execute("INSERT INTO mine VALUES ('still here')")
        after = connection.execute("SHOW search_path").fetchone()
        note = connection.execute("SELECT note FROM mine").fetchone()

    assert after == before
    assert note == {"note": "still here"}


async def test_other_calls_wait_for_the_caller_only_for_its_ids(store: PostgresStore) -> None:
    with psycopg.connect(postgres_server().url) as connection:
        await store.enqueue_on(connection, [job("a")])

        others = await asyncio.wait_for(store.jobs.enqueue([job("b"), job("c")]), LONG_MS / 1000)
        same = asyncio.create_task(store.jobs.enqueue([job("a")]))
        await store.reads.find(QUEUE, ["a"])
        held = not same.done()
        connection.commit()
        [answer] = await same

    assert [each.status for each in others] == ["created", "created"]
    assert (held, answer.status) == (True, "updated")


async def test_a_waiter_of_another_process_is_woken_by_the_callers_commit(store: PostgresStore) -> None:
    other = await PostgresStore.open(store.settings)
    waiter = asyncio.create_task(other.signals.wait([QUEUE], LONG_MS))
    with psycopg.connect(postgres_server().url) as connection:
        await store.enqueue_on(connection, [job("a")])
        asleep = not waiter.done()
        connection.commit()

    assert asleep
    assert await asyncio.wait_for(waiter, LONG_MS / 2_000)
    await other.close()


async def test_deleting_another_queue_gives_up_soon_behind_a_slow_caller(store: PostgresStore) -> None:
    other = Queue("other")
    await store.queues.configure(other, {})

    with psycopg.connect(postgres_server().url) as connection:
        await store.enqueue_on(connection, [job("a")])
        with pytest.raises(StoreUnavailable):
            await store.queues.delete(other)
        answers = await store.jobs.enqueue([job("b")])
        connection.commit()

    assert [answer.status for answer in answers] == ["created"]
    assert await store.queues.delete(other)
