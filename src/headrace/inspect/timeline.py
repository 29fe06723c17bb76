"""Reads the events of a job from the journal, backwards from its end and within a bound."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from headrace.inspect.search import Advance
from headrace.model.event import Entry, Event
from headrace.model.limits import TIMELINE_WINDOW_EVENTS
from headrace.model.names import Shard
from headrace.model.redact import redact
from headrace.model.results import Found
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store


class EventView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a job: the fields that are set, without the payload."""

    at: str
    shard: int
    seq: int
    at_ms: int
    event: str
    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    priority: int | None = None
    attempts: int | None = None
    stalls: int | None = None
    fence: int | None = None
    worker: str | None = None
    run_at_ms: int | None = None
    enqueued_at_ms: int | None = None
    wait_ms: int | None = None
    run_ms: int | None = None
    reason: str | None = None
    dead_letter: int | None = None
    error_class: str | None = None
    error_message: str | None = None
    payload_bytes: int | None = None
    version: int | None = None
    flaw: str | None = None
    """Why the line cannot be read completely."""

    @staticmethod
    def of(event: Event) -> "EventView":
        """The view of an event."""
        fields = asdict(event.line)
        del fields["payload"]  # shown once, with the job
        if event.line.error_message is not None:
            fields["error_message"] = redact(event.line.error_message)
        at = instant_text(event.at_ms)
        return EventView(at=at, shard=event.shard.index, seq=event.seq, at_ms=event.at_ms, flaw=event.flaw, **fields)


class TimelineView(Struct, frozen=True):
    """The events of a job, oldest first, and how many events of the journal were read."""

    begins: str
    looked: int
    events: list[EventView]


class Timeline(Struct, frozen=True):
    """The events of a job, oldest first, and the extent of the search."""

    events: list[Event]
    looked: int
    """Events of the journal that were read."""
    begins: Literal["whole", "dropped", "not_reached"]
    """`whole`: nothing is missing. `dropped`: the journal begins later than the job. `not_reached`: the bound was
    reached before the job's beginning."""
    first_at_ms: int | None = None
    """The oldest instant that was read."""
    unreadable: int = 0
    """Unreadable lines of the journal that may belong to the job."""

    def view(self) -> TimelineView:
        """The JSON of the timeline."""
        return TimelineView(self.begins, self.looked, [EventView.of(event) for event in self.events])


async def read_timeline(
    store: Store, shard: Shard, id: str, *, since_ms: int | None, scan_max: int, advance: Advance | None = None
) -> Timeline:
    """The events of a job since `since_ms`, its first enqueue; None reads back to the beginning of the journal.

    Reads about `scan_max` events at most. `at_ms` never decreases along `seq`, so an earlier entry ends the search.
    """
    bounds = await store.journal.bounds(shard)
    upto = bounds.last_seq
    first_at_ms = bounds.last_at_ms
    events: list[Event] = []
    looked = unreadable = 0
    while upto >= bounds.first_seq and looked < scan_max:
        size = min(TIMELINE_WINDOW_EVENTS, scan_max - looked)
        after = max(upto - size, bounds.first_seq - 1)
        entries = await _read_window(store, shard, after, upto)
        window = [event for entry in entries for event in entry.events(shard)]
        unreadable += sum(event.flaw is not None and event.line.id in (None, id) for event in window)
        events = [event for event in window if event.line.id == id] + events
        looked += upto - after
        if advance is not None:
            advance(upto - after)
        if not entries:  # dropped by retention meanwhile
            return Timeline(events, looked, "dropped", first_at_ms, unreadable)
        upto = after
        first_at_ms = entries[0].at_ms
        if since_ms is not None and first_at_ms < since_ms:
            return Timeline(events, looked, "whole", first_at_ms, unreadable)
    if upto >= bounds.first_seq:
        return Timeline(events, looked, "not_reached", first_at_ms, unreadable)
    has_first = bool(events) and events[0].line.event == "enqueued" and events[0].at_ms == since_ms
    begins: Literal["whole", "dropped"] = "whole" if has_first or bounds.first_seq <= 1 else "dropped"
    return Timeline(events, looked, begins, first_at_ms, unreadable)


async def _read_window(store: Store, shard: Shard, after: int, upto: int) -> list[Entry]:
    """All entries of a range, page by page."""
    entries: list[Entry] = []
    while after < upto:
        page = await store.journal.read(shard, after, upto)
        if not page:
            break
        entries += page
        after = page[-1].last_seq
    return entries


def first_enqueue_ms(found: Found) -> int:
    """When the oldest record of an id was enqueued: no event of it is earlier."""
    records = [
        found.record,
        found.blocked_job,
        found.finished_job,
        *(dead_letter.record for dead_letter in found.dead_letters),
    ]
    return min(each.enqueued_at_ms for each in records if each is not None)
