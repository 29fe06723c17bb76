"""Pick-up on Redis: an idle worker claims in the callback of a hint, and loses no job by it."""

import asyncio
from contextvars import ContextVar

import pytest

from headrace import App
from headrace.stores.open import open_store
from headrace.worker.worker import Worker
from tests.support.proxy import Proxy
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import flush
from tests.support.servers import redis_server

BRAND = ContextVar("BRAND", default="none")
LONG = 20
"""Seconds, shorter than a lease: a job that came late by one was lost in between."""


@pytest.fixture
def server() -> RedisServer:
    """An empty server."""
    flush([redis_server()])
    return redis_server()


class Seen:
    """An app whose handler records its arguments, and lets a test wait for them."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.numbers: list[int] = []
        self.brands: list[str] = []
        self._changed = asyncio.Event()

        @self.app.job
        async def note(number: int) -> None:
            self.numbers.append(number)
            self.brands.append(BRAND.get())
            self._changed.set()

        self.note = note

    async def until(self, count: int) -> None:
        """Wait for so many calls."""
        async with asyncio.timeout(LONG):
            while len(self.numbers) < count:
                self._changed.clear()
                await self._changed.wait()


async def idle(worker: Worker) -> None:
    """The worker has settled all it did, and waits for a hint."""
    async with asyncio.timeout(LONG):
        while not worker.is_idle:  # noqa: ASYNC110 - a worker has no event for it
            await asyncio.sleep(0)


def looks(server: RedisServer) -> int:
    """The number of checks for work."""
    return int(server.ask("INFO", "commandstats").get("cmdstat_fcall_ro", {}).get("calls", 0))


async def test_an_idle_worker_waits_once_for_many_hints(server: RedisServer) -> None:
    seen = Seen(server.url)

    async with seen.app, seen.app.worker() as worker:
        await seen.note.enqueue(0)
        await seen.until(1)
        before = looks(server)
        for number in range(1, 101):
            await idle(worker)
            await seen.note.enqueue(number)
            await seen.until(number + 1)
        after = looks(server)

    assert seen.numbers == list(range(101))
    assert after - before < 50, "one a second, and none for a job"


async def test_a_claim_whose_answer_is_lost_is_repeated_and_its_job_runs_once(server: RedisServer) -> None:
    sender = Seen(server.url)

    async with Proxy(server.port) as proxy:
        seen = Seen(proxy.url)
        async with sender.app, seen.app, seen.app.worker() as worker:
            await sender.note.enqueue(0)
            await seen.until(1)
            await idle(worker)
            proxy.asked.clear()
            await sender.note.enqueue(1)
            await proxy.asked.wait()  # for the claim, which nothing but the hint has sent
            proxy.cut()
            await seen.until(2)

    assert seen.numbers == [0, 1]


async def test_a_handler_that_a_hint_has_started_sees_the_context_of_its_worker(server: RedisServer) -> None:
    seen = Seen(server.url)
    store = await open_store(server.url)  # and its connection, before there is a worker

    with seen.app.using(store):
        await seen.note.enqueue(0)
        BRAND.set("the worker's")
        async with seen.app.worker() as worker:
            await seen.until(1)
            for number in range(1, 10):
                await idle(worker)
                await seen.note.enqueue(number)
                await seen.until(number + 1)
    await store.close()

    assert seen.brands == ["the worker's"] * 10


async def test_a_job_that_comes_while_its_worker_ends_is_done_or_waits(server: RedisServer) -> None:
    seen, sent = Seen(server.url), 0

    async with seen.app:
        for _ in range(20):
            async with seen.app.worker():
                await seen.note.enqueue(sent)
                await seen.until(sent + 1)
                last = asyncio.create_task(seen.note.enqueue(sent + 1))
                await asyncio.sleep(0)
            await last
            sent += 2
            async with seen.app.worker():
                await seen.until(sent)

    assert sorted(seen.numbers) == list(range(40))
