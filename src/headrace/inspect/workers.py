"""Lists the workers of the last day with their queues and the jobs they hold."""

from collections import Counter, defaultdict

from msgspec import Struct

from headrace.inspect.jobs import JobScan
from headrace.inspect.lookup import look_at_each, queues_of
from headrace.model.job import State
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store


class WorkerListRow(Struct, frozen=True):
    """A worker that has claimed within the last day."""

    worker: str
    queues: list[str]
    active: int
    """Jobs of which it holds leases."""
    seen_at: str
    seen_at_ms: int
    seen_ms_ago: int


class WorkerList(Struct, frozen=True):
    """The workers of a queue or a tenant."""

    workers: list[WorkerListRow]


async def list_workers(store: Store, tenant: str, queue: str | None) -> WorkerList:
    """The workers of a queue or of all queues of a tenant, the latest first."""
    queue_names: dict[str, set[str]] = defaultdict(set)
    seen_at_ms: dict[str, int] = defaultdict(int)
    active: Counter[str | None] = Counter()
    queues = await queues_of(store, tenant, queue)
    async for each, workers in look_at_each(queues, store.reads.workers):
        for found in workers:
            queue_names[found.worker].add(each.full_name)
            seen_at_ms[found.worker] = max(seen_at_ms[found.worker], found.seen_at_ms)
    scan = JobScan(store, queues, (State.ACTIVE,))
    while not scan.is_over:
        active.update(job.found.worker for job in await scan.take() if job.found is not None)
    now_ms = await store.now_ms()
    latest = sorted(queue_names, key=lambda worker: (-seen_at_ms[worker], worker))
    return WorkerList(
        [
            WorkerListRow(
                worker,
                sorted(queue_names[worker]),
                active[worker],
                instant_text(seen_at_ms[worker]),
                seen_at_ms[worker],
                max(now_ms - seen_at_ms[worker], 0),
            )
            for worker in latest
        ]
    )
