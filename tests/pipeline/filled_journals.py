"""Journals of a given length and pace."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

Story = Callable[[Store], Awaitable[None]]
T0 = 1_700_000_000_000
LATER = T0 + 100_000


def fill_store(url: str, *stories: Story) -> None:
    """Run scenarios in the store at `url`, one after the other."""

    async def run() -> None:
        store = await open_store(url)
        try:
            for story in stories:
                await story(store)
        finally:
            await store.close()

    asyncio.run(run())


def fill(queue: Queue, count: int, *, since: int = 0, every_ms: int = 1_000, prefix: str = "job") -> Story:
    """So many events, one at a time."""

    async def story(store: Store) -> None:
        for number in range(since, since + count):
            job = Job(queue=queue, id=f"{prefix}-{number}", kind="k")
            await store.jobs.enqueue([job], now_ms=T0 + number * every_ms)

    return story


def keep(shard: Shard, most: int) -> Story:
    """Let a journal keep so many entries, which adds one, and drop the others."""

    async def story(store: Store) -> None:
        await store.queues.configure(shard.queue, {"journal_keep_max": most}, now_ms=LATER)
        await store.journal.trim(shard, now_ms=LATER)

    return story


def delete(queue: Queue) -> Story:
    """Let a queue be gone, with all that is in it."""

    async def story(store: Store) -> None:
        await store.queues.purge(queue)
        while not await store.queues.delete(queue):
            pass

    return story
