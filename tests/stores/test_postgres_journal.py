"""The journal on PostgreSQL: numbers have no gaps although no call waits for them, and late commits are not skipped."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from headrace.model.job import Job, new_job
from headrace.model.names import Queue, Shard
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.store import PostgresStore
from tests.support.process import wait_until
from tests.support.schemas import new_schema, schema_of
from tests.support.servers import postgres_server

QUEUE = Queue("mail")
SHARD = Shard(QUEUE, 0)
CALLS, WRITERS = 40, 8


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of the test's own."""
    with new_schema() as url:
        yield url


def job(id: str) -> Job:
    """A job with this id."""
    return new_job(QUEUE, "send", fresh_id=id)


def in_inboxes(url: str) -> int:
    """The number of calls without numbers."""
    [(calls,)] = postgres_server().ask(f"SELECT count(*) FROM {schema_of(url)}.inbox")  # noqa: S608 - our own name
    return int(calls)


async def read_on(store: PostgresStore, after: int) -> list[tuple[int, str | None]]:
    """The events after a seq, as number and id."""
    bounds = await store.journal.bounds(SHARD)
    entries = await store.journal.read(SHARD, after, bounds.last_seq)
    return [(event.seq, event.line.id) for entry in entries for event in entry.events(SHARD)]


async def test_a_reader_beside_many_writers_sees_every_event_once_and_in_order(url: str) -> None:
    stores = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    await stores[0].jobs.enqueue([job("first")])

    async def write(writer: int) -> None:
        for call in range(CALLS):
            await stores[writer % 2].jobs.enqueue([job(f"{writer}-{call}")])

    writing = [asyncio.create_task(write(writer)) for writer in range(WRITERS)]
    seen: list[tuple[int, str | None]] = []
    while not all(task.done() for task in writing):
        seen += await read_on(stores[1], len(seen))
    await asyncio.gather(*writing)
    seen += await read_on(stores[1], len(seen))
    for store in stores:
        await store.close()

    assert [seq for seq, _ in seen] == list(range(1, WRITERS * CALLS + 2))
    assert {id for _, id in seen} == {"first"} | {
        f"{writer}-{call}" for writer in range(WRITERS) for call in range(CALLS)
    }


async def test_a_commit_that_comes_late_is_numbered_behind_what_was_read(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    await store.jobs.enqueue([job("first")])
    with psycopg.connect(postgres_server().url) as late:
        await store.enqueue_on(late, [job("late")])
        await store.jobs.enqueue([job("quick")])

        before = await read_on(store, 0)
        late.commit()
    after = await read_on(store, len(before))
    await store.close()

    assert before == [(1, "first"), (2, "quick")]
    assert after == [(3, "late")]


async def test_entries_that_retention_drops_during_numbering_are_not_in_the_journal(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    await store.queues.configure(QUEUE, {"journal_keep_max": 3})
    for number in range(45):
        await store.jobs.enqueue([job(f"job-{number:02}")])

    bounds = await store.journal.bounds(SHARD)
    [(kept,)] = postgres_server().ask(f"SELECT count(*) FROM {schema_of(url)}.journal")  # noqa: S608 - our own name
    entries = await store.journal.read(SHARD, 0, 99)
    await store.close()

    assert (in_inboxes(url), kept) == (0, 3)
    assert (bounds.first_seq, bounds.last_seq) == (44, 46)
    assert [event.line.id for entry in entries for event in entry.events(SHARD)] == ["job-42", "job-43", "job-44"]
    assert bounds.bytes == sum(len(entry.lines) for entry in entries)


async def test_many_inboxes_are_numbered_in_a_few_rounds_each_in_its_own_order(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    queues = [Queue(f"mail-{number}") for number in range(60)]
    for queue in queues:
        await store.jobs.enqueue([new_job(queue, "send", fresh_id="first")])
    for number in range(45):  # more than the share of one among fifty
        await store.jobs.enqueue([new_job(queues[7], "send", fresh_id=f"job-{number:02}")])
    shards = [Shard(queue, 0) for queue in queues]

    found = await store.journal.all_bounds(shards)
    left = in_inboxes(url)
    entries = await store.journal.read(shards[7], 0, 99)
    again = await store.journal.all_bounds(shards)
    await store.close()

    assert left == 0
    assert [each.last_seq for each in found] == [46 if number == 7 else 1 for number in range(60)]
    ids = [event.line.id for entry in entries for event in entry.events(shards[7])]
    assert ids == ["first", *(f"job-{number:02}" for number in range(45))]
    assert again == found


async def test_the_bounds_of_many_journals_wait_only_for_the_one_that_is_being_numbered(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    queues = [Queue(f"mail-{number}") for number in range(3)]
    for queue in queues:
        await store.jobs.enqueue([new_job(queue, "send", fresh_id="first")])

    with psycopg.connect(postgres_server().url) as other:
        other.execute(f"SELECT FROM {schema_of(url)}.shard ORDER BY shard_id LIMIT 1 FOR UPDATE")
        looking = asyncio.create_task(store.journal.all_bounds([Shard(queue, 0) for queue in queues]))
        await asyncio.to_thread(wait_until, lambda: in_inboxes(url) == 1, "numbering the others")
        is_waiting = not looking.done()
    found = await looking
    await store.close()

    assert is_waiting
    assert [each.last_seq for each in found] == [1, 1, 1]
