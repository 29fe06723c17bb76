"""What the data source is measured on: a long journal, and many short ones, each under a tenant of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from benchmarks.load import QUEUE, claim_of, ids_of, jobs_with
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

T = TypeVar("T")
LIFE = 3
"""Events of a job that is enqueued, claimed and done."""
BATCH = 200
"""Jobs a call: its events share an entry of the journal."""
EVENTS_PER_QUEUE = 20
MANY = "many"
"""The tenant of the many queues."""
JOURNAL_BYTES_MAX = 1 << 40
"""Nothing is dropped while it is measured."""


def on_store(url: str, act: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store at `url`, opened for it alone."""

    async def run() -> T:
        store = await open_store(url)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def fill_journal(store: Store, events: int) -> int:
    """Let jobs live until one journal holds about so many events; says how many it does."""
    await store.queues.configure(QUEUE, {"journal_bytes_max": JOURNAL_BYTES_MAX})
    for number, ids in enumerate(ids_of(max(events // LIFE, 1), BATCH, 1)):
        await store.jobs.enqueue(jobs_with(ids))
        claims = (await store.jobs.claim(claim_of(f"fill-{number:08}", len(ids)))).items
        await store.jobs.settle([claim.settle(Done(), 5) for claim in claims])
    bounds = await store.journal.bounds(QUEUE.all_shards()[0])
    return bounds.last_seq - bounds.first_seq + 1


async def fill_queues(store: Store, queues: int) -> int:
    """Make queues with a few events each; says how many events there are."""
    for start in range(0, queues, 50):
        names = [Queue(f"queue-{number:04}", MANY) for number in range(start, min(start + 50, queues))]
        await store.jobs.enqueue(
            [Job(queue=name, id=f"job-{each}", kind="send") for name in names for each in range(EVENTS_PER_QUEUE)]
        )
    return queues * EVENTS_PER_QUEUE
