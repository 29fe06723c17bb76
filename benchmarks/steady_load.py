"""A store at work, as a process of its own: jobs of several tenants and queues come, run and end at a steady pace.

python -m benchmarks.steady_load URL EVENTS_PER_SECOND

Works until its input ends. Besides, it enqueues a job of a tenant of its own every half second, and writes a line with
the milliseconds until the statistics in that tenant's feed count it.
"""

import asyncio
import sys
import time
from random import Random

from msgspec import Struct

from headrace.feeds.feeds import Feeds
from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome, Retried
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

TENANTS = ("acme", "birch", "cedar")
QUEUES = {
    tenant: [Queue("mail", tenant, 2), Queue("images", tenant, 2), Queue("reports", tenant)] for tenant in TENANTS
}
KINDS = ("send", "resize", "render", "count")
PROBE = Queue("probe", "probe")
PROBE_S = 0.5
TICK_S = 0.1
LIFE = 3
"""Events of a job that is enqueued, claimed and done."""
PAYLOAD = b'{"user_id":42,"text":"' + b"x" * 75 + b'"}'


class Load(Struct):
    """Keeps the number of events at what it should be by now."""

    store: Store
    rate: int
    random: Random
    events: int = 0
    jobs: int = 0

    async def produce(self) -> None:
        """Enqueue as many jobs as are missing, a batch for each tick."""
        begun = time.monotonic()
        while True:
            missing = int((time.monotonic() - begun) * self.rate) - self.events
            jobs = [self._job() for _ in range(min(max(missing, 0) // LIFE, 1_000))]
            if jobs:
                # Counted whole at once: their deliveries come soon.
                self.events += len(jobs) * LIFE
                await self.store.jobs.enqueue(jobs)
            await asyncio.sleep(TICK_S)

    async def work(self, tenant: str, worker: str) -> None:
        """Claim what is due, hold it for a while, and settle it."""
        turn = 0
        while True:
            turn += 1
            nonce = f"{worker}-{turn:010}"
            request = ClaimRequest(queues=QUEUES[tenant], worker=worker, nonce=nonce, limit=200, lease_ms=60_000)
            claims = (await self.store.jobs.claim(request)).items
            hold_s = self.random.uniform(0.02, 0.2)
            await asyncio.sleep(hold_s)
            ended = [claim.settle(self._outcome(), int(hold_s * 1000)) for claim in claims]
            if ended:
                # A retried job is claimed and settled once more.
                self.events += 2 * sum(isinstance(each.outcome, Retried) for each in ended)
                await self.store.jobs.settle(ended)

    def _job(self) -> Job:
        self.jobs += 1
        queue = self.random.choice(QUEUES[self.random.choice(TENANTS)])
        return Job(queue=queue, id=f"job-{self.jobs}", kind=self.random.choice(KINDS), payload=PAYLOAD)

    def _outcome(self) -> Outcome:
        drawn = self.random.random()
        error = JobError.of("Timeout", f"no answer from 10.0.0.{self.random.randrange(250)}:443 after 30 s")
        return Done() if drawn < 0.9 else Retried(error) if drawn < 0.98 else Failed(error)


class Probe:
    """Measures how long it takes until an event is counted in a feed of statistics."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sent: list[float] = []
        self._counted: dict[str, int] = {}
        self._seen = 0

    async def send(self) -> None:
        """A job every half second."""
        while True:
            self._sent.append(time.monotonic())
            await self._store.jobs.enqueue([Job(queue=PROBE, id=f"probe-{len(self._sent)}", kind="probe")])
            await asyncio.sleep(PROBE_S)

    async def watch(self) -> None:
        """A line for each job when the windows of the feed have counted it."""
        feed = await Feeds(self._store, tenant=PROBE.tenant).feed("stats")
        async for change in feed.subscribe():
            if change.event not in ("present", "published", "edited"):
                continue
            self._counted[change.item["window_start"]] = change.item["enqueued"]
            now = time.monotonic()
            counted = sum(self._counted.values())
            for sent in self._sent[self._seen : counted]:
                print(f"{(now - sent) * 1000:.0f}", flush=True)
            self._seen = max(self._seen, counted)


async def main() -> None:
    """Until the input ends."""
    url, rate = sys.argv[1], int(sys.argv[2])
    store, other = await open_store(url), await open_store(url)
    load, probe = Load(store, rate, Random(11)), Probe(other)
    tasks = [load.produce(), *(load.work(tenant, f"{tenant}-{n}") for tenant in TENANTS for n in (1, 2))]
    running = [asyncio.create_task(each) for each in (*tasks, probe.send(), probe.watch())]
    finished_job = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    done, _ = await asyncio.wait([finished_job, *running], return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await store.close()
    await other.close()
    for each in done:  # one that ended by itself has failed
        each.result()


if __name__ == "__main__":
    asyncio.run(main())
