"""`headrace jobs list` and `search`: pages through the jobs of a queue or tenant, and finds jobs by text or filter."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.jobs.options import AnyState, Kind, NewerThan, OlderThan, Since, Tag
from headrace.cli.options import TENANT, AnyQueue, Cursor, Json, Limit, Tenant, Url
from headrace.cli.output import Output, counted
from headrace.cli.store_access import with_store
from headrace.inspect.jobs import JobPage, JobRow, list_jobs
from headrace.inspect.search import SearchResult, read_filter, search_jobs
from headrace.model.job import State
from headrace.model.limits import SEARCH_SCAN_MAX
from headrace.model.times import ago_text, duration_text, read_past_ms
from headrace.stores.contract.store import Store

COLUMNS = ("id", "kind", "state", "failures#", "when", "tag")
GENERATED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
SHORT_ID_CHARS = 13
"""The part of a generated id that is its time."""
SPARE = ("tag", "failures", "kind")
"""Columns to drop in a narrow terminal, the least needed first."""
Text = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="Text in id, kind, tag, error or payload, in any case.")
]
IdPrefix = Annotated[str | None, typer.Option("--id-prefix", help="Only ids that begin with this text.")]
Payload = Annotated[
    str | None, typer.Option("--payload", help="Only payloads with this text; done jobs have no payload.")
]
ScanMax = Annotated[int, typer.Option("--scan-max", min=1, help="Jobs to scan at most.")]


def list_command(
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    state: AnyState = None,
    kind: Kind = None,
    since: Since = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """List jobs: live ones, then ended ones, the newest first.

    Active jobs come by the end of their lease, waiting ones in the order in which they are handed out; each queue by
    itself. An active id with a blocked job behind it is listed in both states. A terminal shows the first part of
    generated ids, enough to tell them apart; other commands take it with its dots.

    Example: headrace jobs list --state done --since 10m
    """
    output = Output(json=json)

    async def look(store: Store) -> tuple[JobPage, int]:
        now_ms = await store.now_ms()
        since_ms = None if since is None else read_past_ms("since", since, now_ms)
        page = await list_jobs(store, tenant, queue, state, kind=kind, since_ms=since_ms, cursor=cursor, limit=limit)
        return page, now_ms

    page, now_ms = with_store(url, look)
    output.document(page)
    print_jobs(output, page.jobs, now_ms, empty="no jobs" if cursor is None else "no more jobs")
    if page.cursor is not None:
        output.hint(f"more follow: --cursor {page.cursor}")


def print_jobs(output: Output, jobs: Sequence[JobRow], now_ms: int, *, empty: str) -> None:
    """Print jobs as a table, with their queues if there are several."""
    ids = [job.id for job in jobs]
    shown = short_ids(ids) if sys.stdout.isatty() else dict(zip(ids, ids, strict=True))
    if len({job.queue for job in jobs}) > 1:
        cells = [(job.queue, *_cells(job, shown, now_ms)) for job in jobs]
        output.table(("queue", *COLUMNS), cells, empty=empty, spare=SPARE)
    else:
        output.table(COLUMNS, [_cells(job, shown, now_ms) for job in jobs], empty=empty, spare=SPARE)


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Ids as a terminal shows them: generated ones by their first part, as long as it takes to tell them apart."""
    generated = {id for id in ids if GENERATED_ID.fullmatch(id)}
    sizes = range(SHORT_ID_CHARS, max(map(len, generated), default=0))
    size = next((size for size in sizes if len({id[:size] for id in generated}) == len(generated)), None)
    return {id: id if size is None or id not in generated else f"{id[:size]}…" for id in ids}


def _cells(job: JobRow, shown: Mapping[str, str], now_ms: int) -> tuple[object, ...]:
    """A row under COLUMNS."""
    return shown[job.id], job.kind, job.state.value, job.attempts, _when(job, now_ms), job.tag


def _when(job: JobRow, now_ms: int) -> str:
    if job.ended_at_ms is not None:
        return f"ended {ago_text(job.ended_at_ms, now_ms)}"
    if job.lease_expires_at_ms is not None:
        left_ms = job.lease_expires_at_ms - now_ms
        return f"lease for {duration_text(left_ms)}" if left_ms > 0 else f"lease expired {duration_text(-left_ms)} ago"
    if job.state is State.BLOCKED or job.run_at_ms is None:
        return "behind the active one"
    return due_text(job.run_at_ms, job.enqueued_at_ms, now_ms)


def due_text(run_at_ms: int, enqueued_at_ms: int, now_ms: int) -> str:
    """When a waiting job is due, or how long it has been due."""
    if run_at_ms > now_ms:
        return f"due in {duration_text(run_at_ms - now_ms)}"
    return f"due for {duration_text(now_ms - max(run_at_ms, enqueued_at_ms))}"


def search(
    text: Text = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    state: AnyState = None,
    kind: Kind = None,
    tag: Tag = None,
    id_prefix: IdPrefix = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    payload: Payload = None,
    limit: Limit = 20,
    scan_max: ScanMax = SEARCH_SCAN_MAX,
    json: Json = False,
) -> int:
    """Search the jobs of all states, dead ones too.

    Exits with 1 if no job matches, with 5 if none of the first --scan-max jobs matches and there are more.

    Example: headrace jobs search TimeoutError --newer-than 1h
    """
    output = Output(json=json)

    async def look(store: Store) -> tuple[SearchResult, int]:
        now_ms = await store.now_ms()
        where = read_filter(
            now_ms,
            text=text,
            kind=kind,
            tag=tag,
            id_prefix=id_prefix,
            payload=payload,
            older_than=older_than,
            newer_than=newer_than,
        )
        with output.progress("searching jobs") as advance:
            result = await search_jobs(
                store, tenant, queue, state, where, limit=limit, scan_max=scan_max, advance=advance
            )
        return result, now_ms

    result, now_ms = with_store(url, look)
    output.document(result)
    is_cut = result.stopped == "scan_max"
    among = " among those searched, and there are more" if is_cut else ""
    print_jobs(output, result.jobs, now_ms, empty=f"no job matches{among}")
    output.hint(_looked_text(result))
    return OK if result.jobs else STOPPED if is_cut else NO


def _looked_text(result: SearchResult) -> str:
    looked = f"searched {counted(result.looked, 'job')}"
    match result.stopped:
        case "limit":
            return f"{looked} and stopped: more match than --limit {len(result.jobs):,}"
        case "scan_max":
            return f"{looked} and stopped there; raise --scan-max to search further"
        case None:
            return f"searched all {counted(result.looked, 'job')}"
