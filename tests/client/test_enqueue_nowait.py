"""Single jobs on Redis are written to the connection at once; each sender gets its answer or an unknown outcome."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.client.client import Client
from headrace.model.claim import ClaimRequest
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.names import Queue
from headrace.stores.open import open_store
from tests.support.proxy import Proxy
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import redis_server

QUEUE = Queue("default")


@pytest.fixture
def server() -> RedisServer:
    """An empty server."""
    flush([redis_server()])
    return redis_server()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A client that has sent a job, so that its connection is open and its queue is there."""
    store = await open_store(url)
    client = Client(store)
    await client.enqueue("send", id="first")
    try:
        yield client
    finally:
        await store.close()


async def waiting(server: RedisServer) -> list[str]:
    """The ids that wait, in their order, as another client sees them."""
    store = await open_store(server.url)
    request = ClaimRequest(queues=[QUEUE], worker="w", nonce="a-nonce-1", limit=1_000, lease_ms=1_000)
    claims = await store.jobs.claim(request)
    await store.close()
    return [claim.record.id for claim in claims.items]


async def test_a_single_job_is_sent_at_once(server: RedisServer) -> None:
    async with connected(server.url) as client:
        sending = asyncio.create_task(client.enqueue("send", id="lone"))
        await asyncio.sleep(0)  # the sender's first step, and nothing of the loop's
        sending.cancel()
        await asyncio.wait([sending])

    assert sending.cancelled()
    assert await waiting(server) == ["first", "lone"]


async def test_a_cancelled_single_sender_cancels_no_job_of_another(server: RedisServer) -> None:
    async with Proxy(server.port) as proxy, connected(proxy.url) as client:
        lone = asyncio.create_task(client.enqueue("send", id="lone"))
        others = [asyncio.create_task(client.enqueue("send", id=f"other {number}")) for number in range(5)]
        await asyncio.sleep(0)
        lone.cancel()
        handles = await asyncio.gather(*others)
        await client.enqueue("send", id="last")

    assert lone.cancelled()
    assert [handle.id for handle in handles] == [f"other {number}" for number in range(5)]
    assert await waiting(server) == ["first", "lone", *(f"other {number}" for number in range(5)), "last"]


async def test_jobs_of_one_sender_keep_their_order_beside_those_of_many(server: RedisServer) -> None:
    async with connected(server.url) as client:

        async def send(sender: int) -> None:
            for number in range(10):
                await client.enqueue("send", id=f"{sender} {number}")

        await asyncio.gather(*(send(sender) for sender in range(60)))
    there = await waiting(server)

    assert len(there) == 601
    for sender in range(60):
        its = [id for id in there if id.startswith(f"{sender} ")]
        assert its == [f"{sender} {number}" for number in range(10)]


async def test_a_lost_reply_of_a_single_job_is_an_unknown_outcome_and_not_sent_again(server: RedisServer) -> None:
    async with Proxy(server.port) as proxy, connected(proxy.url) as client:
        proxy.cuts_on_reply = True
        with pytest.raises(OutcomeUnknown) as lost:
            await client.enqueue("send", id="lone")
        proxy.cuts_on_reply = False
        after = await client.enqueue("send", id="lone")

    assert lost.value.unknown == ("lone",)
    assert after.status == "updated", "it was there"


async def test_a_reply_that_does_not_come_in_time_is_an_unknown_outcome(
    server: RedisServer,
) -> None:
    async with Proxy(server.port) as proxy, connected(f"{proxy.url}?reply_ms=100&connections=1") as client:
        proxy.loses_replies = True
        with pytest.raises(OutcomeUnknown, match="100 ms") as lost:
            await client.enqueue("send", id="lone")
        proxy.loses_replies = False
        after = await client.enqueue("send", id="next")

    assert lost.value.unknown == ("lone",)
    assert after.status == "created"


async def test_closing_the_store_during_an_enqueue_is_an_unknown_outcome(
    server: RedisServer,
) -> None:
    async with Proxy(server.port) as proxy, connected(proxy.url) as client:
        proxy.loses_replies = True
        proxy.asked.clear()
        sending = asyncio.create_task(client.enqueue("send", id="lone"))
        await proxy.asked.wait()
        await client.store.close()
        with pytest.raises(OutcomeUnknown) as lost:
            await sending
        with pytest.raises(StoreUnavailable, match="closed"):
            await client.enqueue("send", id="late")

    assert lost.value.unknown == ("lone",)
    assert await waiting(server) == ["first", "lone"]


async def test_a_single_job_creates_its_queue_and_loads_the_functions(server: RedisServer) -> None:
    async with connected(server.url) as client:
        server.ask("FLUSHALL")
        server.ask("FUNCTION", "FLUSH")
        handle = await client.enqueue("send", id="lone")

    assert handle.status == "created"
    assert await waiting(server) == ["lone"]


async def test_a_single_job_uses_another_connection_when_its_own_was_closed(server: RedisServer) -> None:
    async with connected(server.url) as client:
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # without a turn of the loop
        handle = await client.enqueue("send", id="lone")

    assert handle.status == "created"


async def test_a_single_job_may_be_refused(server: RedisServer) -> None:
    async with connected(server.url) as client:
        await client.enqueue("send", 1, idempotency_key="k")
        with pytest.raises(Refused) as refused:
            await client.enqueue("send", 2, idempotency_key="k")
        with pytest.raises(Refused) as wrong:
            await client.enqueue("send", queue=Queue("default", shards=3))

    assert (refused.value.reason, wrong.value.reason) == ("conflict", "wrong_shards")
