"""Waiters on a Redis store: woken at once by one shared connection, and not lost with it."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from statistics import median
from urllib.parse import urlsplit

import pytest

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.errors import StoreUnavailable
from headrace.model.job import new_job
from headrace.model.limits import QUEUES_PER_CLAIM_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Released
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.redis.connections.pubsub import LINGERING_MAX
from headrace.stores.redis.durability import rules
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.signals import POLL_SECONDS, RedisSignals
from headrace.stores.redis.store import RedisStore
from headrace.stores.redis.url import options_of
from tests.support.redis_servers import RedisServer

MAIL = Queue("mail", "acme", 3)
DEAF = f"user deaf on >deaf {rules()} resetchannels"
"""A user with all rights except for subscribing and publishing."""


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
    """The number of connections that listen."""
    return len(server.ask("CLIENT", "LIST", "TYPE", "pubsub").splitlines())


def calls(server: RedisServer, verb: str) -> int:
    """The number of calls of a command since the last reset of statistics."""
    return int(server.ask("INFO", "commandstats").get(f"cmdstat_{verb}", {"calls": 0})["calls"])


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


async def test_a_waiter_fails_when_its_store_is_closed(server: RedisServer) -> None:
    store = await open_store(server.url)
    waiter = await sleeping(store, server)

    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(waiter, 10)


async def lingering(server: RedisServer, seconds: float) -> RedisStore:
    """A store that stays subscribed for this long without waiters."""
    store = await RedisStore.open(options_of(urlsplit(server.url), {}))
    store.signals = RedisSignals(store._client, linger_seconds=seconds)
    return store


async def test_a_channel_is_subscribed_as_long_as_it_has_a_waiter(server: RedisServer) -> None:
    store = await lingering(server, 0)
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


async def test_a_worker_that_waits_again_and_again_subscribes_once(server: RedisServer) -> None:
    store = await open_store(server.url)
    server.ask("CONFIG", "RESETSTAT")

    for number in range(5):
        assert not await store.signals.wait([MAIL], 1)
        waiter = await sleeping(store, server)
        await enqueue(store, f"job-{number}")
        assert await asyncio.wait_for(waiter, 10)
        await store.queues.purge(MAIL)

    asked = {verb: calls(server, verb) for verb in ("ssubscribe", "sunsubscribe")}
    await store.close()
    assert asked == {"ssubscribe": MAIL.shards, "sunsubscribe": 0}


async def test_a_channel_without_waiters_is_unsubscribed_after_a_while(server: RedisServer) -> None:
    store = await lingering(server, 0.05)

    assert not await store.signals.wait([MAIL], 1)
    waiter = await sleeping(store, server)
    waiter.cancel()
    await asyncio.wait([waiter])

    await seen(lambda: not server.ask("PUBSUB", "SHARDCHANNELS"))
    await store.close()


async def test_channels_without_waiters_are_bounded_in_number(server: RedisServer) -> None:
    store = await open_store(server.url)
    per_wait = LINGERING_MAX // 5 // MAIL.shards
    queues = [Queue(f"mail-{number}", "acme", MAIL.shards) for number in range(6 * per_wait)]
    waits = [queues[first : first + QUEUES_PER_CLAIM_MAX] for first in range(0, len(queues), QUEUES_PER_CLAIM_MAX)]

    for each in waits:
        assert not await store.signals.wait(each, 1)

    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == LINGERING_MAX)
    await store.close()


async def claimed(store: Store, *ids: str) -> dict[str, Claim]:
    """These jobs, active."""
    for id in ids:
        await enqueue(store, id)
    request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce="nonce-of-mine", limit=len(ids))
    return {claim.lease.id: claim for claim in (await store.jobs.claim(request)).items}


async def test_all_waiters_for_ends_share_one_connection_and_the_channels_of_their_shards(server: RedisServer) -> None:
    store = await open_store(server.url)
    ids = [f"job-{number}" for number in range(20)]
    claims = await claimed(store, *ids)
    shards = {MAIL.index_of(id) for id in ids}
    waiters = [asyncio.create_task(store.signals.ended(MAIL, [id], 60_000)) for id in ids]
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == len(shards))

    while_waiting = listeners(server)
    await store.jobs.settle([claim.settle(Done()) for claim in claims.values()])
    woken = await asyncio.wait_for(asyncio.gather(*waiters), 10)
    await store.close()

    assert while_waiting == 1
    assert woken == [True] * 20
    await seen(lambda: listeners(server) == 0)


async def test_ends_are_published_only_while_a_waiter_exists(server: RedisServer) -> None:
    """Ends without waiters cost nothing: no message, and no look at the clock once the last waiter has gone."""
    store = await open_store(server.url)
    claims = await claimed(store, "a", "b", "c")
    head = head_key(MAIL.shard_of("b"))
    server.ask("CONFIG", "RESETSTAT")

    await store.jobs.settle([claims["a"].settle(Done())])
    published_before = calls(server, "spublish")
    assert not await store.signals.ended(MAIL, ["b"], 1)
    published_until_ms = int(server.ask("HGET", head, "awaited"))
    server.ask("HSET", head, "awaited", 1)
    await store.jobs.settle([claims["b"].settle(Done())])
    await store.close()

    assert (published_before, calls(server, "spublish")) == (0, 0)
    assert published_until_ms > SystemClock().now_ms()
    assert server.ask("HEXISTS", head, "awaited") == 0


async def test_a_lost_connection_is_opened_again_and_waiters_for_an_end_are_woken(server: RedisServer) -> None:
    store = await open_store(server.url)
    claims = await claimed(store, "a")
    waiter = asyncio.create_task(store.signals.ended(MAIL, ["a"], 60_000))
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == 1)

    server.ask("CLIENT", "KILL", "TYPE", "pubsub")
    await seen(lambda: not server.ask("PUBSUB", "SHARDCHANNELS"))
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == 1)
    was_asleep = not waiter.done()
    await store.jobs.settle([claims["a"].settle(Done())])

    assert was_asleep
    assert await asyncio.wait_for(waiter, 10)
    await store.close()


async def test_a_user_without_the_right_to_publish_changes_jobs_and_wakes_no_waiter(server: RedisServer) -> None:
    """A hint that is not let through must not break a call half-way."""
    store = await open_store(server.url_of("deaf", "deaf"))
    other = await open_store(server.url)
    claims = await claimed(store, "a", "b")
    waiter = asyncio.create_task(other.signals.ended(MAIL, ["a"], 60_000))
    await seen(lambda: len(server.ask("PUBSUB", "SHARDCHANNELS")) == 1)

    settled = await store.jobs.settle([claims["a"].settle(Done()), claims["b"].settle(Released())])

    counts = await store.queues.counts(MAIL)
    assert [answer.status for answer in settled] == ["done", "released"]
    assert (counts.done, counts.waiting, counts.active) == (1, 1, 0)
    assert await asyncio.wait_for(waiter, 10)
    await store.close()
    await other.close()


async def test_waiters_that_come_and_go_at_once_do_not_deafen_each_other(server: RedisServer) -> None:
    store = await open_store(server.url)
    rng = random.Random(3)

    for _ in range(50):
        waiters = [asyncio.create_task(store.signals.wait([MAIL], 60_000)) for _ in range(6)]
        for waiter in waiters[1:]:
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            waiter.cancel()
        await asyncio.wait(waiters[1:])
        last = await sleeping(store, server)
        await enqueue(store, "a")
        enqueued_at = time.perf_counter()
        assert list(await asyncio.gather(waiters[0], last)) == [True, True]
        assert time.perf_counter() - enqueued_at < POLL_SECONDS / 2, "found by a poll, not by a message"
        await store.queues.purge(MAIL)
    await store.close()
