"""Events of the journal: an event is a line, and the lines of a call are an entry."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from headrace.model.limits import TIME_MS_MAX, UNREADABLE_CHARS_MAX
from headrace.model.names import Shard
from headrace.model.validate import cut

EventName = Literal[
    "enqueued",
    "updated",
    "blocked",
    "unblocked",
    "merged",
    "claimed",
    "done",
    "retried",
    "released",
    "stalled",
    "dead",
    "asked",
    "cancelled",
    "removed",
    "replayed",
    "purged",
    "configured",
]
EVENTS: tuple[str, ...] = get_args(EventName)
UNREADABLE: Final = "unreadable"
"""The event of a line whose own event cannot be read; never written."""

# The widths of the columns into which readers decode a line: a larger number would stop them.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Instant = Annotated[int, Meta(ge=0, le=TIME_MS_MAX)]


class EventRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One event as it is written, with only the fields that are set; docs/reference/journal.md lists them by event."""

    event: EventName
    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    priority: Int32 | None = None
    attempts: Int32 | None = None
    stalls: Int32 | None = None
    fence: Int64 | None = None
    worker: str | None = None
    """Only if it differs from the entry's."""
    run_at_ms: Instant | None = None
    enqueued_at_ms: Instant | None = None
    wait_ms: Int64 | None = None
    run_ms: Int64 | None = None
    reason: str | None = None
    dead_letter: Int64 | None = None
    error_class: str | None = None
    error_message: str | None = None
    payload_bytes: Int32 | None = None
    version: Int64 | None = None
    payload: str | None = None
    """Only on the events of `CARRIERS`, if the queue's `journal_payloads` is on."""


CARRIERS: frozenset[EventName] = frozenset({"enqueued", "updated", "unblocked", "merged", "replayed"})
"""The events with a payload, if the queue's `journal_payloads` is on: they open or change a waiting job."""
LINE_COLUMNS: tuple[str, ...] = EventRecord.__struct_fields__
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(EventRecord)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COLUMNS = {name: msgspec.json.Decoder(type) for name, type in get_type_hints(EventRecord, include_extras=True).items()}
_TEXT = msgspec.json.Decoder(str)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Event(Struct, frozen=True, gc=False, kw_only=True):
    """One event as it is read: a line with its shard, `seq` and time."""

    shard: Shard
    epoch: int
    seq: int
    at_ms: int
    line: EventRecord
    flaw: str | None = None
    """Why the line is damaged; None for a sound line. Readable fields are set, the others are None; an
    unreadable event is `UNREADABLE`."""


class Entry(Struct, frozen=True, gc=False, kw_only=True):
    """All events of one call on one shard, under consecutive numbers that end with `last_seq`."""

    epoch: int
    last_seq: int
    count: int
    at_ms: int
    worker: str | None
    lines: bytes
    """One JSON object a line, each line ended."""

    @property
    def first_seq(self) -> int:
        """The number of the first event."""
        return self.last_seq - self.count + 1

    def within(self, after: int, upto: int) -> "Entry":
        """This entry with the events of `after < seq <= upto` only; at least one must be in that range."""
        head = max(after - self.first_seq + 1, 0)
        tail = max(self.last_seq - upto, 0)
        if not head and not tail:
            return self
        kept = _texts(self.lines)[head : self.count - tail]
        count = self.count - head - tail
        return replace(self, last_seq=self.last_seq - tail, count=count, lines=b"".join(text + b"\n" for text in kept))

    def events(self, shard: Shard) -> Iterator[Event]:
        """The decoded events in order, always `count` of them."""
        decoded = self._decoded()
        if decoded is None:
            for offset, (line, flaw) in enumerate(self._salvaged()):
                yield self._event(shard, offset, line, flaw)
            return
        for offset, line in enumerate(decoded):
            yield self._event(shard, offset, line, None)

    def _event(self, shard: Shard, offset: int, line: EventRecord, flaw: str | None) -> Event:
        if line.worker is None and line.fence is not None and self.worker is not None:
            line = replace(line, worker=self.worker)
        seq = self.last_seq - self.count + 1 + offset
        return Event(shard=shard, epoch=self.epoch, seq=seq, at_ms=self.at_ms, line=line, flaw=flaw)

    def unreadable(self) -> "list[UnreadableLine]":
        """The damaged lines."""
        if self._decoded() is not None:
            return []
        lines = enumerate(self._salvaged(), self.first_seq)
        return [UnreadableLine(seq, flaw) for seq, (_, flaw) in lines if flaw is not None]

    def readable(self) -> "Entry":
        """This entry with lines that every reader accepts: a damaged line keeps its readable fields."""
        lines = self._decoded()
        return replace(self, lines=encode_lines([line for line, _ in self._salvaged()] if lines is None else lines))

    def _decoded(self) -> list[EventRecord] | None:
        """The lines decoded in one step; None if a line is damaged or their number is wrong."""
        try:
            lines = _DECODER.decode_lines(self.lines)
        except _UNREADABLE:
            return None
        return lines if len(lines) == self.count else None

    def _salvaged(self) -> list[tuple[EventRecord, str | None]]:
        """The readable fields of each line, and its error, if any."""
        texts = _texts(self.lines)
        found = [_salvage(text) for text in texts[: self.count]]
        found += [(_NO_LINE, "the entry holds fewer lines than events")] * (self.count - len(found))
        if len(texts) > self.count and found:
            found[-1] = (found[-1][0], "the entry holds more lines than events")
        return found


class UnreadableLine(Struct, frozen=True, gc=False, order=True):
    """A damaged line of a journal."""

    seq: int
    why: str


def _texts(lines: bytes) -> list[bytes]:
    # Not `splitlines`: a damaged line may hold a carriage return.
    texts = lines.split(b"\n")
    return texts if texts[-1] else texts[:-1]


_NO_LINE = EventRecord(cast("EventName", UNREADABLE))


def _salvage(text: bytes) -> tuple[EventRecord, str | None]:
    """The readable fields of a line, and its error, if any."""
    try:
        return _DECODER.decode(text), None
    except _UNREADABLE as error:
        why = cut(str(error), UNREADABLE_CHARS_MAX)
    try:
        members = _MEMBERS.decode(text)
    except _UNREADABLE:
        return _NO_LINE, why
    values: dict[str, Any] = {}
    for name in members.keys() & _COLUMNS.keys():
        # An unknown event keeps its name: a newer Headrace may have written it.
        decoder = _TEXT if name == "event" else _COLUMNS[name]
        try:
            values[name] = decoder.decode(members[name])
        except _UNREADABLE:
            continue
    return EventRecord(**{"event": UNREADABLE, **values}), why


def payload_text(payload: bytes) -> str | None:
    """A payload as text for a line; None if it is not UTF-8, which only a custom codec writes."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def encode_lines(lines: Sequence[EventRecord]) -> bytes:
    """The text of an entry."""
    return _ENCODER.encode_lines(lines)


def columns(event: Event) -> dict[str, object]:
    """An event as one flat row, for people and tables."""
    queue = event.shard.queue
    return {
        "tenant": queue.tenant,
        "queue": queue.full_name,
        "shard": event.shard.index,
        "epoch": event.epoch,
        "seq": event.seq,
        "at_ms": event.at_ms,
        **asdict(event.line),
    }


class Bounds(Struct, frozen=True, gc=False):
    """What a shard's journal holds: `first_seq <= seq <= last_seq`; empty when `first_seq = last_seq + 1`."""

    epoch: int
    first_seq: int
    last_seq: int
    first_at_ms: int | None
    last_at_ms: int | None
    bytes: int


class Span(Struct, frozen=True, gc=False):
    """The events of a shard with `after < seq <= upto`."""

    shard: Shard
    after: int
    upto: int

    @property
    def count(self) -> int:
        """The number of events; a journal has no gaps."""
        return self.upto - self.after


class Consumer(Struct, frozen=True, gc=False):
    """A registered reader of a journal: `seq` is the offset up to which it has read; `hold` holds back retention."""

    name: str
    seq: int
    hold: bool
    seen_at_ms: int
