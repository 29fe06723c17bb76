"""Settles the next job of a queue in a process of its own: `python -m tests.client.finish_job URL RESULT`."""

import asyncio
import sys

from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.open import open_store
from tests.client.worker_calls import work


async def main(url: str, result: str) -> None:
    """Do the work."""
    store = await open_store(url)
    try:
        await work(store, Queue("default"), Done(result.encode()))
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
