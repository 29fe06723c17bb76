"""`headrace jobs search`: looks through the jobs of all states and queues, and says how far it looked."""

from typing import Annotated, Literal

import typer
from msgspec import Struct

from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.job_scan import JobScan, Seen
from headrace.cli.jobs.filters import JobFilter, job_filter
from headrace.cli.jobs.group import AnyState, Kind, NewerThan, OlderThan, Tag, commands
from headrace.cli.jobs.list import print_jobs, states_of
from headrace.cli.options import TENANT, AnyQueue, Json, Limit, Tenant, Url
from headrace.cli.output import Advance, Output, counted
from headrace.cli.queue_lookup import queues_of
from headrace.cli.render import job_dict
from headrace.cli.store_access import with_store
from headrace.model.limits import PAGE_MAX, SEARCH_SCAN_MAX
from headrace.stores.contract.store import Store

Text = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="Somewhere in id, kind, tag, error or payload, any case.")
]
IdPrefix = Annotated[str | None, typer.Option("--id-prefix", help="How the id begins.")]
Payload = Annotated[str | None, typer.Option("--payload", help="A text in the payload; done jobs have none any more.")]
ScanMax = Annotated[int, typer.Option("--scan-max", min=1, help="How many jobs are looked at, at most.")]


class Hits(Struct, frozen=True):
    """What a search found, and how far it looked."""

    rows: list[Seen]
    looked: int
    stopped: Literal["limit", "scan_max"] | None
    """What ended it early, if anything did."""


@commands.command("search")
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
    """Search jobs in all states, dead ones too.

    Exits with 1 when none is found, with 5 when none is among those that --scan-max allows and there are more.
    """
    output = Output(json=json)

    async def look(store: Store) -> tuple[Hits, int]:
        queues = await queues_of(store, tenant, queue)
        now_ms = await store.now_ms()
        where = job_filter(
            now_ms,
            text=text,
            kind=kind,
            tag=tag,
            id_prefix=id_prefix,
            payload=payload,
            older_than=older_than,
            newer_than=newer_than,
        )
        with output.progress("looking at jobs") as advance:
            return await searched(JobScan(store, queues, states_of(state)), where, limit, scan_max, advance), now_ms

    hits, now_ms = with_store(url, look)
    output.document({"jobs": [job_dict(seen) for seen in hits.rows], "looked": hits.looked, "stopped": hits.stopped})
    unseen = hits.stopped == "scan_max"
    among = " among those that were looked at, and there are more" if unseen else ""
    print_jobs(output, hits.rows, now_ms, empty=f"no job matches{among}")
    output.hint(_looked_text(hits))
    return OK if hits.rows else STOPPED if unseen else NO


async def searched(walk: JobScan, where: JobFilter, limit: int, scan_max: int, advance: Advance) -> Hits:
    """The first `limit` jobs of a walk that match, among `scan_max`."""
    rows: list[Seen] = []
    looked = 0
    while not walk.over:
        part = await walk.take(max(min(PAGE_MAX, scan_max - looked), 1))
        if part and looked == scan_max:
            return Hits(rows, looked, "scan_max")
        for position, seen in enumerate(part):
            if where.matches(seen):
                if len(rows) == limit:
                    return Hits(rows, looked + position, "limit")
                rows.append(seen)
        looked += len(part)
        advance(len(part))
    return Hits(rows, looked, None)


def _looked_text(hits: Hits) -> str:
    looked = f"looked at {counted(hits.looked, 'job')}"
    match hits.stopped:
        case "limit":
            return f"{looked} and stopped: more match than --limit {len(hits.rows):,}"
        case "scan_max":
            return f"{looked} and stopped there; raise --scan-max to look further"
        case None:
            return f"{looked}, which is all there are"
