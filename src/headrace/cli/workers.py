"""`headrace workers`: who claimed lately, from which queues, and what each holds."""

from collections import Counter, defaultdict

from msgspec import Struct

from headrace.cli.job_scan import JobScan
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import look_at_each, queues_of
from headrace.cli.store_access import with_store
from headrace.model.job import State
from headrace.model.times import duration_text, instant_text
from headrace.stores.contract.store import Store

COLUMNS = ("worker", "seen", "active#", "queues")


class WorkerLine(Struct, frozen=True):
    """A worker as the store has seen it."""

    worker: str
    queues: list[str]
    active: int
    """Jobs it holds leases of."""
    seen_at: str
    seen_at_ms: int
    seen_ms_ago: int

    @property
    def cells(self) -> tuple[object, ...]:
        """The row below `COLUMNS`."""
        return self.worker, f"{duration_text(self.seen_ms_ago)} ago", self.active, ", ".join(self.queues)


def command(url: Url = None, tenant: Tenant = TENANT, queue: AnyQueue = None, json: Json = False) -> None:
    """Show the workers that claimed within the last day, the latest first."""
    output = Output(json=json)
    rows = with_store(url, lambda store: seen(store, tenant, queue))
    output.document({"workers": rows})
    output.table(
        COLUMNS,
        [row.cells for row in rows],
        empty="no worker has claimed anything within the last day; start one with: headrace worker app:app",
    )


async def seen(store: Store, tenant: str, queue: str | None) -> list[WorkerLine]:
    """The workers of a queue, or of all queues of a tenant."""
    queues: dict[str, set[str]] = defaultdict(set)
    seen_at_ms: dict[str, int] = defaultdict(int)
    active: Counter[str | None] = Counter()
    known = await queues_of(store, tenant, queue)
    async for each, workers in look_at_each(known, store.reads.workers):
        for found in workers:
            queues[found.worker].add(each.full_name)
            seen_at_ms[found.worker] = max(seen_at_ms[found.worker], found.seen_at_ms)
    walk = JobScan(store, known, (State.ACTIVE,))
    while not walk.over:
        active.update(job.found.worker for job in await walk.take() if job.found is not None)
    now_ms = await store.now_ms()
    latest = sorted(queues, key=lambda worker: (-seen_at_ms[worker], worker))
    return [
        WorkerLine(
            worker,
            sorted(queues[worker]),
            active[worker],
            instant_text(seen_at_ms[worker]),
            seen_at_ms[worker],
            max(now_ms - seen_at_ms[worker], 0),
        )
        for worker in latest
    ]
