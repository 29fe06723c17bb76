"""Wake-ups on PostgreSQL: between processes, within a schema, and after a lost listener."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.job import Job, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.notify import POLL_SECONDS
from headrace.stores.postgres.store import PostgresStore
from tests.support.schemas import new_schema, schema_of
from tests.support.servers import postgres_server

QUEUE = Queue("mail")
LONG_MS = 60_000
LISTENERS = "FROM pg_stat_activity WHERE query = 'LISTEN \"headrace_{}\"'"


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of the test's own."""
    with new_schema() as url:
        yield url


def job(id: str) -> Job:
    """A job with this id."""
    return new_job(QUEUE, "send", fresh_id=id)


@contextmanager
def one_free_descriptor() -> Iterator[None]:
    """One more file can be opened in this process inside: enough for a socket, and not for a connection over it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as lowest:
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def listening(store: PostgresStore, url: str) -> asyncio.Task[bool]:
    """A waiter that sleeps while the store listens."""
    asleep = store.signals.asleep
    waiter = asyncio.create_task(store.signals.wait([QUEUE], LONG_MS))
    while not count_listeners(url) or store.signals.asleep <= asleep:
        if waiter.done():  # the listener has just connected, which wakes waiters
            waiter = asyncio.create_task(store.signals.wait([QUEUE], LONG_MS))
        await store.reads.find(QUEUE, ["nobody"])
    return waiter


def count_listeners(url: str) -> int:
    """How many connections listen for this schema."""
    [(count,)] = postgres_server().ask(f"SELECT count(*) {LISTENERS.format(schema_of(url))}")
    return int(count)


async def test_a_waiter_hears_what_another_process_enqueues(url: str) -> None:
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    waiter = await listening(mine, url)

    await other.jobs.enqueue([job("a")])

    assert await asyncio.wait_for(waiter, POLL_SECONDS / 2)
    await mine.close()
    await other.close()


async def test_a_process_that_enqueues_and_ends_at_once_is_heard(url: str) -> None:
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    waiter = await listening(mine, url)

    await other.jobs.enqueue([job("a")])
    await other.close()

    assert await asyncio.wait_for(waiter, POLL_SECONDS / 2)
    await mine.close()


async def test_a_listener_that_could_not_connect_for_want_of_descriptors_comes_and_hears(url: str) -> None:
    """TB6: until then a waiter polls."""
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    await mine.queues.counts(QUEUE)
    with one_free_descriptor():
        found = await asyncio.wait_for(mine.signals.wait([QUEUE], 100), LONG_MS / 1000)

    waiter = await listening(mine, url)
    await other.jobs.enqueue([job("a")])

    assert not found
    assert await asyncio.wait_for(waiter, POLL_SECONDS / 2)
    await mine.close()
    await other.close()


async def test_a_lost_listener_comes_back_and_hears_again(url: str) -> None:
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    first = await listening(mine, url)
    postgres_server().ask(f"SELECT pg_terminate_backend(pid) {LISTENERS.format(schema_of(url))}")

    hint = await asyncio.wait_for(first, LONG_MS / 2_000)
    second = await listening(mine, url)
    await other.jobs.enqueue([job("a")])

    assert hint, "a waiter polls again, since notifications may be lost meanwhile"
    assert await asyncio.wait_for(second, LONG_MS / 2_000)
    await mine.close()
    await other.close()


async def test_one_connection_listens_for_all_waiters_and_goes_with_the_store(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    waiters = [await listening(store, url) for _ in range(5)]
    listeners = count_listeners(url)

    await store.jobs.enqueue([job("a")])
    woken = await asyncio.gather(*waiters)
    await store.close()

    assert (listeners, woken) == (1, [True] * 5)
    assert len(store.signals) == 0


async def claimed(store: PostgresStore, *ids: str) -> dict[str, Claim]:
    """These jobs, active."""
    await store.jobs.enqueue([job(id) for id in ids])
    request = ClaimRequest(queues=[QUEUE], worker="worker-1", nonce="nonce-of-mine", limit=len(ids))
    return {claim.lease.id: claim for claim in (await store.jobs.claim(request)).items}


async def awaited(store: PostgresStore, id: str) -> asyncio.Task[bool]:
    """A waiter for an end that is announced already; it polls again only after `POLL_SECONDS`."""
    for _ in range(2):  # the first time looks again soon
        assert not await store.signals.ended(QUEUE, [id], 1)
    waiter = asyncio.create_task(store.signals.ended(QUEUE, [id], LONG_MS))
    while not len(store.signals):
        await store.reads.find(QUEUE, ["nobody"])
    await store.reads.find(QUEUE, ["nobody"])
    return waiter


async def test_the_ends_of_a_whole_batch_are_heard_however_long_its_ids_are(url: str) -> None:
    """One NOTIFY takes less than 8,000 bytes."""
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    ids = [f"{number:04}" + "é/" * 120 for number in range(200)]
    claims = await claimed(other, *ids)
    waiters = [await awaited(mine, id) for id in (ids[0], ids[99], ids[-1])]

    await other.jobs.settle([claim.settle(Done()) for claim in claims.values()])

    assert await asyncio.wait_for(asyncio.gather(*waiters), POLL_SECONDS / 2) == [True] * 3
    await mine.close()
    await other.close()


def queue_row(url: str) -> list[tuple[object, ...]]:
    """The last transaction that wrote the row of the queue, and until when its waiters are announced."""
    return postgres_server().ask(f"SELECT xmin::text, awaited_until_ms FROM {schema_of(url)}.queue")  # noqa: S608 - ours


async def test_many_waiters_for_ends_write_once(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    ids = [f"job-{number}" for number in range(100)]
    await claimed(store, *ids)
    before = queue_row(url)

    timed_out = await asyncio.gather(*[store.signals.ended(QUEUE, [id], 1) for id in ids])
    written = queue_row(url)
    again = await asyncio.gather(*[store.signals.ended(QUEUE, [id], 1) for id in ids])

    assert not any([*timed_out, *again])
    assert written != before
    assert queue_row(url) == written
    await store.close()


async def test_ends_are_notified_only_while_a_process_waits_for_one(url: str) -> None:
    """Without waiters there is no NOTIFY: commits that notify wait for each other."""
    mine, other = [await PostgresStore.open(settings_of(url)) for _ in range(2)]
    claims = await claimed(other, "a", "b", "c")
    while other.signals._sending is not None:
        await other.reads.find(QUEUE, ["nobody"])

    await other.jobs.settle([claims["a"].settle(Done())])
    without_waiter = other.signals._sending is None
    waiter = await awaited(mine, "c")
    await other.jobs.settle([claims["b"].settle(Done())])
    with_waiter = other.signals._sending is not None

    assert (without_waiter, with_waiter) == (True, True)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await mine.close()
    await other.close()


async def test_other_schemas_are_not_heard(url: str) -> None:
    with new_schema() as other_url:
        mine, other = [await PostgresStore.open(settings_of(each)) for each in (url, other_url)]
        waiter = await listening(mine, url)

        await other.jobs.enqueue([job("a")])
        await mine.reads.find(QUEUE, ["nobody"])

        assert not waiter.done()
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        await mine.close()
        await other.close()
