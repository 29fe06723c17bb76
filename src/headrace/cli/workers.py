"""`headrace workers`: the workers of the last day, their queues and the jobs they hold."""

from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.store_access import with_store
from headrace.inspect.workers import WorkerListRow, list_workers
from headrace.model.times import duration_text

COLUMNS = ("worker", "seen", "active#", "queues")


def command(url: Url = None, tenant: Tenant = TENANT, queue: AnyQueue = None, json: Json = False) -> None:
    """Show the workers that claimed within the last day, the latest first.

    Example: headrace workers --queue mail
    """
    output = Output(json=json)
    found = with_store(url, lambda store: list_workers(store, tenant, queue))
    output.document(found)
    output.table(
        COLUMNS,
        [worker_cells(row) for row in found.workers],
        empty="no worker has claimed a job within the last day; start one with: headrace worker app:app",
    )


def worker_cells(row: WorkerListRow) -> tuple[object, ...]:
    """A row under COLUMNS."""
    return row.worker, f"{duration_text(row.seen_ms_ago)} ago", row.active, ", ".join(row.queues)
