"""Another event loop than asyncio's own: many web servers bring uvloop along."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from headrace.client.client import Client
from headrace.model.names import Queue
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker
from tests.support.stores import SHARED_URLS, STORES
from tests.worker.process_handlers import name

QUEUE = Queue("mail")


async def half(number: int) -> float:
    """On the loop."""
    return number / 2


def square(number: int) -> int:
    """In a thread."""
    return number * number


@pytest.mark.parametrize("store_name", ["sqlite", "redis", "postgres"])
def test_client_and_worker_live_on_uvloop_with_threads_and_processes(store_name: str, tmp_path: Path) -> None:
    async def story() -> list[object]:
        async with STORES[store_name](tmp_path):
            url = SHARED_URLS[store_name](tmp_path)
        store = await open_store(url)
        client = Client(store, queue=QUEUE.name)
        handlers = Handlers()
        handlers.register(handler_of("half", half), QUEUE)
        handlers.register(handler_of("square", square), QUEUE)
        handlers.register(handler_of("name", name, process=True), QUEUE)
        config = WorkerConfig(pool_size=1)
        async with asyncio.timeout(60), Worker(store, handlers, config, reopen=lambda: open_store(url)):
            sent = [await client.enqueue(kind, {"number": 8}) for kind in ("half", "square")]
            sent.append(await client.enqueue("name", {}, id="eight"))
            results: list[object] = [await handle.result(timeout=30) for handle in sent]
        await store.close()
        return results

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) == [4.0, 64, "eight"]
