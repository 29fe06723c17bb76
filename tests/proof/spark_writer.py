"""Keeps a store busy: jobs of several tenants and queues are enqueued, run and end, day after day."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome, Retried
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

QUEUES = (Queue("mail", shards=2), Queue("2024", "acme"), Queue("news", "acme", shards=3), Queue("mail", "birch"))
"""Two tenants share a queue's name, and one name looks like a number."""
BEGUN_AT_MS = 1_700_000_000_000
ROUND_MS = 40 * 60 * 1000
"""Of the store's time: a day ends every 36 rounds, so that most batches hold more than one."""
PAUSE_S = 0.2


class Writer:
    """Writes rounds of events, each a little later than the one before."""

    def __init__(self, store: Store, first_round: int = 0) -> None:
        self._store = store
        self._random = Random(7)
        self._rounds = itertools.count(first_round)
        self.is_writing = asyncio.Event()

    async def begin(self) -> None:
        """Make the queues."""
        for queue in QUEUES:
            await self._store.queues.configure(queue, {"journal_keep_ms": DURATION_MS_MAX}, now_ms=BEGUN_AT_MS)

    async def write(self, rounds: int) -> None:
        """So many rounds, one after the other."""
        for number in itertools.islice(self._rounds, rounds):
            await self._round(number, BEGUN_AT_MS + number * ROUND_MS)

    async def write_on(self) -> None:
        """Rounds at a steady pace while `is_writing` is set, until cancelled."""
        while True:
            await self.is_writing.wait()
            await self.write(1)
            await asyncio.sleep(PAUSE_S)

    async def _round(self, number: int, now_ms: int) -> None:
        jobs = [
            Job(queue=queue, id=f"{number}-{at}", kind=self._random.choice(("send", "sift")), payload=b'{"n":1}')
            for queue in QUEUES
            for at in range(self._random.randint(1, 8))
        ]
        await self._store.jobs.enqueue(jobs, now_ms=now_ms)
        request = ClaimRequest(queues=QUEUES, worker="w", nonce=f"nonce-{number:08}", limit=20, lease_ms=60_000)
        claims = (await self._store.jobs.claim(request, now_ms=now_ms + 1)).items
        ended = [claim.settle(self._outcome(), 5) for claim in claims]
        if ended:
            await self._store.jobs.settle(ended, now_ms=now_ms + 20)

    def _outcome(self) -> Outcome:
        error = JobError.of("Odd", 'a "message"\n😀')
        outcomes: list[Outcome] = [Done(b"1"), Done(), Done(), Retried(error), Failed(error)]
        return self._random.choice(outcomes)


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[Writer]:
    """A writer on the store at `url`, which works beside the block."""
    store = await open_store(url)
    writer = Writer(store)
    await writer.begin()
    task = asyncio.create_task(writer.write_on())
    try:
        yield writer
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        await store.close()
    assert isinstance(ended, asyncio.CancelledError), ended
