"""A job's life out of the journal, read backwards from its end."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from headrace.cli.output import counted
from headrace.model.event import Entry, Event
from headrace.model.limits import JOURNEY_WINDOW_EVENTS
from headrace.model.names import Shard
from headrace.model.results import Found
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store

Looked = Callable[[int], None]
"""Called with the number of events that were looked at."""


class Journey(Struct, frozen=True):
    """The events of a job, oldest first, and how much of the journal was looked at for them."""

    events: list[Event]
    looked: int
    begins: Literal["whole", "dropped", "not_reached"]
    """`whole`: nothing is missing. `dropped`: the journal begins later than the job. `not_reached`: the bound was
    reached before the job's beginning."""
    first_at_ms: int | None = None
    """How far back was looked."""
    unreadable: int = 0
    """Lines of the journal that cannot be read and are the job's, or may be."""


async def journey_of(
    store: Store, shard: Shard, id: str, *, since_ms: int | None, scan_max: int, looked: Looked | None = None
) -> Journey:
    """The life of a job since `since_ms`, its first enqueue; None looks as far back as there is.

    Looks at about `scan_max` events at most. `at_ms` never decreases along `seq`, so an earlier entry ends the search.
    """
    bounds = await store.journal.bounds(shard)
    upto = bounds.last_seq
    first_at_ms = bounds.last_at_ms
    events: list[Event] = []
    count = unreadable = 0
    while upto >= bounds.first_seq and count < scan_max:
        size = min(JOURNEY_WINDOW_EVENTS, scan_max - count)
        after = max(upto - size, bounds.first_seq - 1)
        entries = await _window(store, shard, after, upto)
        happened = [event for entry in entries for event in entry.events(shard)]
        found = [event for event in happened if event.line.id == id]
        unreadable += sum(event.flaw is not None and event.line.id in (None, id) for event in happened)
        events = found + events
        count += upto - after
        if looked is not None:
            looked(upto - after)
        if not entries:  # retention was faster
            return Journey(events, count, "dropped", first_at_ms, unreadable)
        upto = after
        first_at_ms = entries[0].at_ms
        if since_ms is not None and first_at_ms < since_ms:
            return Journey(events, count, "whole", first_at_ms, unreadable)
    if upto >= bounds.first_seq:
        return Journey(events, count, "not_reached", first_at_ms, unreadable)
    begun = bool(events) and events[0].line.event == "enqueued" and events[0].at_ms == since_ms
    return Journey(events, count, "whole" if begun or bounds.first_seq <= 1 else "dropped", first_at_ms, unreadable)


async def _window(store: Store, shard: Shard, after: int, upto: int) -> list[Entry]:
    """All entries of a range, which may be more than one page of them."""
    entries: list[Entry] = []
    while after < upto:
        page = await store.journal.read(shard, after, upto)
        if not page:
            break
        entries += page
        after = page[-1].last_seq
    return entries


def first_enqueue_ms(found: Found) -> int:
    """When the oldest thing known of an id was enqueued: nothing of its life is earlier."""
    known = [
        found.record,
        found.blocked_job,
        found.finished_job,
        *(dead_letter.record for dead_letter in found.dead_letters),
    ]
    return min(each.enqueued_at_ms for each in known if each is not None)


def gap_text(journey: Journey) -> str | None:
    """What is missing of a life, as a sentence; None when nothing is."""
    if journey.unreadable:
        lines = counted(journey.unreadable, "line")
        return f"{lines} of the journal cannot be read and may be of this job; headrace doctor --full names them"
    since = "" if journey.first_at_ms is None else f" (it was read back to {instant_text(journey.first_at_ms)})"
    match journey.begins:
        case "whole":
            return None
        case "dropped":
            return f"the journal does not reach back to its beginning any more{since}"
        case "not_reached":
            return f"its beginning was not reached within {counted(journey.looked, 'event')}{since}; raise --scan-max"
