"""Jobs: enqueue, claim, extend, settle, repair, cancel and remove."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.model.claim import ClaimRequest, Claims, Lease, Settlement
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Cancellation, Enqueued, Extended, Removed, Repaired, Settled, Turned


class Jobs(Protocol):
    """Transitions of jobs, each decided by the store in one atomic step per shard, with its journal event.

    Every call takes `now_ms`; None is the store's own clock. Batches hold at most 1,000 items, are answered item by
    item in order, and are not all-or-nothing. Invalid input raises `Refused` before anything is changed; so does a
    queue with another number of shards, except in `enqueue`, which answers
    `wrong_shards` for those items.
    """

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        """Enqueue jobs, one after the other.

        Idempotency key first: a key that holds (`now < until`) answers `duplicate`, or `conflict` if it was used for
        other work. Then by id: unknown, `created`, and an old finished job of the id is dropped; waiting, `updated`;
        active, `blocked` as a blocked job. A job is ready when `run_at <= now` and draws its number then; an update
        that leaves a ready job due keeps its number, one that leaves a later job due draws it now."""

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        """Hand out ready jobs under leases until `now + lease_ms`.

        If a shard has the nonce as its worker's last one, returns those claims of that call that still hold, and
        nothing new. Otherwise queue by queue in order, and shard by shard from one that the nonce picks: repair leases
        with `expires_at <= now` (100 at most, by end, then id), promote later jobs with `run_at <= now` (1,000 at most,
        by time, then id), hand out by priority descending, then number. A job with `expires_at_ms < now` dies instead
        and does not count against the limit (100 at most). Ends at the limit, or at 4 MiB of bodies, but after one job
        at least. Shards behind the limit are not visited: `next_at_ms` is then now.
        """

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        """Set the end of leases that hold (`now < expires_at`) to `now + lease_ms`, each by itself.

        Refusals in this precedence: `not_active`, `lease_expired`, `lease_mismatch`. Not written to the journal.
        """

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        """End deliveries whose leases hold, with the refusals of `extend`.

        Done and Cancelled leave a finished job, Fail a dead letter. Retry counts an attempt and dies at `attempts >=
        max_attempts`; Retry and Release end cancelled after a cancel request. Then the blocked job: freed when the job
        is over, applied on top when it waits again."""

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        """`settle`, then `claim`, in one round trip; on a store of several servers, not in one atomic step."""

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        """Repair leases with `expires_at <= now` (by end, then id), at most `limit` per shard, and drop finished jobs,
        keys, dead letters, workers and journal entries past their retention, in bounded steps. For a background
        sweep."""

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        """End waiting jobs (with a finished job) and blocked jobs (without one); with `running`, ask active ones to
        stop.

        A cancel request belongs to the delivery: Retry, Release or a stall end it cancelled; Done and Fail still win.
        """

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        """Delete everything of an id: job, blocked job, finished job, dead letters. Its handler may still run, without
        a lease. The idempotency key stays."""


OnEnqueued = Callable[[list[Enqueued] | Exception | None], None]
"""Receives the answers to an enqueue, an error of the whole call, or None when nothing was changed."""

OnClaimed = Callable[[Claims | Exception | None], None]
"""Receives the answer to a claim, an error, or None when nothing was changed."""


class NowaitJobs(Protocol):
    """Calls that are written to the connection at once, without a task; the jobs of a store may have them as well."""

    def enqueue_nowait(self, jobs: Sequence[Job], on_answer: OnEnqueued) -> bool:
        """Send jobs as `enqueue` does, by the store's clock; False if nothing was sent. `on_answer` is called later,
        once; after None, call `enqueue`, which also creates missing queues."""

    def claim_nowait(self, request: ClaimRequest, on_answer: OnClaimed) -> bool:
        """Claim as `claim` does, in the same way; after None, call `claim`."""
