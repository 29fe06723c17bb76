"""Journal events: one line each, many lines to an entry, one entry to a call."""

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.model.names import Shard

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


class Line(Struct, frozen=True, gc=False, omit_defaults=True):
    """One event as it is written: only what is set. docs/journal.md says which event sets what."""

    event: EventName
    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    priority: int | None = None
    attempts: int | None = None
    stalls: int | None = None
    fence: int | None = None
    worker: str | None = None
    """Only where it differs from the entry's."""
    run_at_ms: int | None = None
    enqueued_at_ms: int | None = None
    wait_ms: int | None = None
    run_ms: int | None = None
    reason: str | None = None
    letter: int | None = None
    error_class: str | None = None
    error_message: str | None = None
    payload_bytes: int | None = None
    version: int | None = None
    payload: str | None = None
    """Only where the queue's `journal_payloads` is on, on the events of `CARRIERS`."""


CARRIERS: frozenset[EventName] = frozenset({"enqueued", "updated", "unblocked", "merged", "replayed"})
"""The events that carry a payload where the queue wants it: they open a job, or change what a waiting one holds."""
LINE_COLUMNS: tuple[str, ...] = Line.__struct_fields__
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


class Event(Struct, frozen=True, gc=False, kw_only=True):
    """One event as it is read: a line with its place and time."""

    shard: Shard
    epoch: int
    seq: int
    at_ms: int
    line: Line


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
        kept = self.lines.splitlines(keepends=True)[head : self.count - tail]
        return replace(self, last_seq=self.last_seq - tail, count=len(kept), lines=b"".join(kept))

    def events(self, shard: Shard) -> Iterator[Event]:
        """The events, decoded, in order."""
        for offset, text in enumerate(self.lines.splitlines()):
            line = _DECODER.decode(text)
            if line.worker is None and line.fence is not None and self.worker is not None:
                line = replace(line, worker=self.worker)
            yield Event(shard=shard, epoch=self.epoch, seq=self.first_seq + offset, at_ms=self.at_ms, line=line)


def payload_text(payload: bytes) -> str | None:
    """A payload as a line carries it; None for one that is no UTF-8, which only a codec of one's own writes."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def encode_lines(lines: Sequence[Line]) -> bytes:
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
        """How many they are; a journal has no gaps."""
        return self.upto - self.after


class Consumer(Struct, frozen=True, gc=False):
    """A reader that the journal remembers: it has everything up to `seq`, and may ask to be waited for."""

    name: str
    seq: int
    hold: bool
    seen_at_ms: int
