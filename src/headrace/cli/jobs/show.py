"""`headrace jobs show`: everything that is known of a job, and its whole life."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.job_ids import complete, whole_id
from headrace.cli.job_timeline import Journey, first_enqueue_ms, gap_text, journey_of
from headrace.cli.jobs.details import fact, portrait_dict, portrait_text
from headrace.cli.jobs.group import JobId, commands
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Advance, Output, counted
from headrace.cli.queue_lookup import locate, queues_of
from headrace.cli.render import EVENT_COLUMNS, EVENT_SPARE, event_cells, event_dict
from headrace.cli.store_access import with_store
from headrace.model.job import State
from headrace.model.limits import JOURNEY_SCAN_MAX
from headrace.model.names import Queue
from headrace.model.queue_config import QueueConfig
from headrace.model.results import Found
from headrace.stores.contract.store import Store

NoPayload = Annotated[bool, typer.Option("--no-payload", help="Leave payloads and results out.")]
ScanMax = Annotated[
    int, typer.Option("--scan-max", min=0, help="How many events of the journal are looked at; 0 leaves it out.")
]


class Portrait(Struct, frozen=True):
    """A job with everything around it; `found` is None for one that only the journal remembers."""

    id: str
    queue: Queue
    found: Found | None
    why: str | None
    config: QueueConfig
    journey: Journey
    now_ms: int


class Nowhere(Struct, frozen=True):
    """Where a job was looked for in vain."""

    queues: list[str]
    events: int | None
    """How many events of the journal were looked at; None where it was not."""
    bounded: bool = False
    """Whether the journals hold more than was looked at."""


@commands.command("show")
def show(
    id: JobId,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    no_payload: NoPayload = False,
    scan_max: ScanMax = JOURNEY_SCAN_MAX,
    json: Json = False,
) -> int:
    """Show a job: its state, why it waits, what it carries, how it ended, and its whole life.

    The beginning of an id will do where no other begins so. A job that is forgotten but still in the journal is shown
    by its life, if its whole id is given. Exits with 1 when nothing is known, with 5 when nothing is known and
    --scan-max ended the look into the journal.
    """
    output = Output(json=json)

    async def look(store: Store) -> Portrait | Nowhere:
        with output.progress("reading the journal") as advance:
            return await portrayed(store, tenant, queue, id, scan_max, advance)

    shown = with_store(url, look)
    if isinstance(shown, Nowhere):
        looked = {"events_looked": shown.events, "stopped_early": shown.bounded}
        output.document({"id": id, "found": False, "queues": shown.queues, **looked})
        output.hint(nowhere_text(id, tenant, shown))
        return STOPPED if shown.bounded and scan_max else NO
    id, found, journey = shown.id, shown.found, shown.journey
    about = {"found": True, "tenant": tenant, "queue": shown.queue.full_name, "shard": shown.queue.index_of(id)}
    known: dict[str, object] = {"id": id, "state": None}
    if found is not None:
        known = portrait_dict(shown.queue, found, shown.config, payload=not no_payload)
    output.document({**about, **known, "why": shown.why, "life": life_dict(journey)})
    output.say(f"job {id} on queue {shown.queue.full_name} of tenant {tenant}")
    if found is None:
        output.say(fact("state", "gone: only the journal remembers it"))
    else:
        output.say(portrait_text(found, shown.why, shown.config, shown.now_ms, payload=not no_payload))
    print_life(output, journey)
    return OK


async def portrayed(
    store: Store, tenant: str, name: str | None, id: str, scan_max: int, advance: Advance
) -> Portrait | Nowhere:
    """Everything about the job of that id, else about the one whose id begins so."""
    queues = await queues_of(store, tenant, name)
    id = await whole_id(store, queues, id)
    known = await _known(store, queues, id, scan_max, advance)
    if isinstance(known, Nowhere) and (whole := await complete(store, queues, id)) is not None:
        return await _known(store, queues, whole, scan_max, advance)
    return known


async def _known(store: Store, queues: Sequence[Queue], id: str, scan_max: int, advance: Advance) -> Portrait | Nowhere:
    """Everything about a job, from the queue that knows it, else from the first whose journal does."""
    now_ms = await store.now_ms()
    located = await locate(store, queues, id)
    if located is not None:
        queue, found = located
        since_ms = first_enqueue_ms(found)
        journey = await journey_of(store, queue.shard_of(id), id, since_ms=since_ms, scan_max=scan_max, looked=advance)
        config = await store.queues.configuration(queue)
        return Portrait(id, queue, found, await _why(store, queue, found, config, now_ms), config, journey, now_ms)
    looked, bounded = 0, False
    for queue in queues:
        left = scan_max - looked
        journey = await journey_of(store, queue.shard_of(id), id, since_ms=None, scan_max=left, looked=advance)
        if journey.events:
            return Portrait(id, queue, None, None, await store.queues.configuration(queue), journey, now_ms)
        looked += journey.looked
        bounded = bounded or journey.begins == "not_reached"
    return Nowhere([queue.full_name for queue in queues], looked, bounded)


async def _why(store: Store, queue: Queue, found: Found, config: QueueConfig, now_ms: int) -> str | None:
    """Why a job waits; where it waits for a worker, whether there is any."""
    if found.state is not State.WAITING or found.record is None or found.record.run_at_ms > now_ms or config.paused:
        return found.why
    if await store.reads.workers(queue):
        return found.why
    return f"{found.why}; none has claimed from this queue within a day"


def nowhere_text(id: str, tenant: str, nowhere: Nowhere) -> str:
    """Where a job was looked for in vain, as a sentence."""
    match nowhere.queues:
        case []:
            return f"job {id!r} is not known: tenant {tenant!r} has no queues yet"
        case [queue]:
            where = f"queue {queue!r} of tenant {tenant!r}"
        case several:
            more = f" and {len(several) - 10:,} more" if len(several) > 10 else ""
            where = f"the {len(several):,} queues of tenant {tenant!r} ({', '.join(several[:10])}{more})"
    journal = "" if nowhere.events is None else f" and at {counted(nowhere.events, 'event')} of the journal"
    further = "; raise --scan-max to look further back" if nowhere.bounded else ""
    return f"job {id!r} is not known; looked in {where}{journal}{further}"


def life_dict(journey: Journey) -> dict[str, object]:
    """A life for programs."""
    return {
        "begins": journey.begins,
        "looked": journey.looked,
        "events": [event_dict(event) for event in journey.events],
    }


def print_life(output: Output, journey: Journey) -> None:
    """Print a life as a table, and what is missing of it."""
    if not journey.looked and journey.begins == "not_reached":  # nobody wanted it
        return
    output.say("")
    rows = [event_cells(event) for event in journey.events]
    output.table(EVENT_COLUMNS, rows, empty="the journal has no event of it", spare=EVENT_SPARE)
    if (gap := gap_text(journey)) is not None:
        output.hint(gap)
