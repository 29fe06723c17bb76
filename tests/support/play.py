"""A store with a manual clock, and short calls for tests of jobs."""

from itertools import count, islice
from typing import Any

from msgspec.structs import replace

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease
from headrace.model.event import Event
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import Job, Record, State, new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome
from headrace.model.policy import QueueConfig
from headrace.model.results import Cancellation, Counts, Enqueued, Extended, Found, Removed, Repaired, Replayed, Settled
from headrace.stores.contract.store import Store

BOOM = JobError("Boom", "it broke")
START_MS = 1_700_000_000_000


class Play:
    """One queue of one tenant, a worker, and a clock that only `advance` moves."""

    def __init__(self, store: Store, shards: int = 1, *, name: str = "mail", tenant: str = "acme") -> None:
        self.store = store
        self.queue = Queue(name, tenant, shards)
        self.now_ms = START_MS
        self._nonces = (f"nonce-{number:06}" for number in count(1))
        self._fresh = (f"fresh-{number:06}" for number in count(1))

    def advance(self, ms: int) -> int:
        """Move the clock."""
        self.now_ms += ms
        return self.now_ms

    def nonce(self) -> str:
        """A nonce that was not used before."""
        return next(self._nonces)

    def ids(self, number: int, prefix: str = "job") -> list[str]:
        """Ids in ascending order that all belong to one shard, so that order among them is promised."""
        candidates = (f"{prefix}-{each:05}" for each in count())
        wanted = self.queue.index_of(f"{prefix}-00000")
        return list(islice((id for id in candidates if self.queue.index_of(id) == wanted), number))

    def job(self, id: str | None = None, **options: Any) -> Job:
        """A job of the play's queue; `kind` and `payload` have defaults."""
        options = {"kind": "send", "payload": b'{"n":1}', "queue": self.queue, **options}
        queue, kind, payload = (options.pop(field) for field in ("queue", "kind", "payload"))
        return new_job(queue, kind, payload, fresh_id=next(self._fresh), id=id, **options)

    async def enqueue(self, id: str | None = None, **options: Any) -> Enqueued:
        """Enqueue one job now."""
        [answer] = await self.store.jobs.enqueue([self.job(id, **options)], now_ms=self.now_ms)
        return answer

    async def enqueue_all(self, *jobs: Job) -> list[Enqueued]:
        """Enqueue a batch now."""
        return await self.store.jobs.enqueue(list(jobs), now_ms=self.now_ms)

    async def claims(
        self,
        limit: int = 1,
        *,
        worker: str = "worker-1",
        lease_ms: int = 30_000,
        nonce: str | None = None,
        queues: list[Queue] | None = None,
    ) -> Claims:
        """Claim now and return the whole answer."""
        request = ClaimRequest(
            queues=queues or [self.queue], worker=worker, nonce=nonce or self.nonce(), limit=limit, lease_ms=lease_ms
        )
        return await self.store.jobs.claim(request, now_ms=self.now_ms)

    async def claim(self, limit: int = 1, **options: Any) -> list[Claim]:
        """Claim now and return the jobs."""
        return (await self.claims(limit, **options)).items

    async def claim_ids(self, limit: int = 1_000, **options: Any) -> list[str]:
        """Claim now and return the ids, in the order in which they were handed out."""
        return [claim.record.id for claim in await self.claim(limit, **options)]

    async def claim_one(self, **options: Any) -> Claim:
        """Claim the one job that must be there."""
        [claim] = await self.claim(1, **options)
        return claim

    async def settle(self, claim: Claim, outcome: Outcome = Done(), run_ms: int = 0) -> Settled:  # noqa: B008 - immutable
        """Settle one claim now."""
        [answer] = await self.store.jobs.settle([claim.settle(outcome, run_ms)], now_ms=self.now_ms)
        return answer

    async def extend(self, lease: Lease, lease_ms: int = 30_000) -> Extended:
        """Extend one lease now."""
        [answer] = await self.store.jobs.extend([lease], lease_ms=lease_ms, now_ms=self.now_ms)
        return answer

    async def cancel(self, id: str, *, running: bool = False) -> Cancellation:
        """Cancel one job now."""
        [answer] = await self.store.jobs.cancel(self.queue, [id], running=running, now_ms=self.now_ms)
        return answer

    async def start(self, id: str, *, worker: str = "worker-1", lease_ms: int = 30_000, **options: Any) -> Claim:
        """Enqueue one job and claim it; no other job may be ready."""
        await self.enqueue(id, **options)
        claim = await self.claim_one(worker=worker, lease_ms=lease_ms)
        assert claim.lease.id == id, f"{claim.lease.id} was ready too"
        return claim

    async def die(self, id: str, error: JobError = BOOM, **options: Any) -> DeadLetterKey:
        """Enqueue one job, claim it and let it fail for good; no other job may be ready."""
        answer = await self.settle(await self.start(id, **options), Failed(error))
        assert answer.dead_letter is not None, f"{id} left no dead letter"
        return answer.dead_letter

    async def remove(self, id: str) -> Removed:
        """Remove everything of one id now."""
        [answer] = await self.store.jobs.remove(self.queue, [id], now_ms=self.now_ms)
        return answer

    async def repair(self, limit: int = 100) -> Repaired:
        """Sweep the queue now."""
        return await self.store.jobs.repair(self.queue, limit=limit, now_ms=self.now_ms)

    async def replay(self, pick: DeadLetterKey | str, *, keep_counts: bool = False) -> Replayed:
        """Replay one dead letter now."""
        [answer] = await self.store.dead.replay(self.queue, [pick], keep_counts=keep_counts, now_ms=self.now_ms)
        return answer

    async def configure(self, **changes: object) -> QueueConfig:
        """Change the queue's configuration now."""
        return await self.store.queues.configure(self.queue, changes, now_ms=self.now_ms)

    async def find(self, id: str) -> Found | None:
        """All that is known of an id now."""
        [found] = await self.store.reads.find(self.queue, [id], now_ms=self.now_ms)
        return found

    async def found(self, id: str) -> Found:
        """All that is known of an id that must be known."""
        found = await self.find(id)
        assert found is not None, f"{id} is unknown"
        return found

    async def record(self, id: str) -> Record:
        """The record of an id that waits or runs."""
        record = (await self.found(id)).record
        assert record is not None, f"{id} neither waits nor runs"
        return record

    async def state(self, id: str) -> State | None:
        """The state of an id now."""
        found = await self.find(id)
        return None if found is None else found.state

    async def counts(self, queue: Queue | None = None) -> Counts:
        """How many jobs stand where now."""
        return await self.store.queues.counts(queue or self.queue, now_ms=self.now_ms)

    async def dead_letters(self) -> list[DeadLetter]:
        """The dead letters that are kept now."""
        return (await self.store.dead.list(self.queue, limit=1_000, now_ms=self.now_ms)).rows

    async def events(self, queue: Queue | None = None, id: str | None = None) -> list[Event]:
        """The journal of a queue, shard after shard; of one id when options."""
        found: list[Event] = []
        for shard in (queue or self.queue).all_shards():
            after = 0
            while entries := await self.store.journal.read(shard, after, 2**62):
                found += [event for entry in entries for event in entry.events(shard)]
                after = entries[-1].last_seq
        return [event for event in found if id in (None, event.line.id)]

    async def history(self, id: str) -> list[str]:
        """The names of the events of an id."""
        return [event.line.event for event in await self.events(id=id)]

    async def snapshot(self) -> object:
        """Everything that could change, for showing that nothing did."""
        shards = self.queue.all_shards()
        snapshots = [await self.store.reads.snapshot(shard, now_ms=self.now_ms) for shard in shards]
        ids = list({row.id: None for snapshot in snapshots for row in snapshot.rows})
        found = await self.store.reads.find(self.queue, ids[:1_000], now_ms=self.now_ms)
        return (
            snapshots,
            [replace(each, why=None) for each in found if each is not None],
            [await self.store.journal.bounds(shard) for shard in shards],
            await self.counts(),
        )
