"""`headrace dead list`: the dead letters of a queue or tenant, page by page."""

from headrace.cli.dead.options import ErrorClass, Kind, OfId, OfReason, Since, Tag, Until
from headrace.cli.options import TENANT, AnyQueue, Cursor, Json, Limit, Tenant, Url
from headrace.cli.output import Output, printable
from headrace.cli.render import first_line
from headrace.cli.store_access import with_store
from headrace.inspect.dead_letters import DeadLetterPage, DeadLetterQuery, list_dead_letters
from headrace.inspect.views import DeadLetterRow
from headrace.model.times import ago_text
from headrace.stores.contract.store import Store

COLUMNS = ("key", "id", "kind", "died", "why")
SPARE = ("kind",)
"""Columns that a narrow terminal may go without."""


def list_command(
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
    """List dead letters by queue, the oldest first.

    Example: headrace dead list --error-class TimeoutError --since 1d
    """
    output = Output(json=json)
    query = DeadLetterQuery(id=id, kind=kind, tag=tag, reason=reason, error_class=error_class, since=since, until=until)

    async def look(store: Store) -> tuple[DeadLetterPage, int]:
        page = await list_dead_letters(store, tenant, queue, query, cursor=cursor, limit=limit)
        return page, await store.now_ms()

    page, now_ms = with_store(url, look)
    output.document(page)
    empty = "no dead letter matches" if query.filters else "no dead letters"
    cells = [dead_letter_cells(row, now_ms) for row in page.dead_letters]
    if len({row.queue for row in page.dead_letters}) > 1:
        cells = [(row.queue, *each) for row, each in zip(page.dead_letters, cells, strict=True)]
        output.table(("queue", *COLUMNS), cells, empty=empty, spare=SPARE)
    else:
        output.table(COLUMNS, cells, empty=empty, spare=SPARE)
    if page.cursor is not None:
        output.hint(f"more follow: --cursor {page.cursor}")


def dead_letter_cells(row: DeadLetterRow, now_ms: int) -> tuple[object, ...]:
    """A row under COLUMNS."""
    cause = row.reason
    if row.error is not None:
        message = first_line(row.error.message)
        cause = f"{cause}: {printable(row.error.class_)}{': ' if row.error.message else ''}{message}"
    return row.dead_letter, row.id, row.kind, ago_text(row.died_at_ms, now_ms), cause
