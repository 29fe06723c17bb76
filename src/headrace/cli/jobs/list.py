"""`headrace jobs list`: the jobs of a queue or tenant, page by page."""

from typing import Annotated

import typer

from headrace.cli.job_scan import STATES, JobScan, Seen
from headrace.cli.jobs.group import AnyState, commands
from headrace.cli.options import TENANT, AnyQueue, Json, Limit, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import queues_of
from headrace.cli.render import JOB_COLUMNS, JOB_SPARE, job_cells, job_dict
from headrace.cli.store_access import with_store
from headrace.model.job import State
from headrace.stores.contract.store import Store

Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the list before ended.")]


@commands.command("list")
def list_jobs(
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    state: AnyState = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """List jobs: what waits or runs first, then what is over.

    In each state by queue, then by id. An id that runs and has a blocked job waiting behind it is listed in both
    states."""
    output = Output(json=json)

    async def look(store: Store) -> tuple[list[Seen], str | None, int]:
        queues = await queues_of(store, tenant, queue)
        rows, following = await JobScan(store, queues, states_of(state), cursor=cursor).page(limit)
        return rows, following, await store.now_ms()

    rows, following, now_ms = with_store(url, look)
    output.document({"jobs": [job_dict(seen) for seen in rows], "cursor": following})
    print_jobs(output, rows, now_ms, empty="no jobs" if cursor is None else "no more jobs")
    if following is not None:
        output.hint(f"more follow: --cursor {following}")


def states_of(state: State | None) -> tuple[State, ...]:
    """The states that are meant, in the order in which they are looked at."""
    return STATES if state is None else (state,)


def print_jobs(output: Output, rows: list[Seen], now_ms: int, *, empty: str) -> None:
    """Print jobs as a table, with their queues where there are several."""
    if len({seen.queue for seen in rows}) > 1:
        cells = [(seen.queue.full_name, *job_cells(seen, now_ms)) for seen in rows]
        output.table(("queue", *JOB_COLUMNS), cells, empty=empty, spare=JOB_SPARE)
    else:
        output.table(JOB_COLUMNS, [job_cells(seen, now_ms) for seen in rows], empty=empty, spare=JOB_SPARE)
