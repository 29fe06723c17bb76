"""`headrace jobs search`: searches the jobs of all states and queues."""

from typing import Annotated

import typer

from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.jobs.list import print_jobs
from headrace.cli.jobs.options import AnyState, Kind, NewerThan, OlderThan, Tag
from headrace.cli.options import TENANT, AnyQueue, Json, Limit, Tenant, Url
from headrace.cli.output import Output, counted
from headrace.cli.store_access import with_store
from headrace.inspect.search import SearchResult, read_filter, search_jobs
from headrace.model.limits import SEARCH_SCAN_MAX
from headrace.stores.contract.store import Store

Text = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="Text in id, kind, tag, error or payload, in any case.")
]
IdPrefix = Annotated[str | None, typer.Option("--id-prefix", help="Only ids that begin with this text.")]
Payload = Annotated[
    str | None, typer.Option("--payload", help="Only payloads with this text; done jobs have no payload any more.")
]
ScanMax = Annotated[int, typer.Option("--scan-max", min=1, help="Jobs to look at, at most.")]


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

    Exits with 1 if no job matches, with 5 if none matches among the first --scan-max jobs and there are more.

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
    among = " among those that were looked at, and there are more" if is_cut else ""
    print_jobs(output, result.jobs, now_ms, empty=f"no job matches{among}")
    output.hint(_looked_text(result))
    return OK if result.jobs else STOPPED if is_cut else NO


def _looked_text(result: SearchResult) -> str:
    looked = f"looked at {counted(result.looked, 'job')}"
    match result.stopped:
        case "limit":
            return f"{looked} and stopped: more match than --limit {len(result.jobs):,}"
        case "scan_max":
            return f"{looked} and stopped there; raise --scan-max to look further"
        case None:
            return f"{looked}, which is all there are"
