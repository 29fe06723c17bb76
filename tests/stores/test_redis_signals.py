"""Waiters on a Redis store: woken at once, by one shared connection, and not lost with it."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from statistics import median

import pytest

from headrace.model.errors import StoreUnavailable
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.redis.acl import rules
from headrace.stores.redis.signals import POLL_SECONDS
from tests.support.redis_servers import RedisServer

MAIL = Queue("mail", "acme", 3)
DEAF = f"user deaf on >deaf {rules()} resetchannels"
"""A user who may do everything but listen; what it enqueues wakes nobody either."""


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    """A Redis on which connections are killed."""
    with RedisServer(users=[DEAF]) as server:
        yield server.launch()


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """The same, emptied."""
    shared.ask("FLUSHALL")
    return shared


def listeners(server: RedisServer) -> int:
    """How many connections listen."""
    return len(server.ask("CLIENT", "LIST", "TYPE", "pubsub").splitlines())


async def enqueue(store: Store, id: str) -> None:
    """One job that is due."""
    await store.jobs.enqueue([new_job(MAIL, "send", fresh_id=id)])


async def seen(condition: Callable[[], bool]) -> None:
    """Wait until the server shows it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 20
    while not await loop.run_in_executor(None, condition):
        assert loop.time() < end, "the server never showed it"


async def sleeping(store: Store, server: RedisServer) -> asyncio.Task[bool]:
    """A waiter whose wake-ups would arrive."""
    waiter = asyncio.create_task(store.signals.wait([MAIL], 60_000))
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == MAIL.shards)
    return waiter


async def test_a_waiter_is_woken_within_milliseconds(server: RedisServer) -> None:
    store = await open_store(server.url)
    other = await open_store(server.url)
    took_ms: list[float] = []

    for number in range(20):
        waiter = await sleeping(store, server)
        await enqueue(other, f"job-{number}")
        enqueued_at = time.perf_counter()
        assert await asyncio.wait_for(waiter, 10)
        took_ms.append((time.perf_counter() - enqueued_at) * 1000)
        await store.queues.purge(MAIL)

    await store.close()
    await other.close()
    assert median(took_ms) < 10, took_ms


async def test_all_waiters_share_one_connection_and_close_leaves_none(server: RedisServer) -> None:
    store = await open_store(server.url)
    waiters = [asyncio.create_task(store.signals.wait([MAIL], 60_000)) for _ in range(20)]
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == 3)

    while_waiting = listeners(server)
    await enqueue(store, "a")
    woken = await asyncio.wait_for(asyncio.gather(*waiters), 10)
    await store.close()

    assert while_waiting == 1
    assert woken == [True] * 20
    await seen(lambda: listeners(server) == 0)


async def test_a_lost_connection_is_made_again_and_the_waiter_is_woken(server: RedisServer) -> None:
    store = await open_store(server.url)
    waiter = await sleeping(store, server)

    server.ask("CLIENT", "KILL", "TYPE", "pubsub")
    await seen(lambda: not server.ask("PUBSUB", "SHARDCHANNELS"))
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == 3)
    was_asleep = not waiter.done()
    await enqueue(store, "a")

    assert was_asleep
    assert await asyncio.wait_for(waiter, 10)
    await store.close()


async def test_a_waiter_that_cannot_hear_looks_by_itself(server: RedisServer) -> None:
    store = await open_store(server.url_of("deaf", "deaf"))
    other = await open_store(server.url)
    waiter = asyncio.create_task(store.signals.wait([MAIL], 60_000))
    await asyncio.wait([waiter], timeout=0.1)
    assert not waiter.done()

    await enqueue(other, "a")

    assert await asyncio.wait_for(waiter, 10)
    await store.close()
    await other.close()


async def test_a_waiter_on_a_store_that_is_closed_is_told(server: RedisServer) -> None:
    store = await open_store(server.url)
    waiter = await sleeping(store, server)

    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(waiter, 10)


async def test_channels_are_listened_to_as_long_as_somebody_waits_on_them(server: RedisServer) -> None:
    store = await open_store(server.url)
    first, second = await sleeping(store, server), await sleeping(store, server)

    first.cancel()
    await asyncio.wait([first])
    with_one = len(server.ask("PUBSUB", "SHARDCHANNELS"))
    second.cancel()
    await asyncio.wait([second])
    await seen(lambda: not server.ask("PUBSUB", "SHARDCHANNELS"))

    third = await sleeping(store, server)
    await enqueue(store, "a")
    assert with_one == MAIL.shards
    assert await asyncio.wait_for(third, 10)
    await store.close()


async def test_waiters_that_come_and_go_at_once_do_not_deafen_each_other(server: RedisServer) -> None:
    store = await open_store(server.url)
    chance = random.Random(3)

    for _ in range(50):
        waiters = [asyncio.create_task(store.signals.wait([MAIL], 60_000)) for _ in range(6)]
        for waiter in waiters[1:]:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            waiter.cancel()
        await asyncio.wait(waiters[1:])
        last = await sleeping(store, server)
        await enqueue(store, "a")
        enqueued_at = time.perf_counter()
        assert list(await asyncio.gather(waiters[0], last)) == [True, True]
        assert time.perf_counter() - enqueued_at < POLL_SECONDS / 2, "found by looking, not by hearing"
        await store.queues.purge(MAIL)
    await store.close()
