"""`headrace dead list`: the dead letters of a queue or tenant, page by page."""

from typing import Annotated

import typer

from headrace.cli.dead.group import ErrorClass, Kind, Meant, OfId, OfReason, Since, Tag, Until, commands
from headrace.cli.job_scan import JobScan
from headrace.cli.options import TENANT, AnyQueue, Json, Limit, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import queues_of
from headrace.cli.render import DEAD_LETTER_COLUMNS, DEAD_LETTER_SPARE, dead_letter_cells, dead_letter_dict
from headrace.cli.store_access import with_store
from headrace.model.finished import DeadLetter
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the list before ended.")]
Listed = tuple[Queue, DeadLetter]


@commands.command("list")
def list_dead_letters(
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    id: OfId = None,
    kind: Kind = None,
    tag: Tag = None,
    reason: OfReason = None,
    error_class: ErrorClass = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """List dead letters by queue, the oldest first."""
    output = Output(json=json)
    meant = Meant(id=id, kind=kind, tag=tag, reason=reason, error_class=error_class, since=since, until=until)
    meant.check()

    async def look(store: Store) -> tuple[list[Listed], str | None, int]:
        queues = await queues_of(store, tenant, queue)
        now_ms = await store.now_ms()
        walk = JobScan(store, queues, (State.DEAD,), cursor=cursor, where=meant.where(now_ms))
        rows, following = await walk.page(limit)
        return [(seen.queue, seen.dead_letter) for seen in rows if seen.dead_letter is not None], following, now_ms

    rows, following, now_ms = with_store(url, look)
    output.document({"dead_letters": [dead_letter_dict(*row, payload=False) for row in rows], "cursor": following})
    empty = "no dead letter matches" if meant.given else "no dead letters"
    if len({queue for queue, _ in rows}) > 1:
        cells = [(queue.full_name, *dead_letter_cells(dead_letter, now_ms)) for queue, dead_letter in rows]
        output.table(("queue", *DEAD_LETTER_COLUMNS), cells, empty=empty, spare=DEAD_LETTER_SPARE)
    else:
        output.table(
            DEAD_LETTER_COLUMNS,
            [dead_letter_cells(dead_letter, now_ms) for _, dead_letter in rows],
            empty=empty,
            spare=DEAD_LETTER_SPARE,
        )
    if following is not None:
        output.hint(f"more follow: --cursor {following}")
