"""`headrace jobs list`: the jobs of a queue or tenant, page by page."""

from collections.abc import Sequence

from headrace.cli.jobs.options import AnyState
from headrace.cli.options import TENANT, AnyQueue, Cursor, Json, Limit, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.store_access import with_store
from headrace.inspect.jobs import JobPage, JobRow, list_jobs
from headrace.model.job import State
from headrace.model.times import ago_text, duration_text
from headrace.stores.contract.store import Store

COLUMNS = ("id", "kind", "state", "failures#", "when", "tag")
SPARE = ("tag", "failures", "kind")
"""Columns that a narrow terminal may go without, the least needed first."""


def list_command(
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    state: AnyState = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """List jobs: live ones first, then finished ones.

    Each state is listed by queue, then by id. An active id with a blocked job behind it is listed in both states.

    Example: headrace jobs list --state active
    """
    output = Output(json=json)

    async def look(store: Store) -> tuple[JobPage, int]:
        page = await list_jobs(store, tenant, queue, state, cursor=cursor, limit=limit)
        return page, await store.now_ms()

    page, now_ms = with_store(url, look)
    output.document(page)
    print_jobs(output, page.jobs, now_ms, empty="no jobs" if cursor is None else "no more jobs")
    if page.cursor is not None:
        output.hint(f"more follow: --cursor {page.cursor}")


def print_jobs(output: Output, jobs: Sequence[JobRow], now_ms: int, *, empty: str) -> None:
    """Print jobs as a table, with their queues if there are several."""
    if len({job.queue for job in jobs}) > 1:
        cells = [(job.queue, *_cells(job, now_ms)) for job in jobs]
        output.table(("queue", *COLUMNS), cells, empty=empty, spare=SPARE)
    else:
        output.table(COLUMNS, [_cells(job, now_ms) for job in jobs], empty=empty, spare=SPARE)


def _cells(job: JobRow, now_ms: int) -> tuple[object, ...]:
    """A row under COLUMNS."""
    return job.id, job.kind, job.state.value, job.attempts, _when(job, now_ms), job.tag


def _when(job: JobRow, now_ms: int) -> str:
    if job.ended_at_ms is not None:
        return f"ended {ago_text(job.ended_at_ms, now_ms)}"
    if job.lease_expires_at_ms is not None:
        left_ms = job.lease_expires_at_ms - now_ms
        return f"lease for {duration_text(left_ms)}" if left_ms > 0 else f"lease over for {duration_text(-left_ms)}"
    if job.state is State.BLOCKED or job.run_at_ms is None:
        return "behind the active one"
    return due_text(job.run_at_ms, job.enqueued_at_ms, now_ms)


def due_text(run_at_ms: int, enqueued_at_ms: int, now_ms: int) -> str:
    """When a waiting job is due, or for how long it has been."""
    if run_at_ms > now_ms:
        return f"due in {duration_text(run_at_ms - now_ms)}"
    return f"due for {duration_text(now_ms - max(run_at_ms, enqueued_at_ms))}"
