"""The cost of lists on a Redis server: calls in proportion to the jobs, each of them short."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from headrace.model.job import State
from headrace.model.limits import PAYLOAD_BYTES_MAX, SCAN_PART_BYTES
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.redis import reads
from tests.support.play import Play
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server


@pytest.fixture
def server() -> RedisServer:
    """An empty server that tests may look into."""
    flush([redis_server()])
    return redis_server()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url)
    yield store
    await store.close()


@pytest.fixture
def store(server: RedisServer, runner: asyncio.Runner) -> Iterator[Store]:
    """A store on it."""
    opening = opened(server.url_of(USER, PASSWORD))
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


async def fill(play: Play, count: int, payload: bytes = b"1") -> list[str]:
    """Let this many jobs wait in an empty queue; returns their ids in order."""
    ids = [f"job-{number * 7_919 % count:06}" for number in range(count)]
    for start in range(0, count, 1_000):
        await play.enqueue_all(*[play.job(id, payload=payload) for id in ids[start : start + 1_000]])
    return sorted(ids)


async def pages(play: Play, limit: int) -> AsyncIterator[list[str]]:
    """The ids of all waiting jobs, page by page."""
    cursor: str | None = None
    while True:
        page = await play.store.reads.list(play.queue, State.WAITING, cursor=cursor, limit=limit, now_ms=play.now_ms)
        yield [each.id for each in page.rows]
        if (cursor := page.cursor) is None:
            return


async def walked(play: Play, limit: int) -> list[str]:
    """The ids of all waiting jobs, as a list shows them."""
    return [id async for page in pages(play, limit) for id in page]


def function_calls(server: RedisServer) -> int:
    """How many functions were called since the count was last set to zero."""
    stats = server.ask("INFO", "commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("fcall", "fcall_ro"))


async def calls_of_a_walk(server: RedisServer, store: Store, count: int, limit: int) -> int:
    """How many functions a walk through the waiting jobs of a new queue calls."""
    play = Play(store, name=f"walk-{count}")
    ids = await fill(play, count)
    server.ask("CONFIG", "RESETSTAT")
    assert await walked(play, limit) == ids
    return function_calls(server)


async def test_the_calls_of_a_walk_grow_with_the_jobs_and_not_with_their_square(
    server: RedisServer, store: Store
) -> None:
    few = await calls_of_a_walk(server, store, 3_000, 100)
    many = await calls_of_a_walk(server, store, 12_000, 100)

    assert many <= 5 * few
    assert many <= 12_000 / 100 + 4 * 12_000 / 1_000


async def test_a_short_page_and_the_look_at_what_follows_are_one_scan(server: RedisServer, store: Store) -> None:
    play = Play(store)
    await fill(play, 5_000)
    server.ask("CONFIG", "RESETSTAT")

    page = await store.reads.list(play.queue, State.WAITING, limit=20, now_ms=play.now_ms)
    first = function_calls(server)
    await store.reads.list(play.queue, State.WAITING, cursor=page.cursor, limit=1, now_ms=play.now_ms)

    assert function_calls(server) == first + 1


async def test_no_call_of_a_list_looks_at_many_bytes(server: RedisServer, store: Store) -> None:
    """A call's bytes are in the server's memory, and block all other clients meanwhile."""
    play = Play(store)
    count = 5 * SCAN_PART_BYTES // PAYLOAD_BYTES_MAX
    ids = [f"job-{number:03}" for number in range(count)]
    for id in ids:
        await play.enqueue(id, payload=b"x" * PAYLOAD_BYTES_MAX)
    server.ask("CONFIG", "RESETSTAT")

    listed = await walked(play, 1_000)

    assert listed == ids
    assert 4 <= function_calls(server) - 1 <= 8


async def test_walks_that_keep_too_much_together_are_still_exact(
    server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "LIST_IDS_KEPT_MAX", 1_500)
    play = Play(store, 3)
    ids = sorted(await fill(play, 5_000), key=lambda id: (play.queue.index_of(id), id))

    found = await asyncio.gather(*[walked(play, limit) for limit in (90, 700, 1_000)])

    assert found == [ids] * 3
