"""`headrace dead list` and `show`: pages through dead letters, and prints one with its error and events."""

from typing import Annotated

import typer

from headrace.cli.dead.options import DeadLetterOptions
from headrace.cli.exit_codes import NO, OK
from headrace.cli.jobs.show import NoPayload, ScanMax
from headrace.cli.options import TENANT, AnyQueue, Cursor, Json, Limit, Tenant, Url, option_groups
from headrace.cli.output import Output, printable
from headrace.cli.render import encoded_text, error_text, first_line, labelled, print_timeline, record_lines
from headrace.cli.store_access import with_store
from headrace.inspect.dead_letters import (
    DeadLetterDetails,
    DeadLetterPage,
    list_dead_letters,
    show_dead_letter,
)
from headrace.inspect.views import DeadLetterRow
from headrace.model.limits import TIMELINE_SCAN_MAX
from headrace.model.times import ago_text, instant_text
from headrace.stores.contract.store import Store

COLUMNS = ("key", "id", "kind", "died", "why")
SPARE = ("kind",)
"""Columns to drop in a narrow terminal."""
Name = Annotated[
    str,
    typer.Argument(
        metavar="ID|DEAD_LETTER", help="Id of a job, for its newest dead letter, or key of a dead letter (0:17)."
    ),
]


@option_groups
def list_command(options: DeadLetterOptions, limit: Limit = 20, cursor: Cursor = None, json: Json = False) -> None:
    """List dead letters by queue, the oldest first.

    Example: headrace dead list --error-class TimeoutError --since 1d
    """
    output = Output(json=json)
    query = options.query

    async def look(store: Store) -> tuple[DeadLetterPage, int]:
        page = await list_dead_letters(store, options.tenant, options.queue, query, cursor=cursor, limit=limit)
        return page, await store.now_ms()

    page, now_ms = with_store(options.url, look)
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


def show(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    no_payload: NoPayload = False,
    scan_max: ScanMax = TIMELINE_SCAN_MAX,
    json: Json = False,
) -> int:
    """Show a dead letter: the error, the payload and the events.

    Exits with 1 if there is no such dead letter.

    Example: headrace dead show 0:17
    """
    output = Output(json=json)

    async def look(store: Store) -> DeadLetterDetails | None:
        with output.progress("reading the journal") as advance:
            return await show_dead_letter(store, tenant, queue, name, scan_max=scan_max, advance=advance)

    details = with_store(url, look)
    if details is None:
        output.document({"name": name, "found": False})
        where = f"queue {queue!r}" if queue else "any queue"
        output.hint(f"there is no dead letter {name!r} in {where} of tenant {tenant!r}; see headrace dead list")
        return NO
    output.document(details.view(payload=not no_payload))
    key, id = details.dead_letter.key, details.dead_letter.record.id
    output.say(f"dead letter {key} of job {id} on queue {details.queue.full_name} of tenant {tenant}")
    output.say(_text(details, payload=not no_payload))
    if details.dead_letters > 1:
        output.say(labelled("of this job", f"{details.dead_letters:,} dead letters; this is the newest"))
    print_timeline(output, details.timeline)
    return OK


def _text(details: DeadLetterDetails, *, payload: bool) -> str:
    """The lines of a dead letter."""
    dead_letter, now_ms = details.dead_letter, details.now_ms
    record = dead_letter.record
    lines = [
        labelled("died", f"{instant_text(dead_letter.died_at_ms)}, {ago_text(dead_letter.died_at_ms, now_ms)}"),
        labelled("reason", dead_letter.reason),
        labelled("error", error_text(dead_letter.error)),
        *record_lines(record, details.config, now_ms, error=False),
        labelled("kept until", instant_text(dead_letter.until_ms)),
    ]
    if payload:
        lines.append(labelled("payload", encoded_text(record.payload)))
    return "\n".join(lines)
