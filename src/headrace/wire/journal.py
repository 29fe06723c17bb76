"""Requests and answers about journals: entries, bounds, readers, and the integrity of a shard."""

from msgspec import UNSET, Struct, UnsetType

from headrace.model.event import Bounds, Consumer, Entry
from headrace.model.results import WorkerSeen
from headrace.wire.content import ByteContent


class EntryAnswer(Struct, frozen=True, kw_only=True):
    """The events of one call on one shard; `lines` is one JSON object a line, as bytes in MessagePack."""

    epoch: int
    last_seq: int
    count: int
    at_ms: int
    worker: str | None
    lines: str | UnsetType = UNSET
    lines_base64: ByteContent = UNSET

    @staticmethod
    def of(entry: Entry, *, packed: bool) -> "EntryAnswer":
        """An entry as the service answers it."""
        return EntryAnswer(
            epoch=entry.epoch,
            last_seq=entry.last_seq,
            count=entry.count,
            at_ms=entry.at_ms,
            worker=entry.worker,
            lines=UNSET if packed else entry.lines.decode(errors="replace"),
            lines_base64=entry.lines if packed else UNSET,
        )

    def entry(self) -> Entry:
        """The entry, from MessagePack."""
        lines = b"" if self.lines_base64 is UNSET else self.lines_base64
        return Entry(
            epoch=self.epoch,
            last_seq=self.last_seq,
            count=self.count,
            at_ms=self.at_ms,
            worker=self.worker,
            lines=lines,
        )


class EntriesAnswer(Struct, frozen=True):
    """Entries, the oldest first."""

    entries: list[EntryAnswer]


class ShardBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A shard of a queue."""

    queue: str
    shard: int = 0
    shards: int | None = None


class SpanBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The events of a shard with `after < seq <= upto`."""

    queue: str
    shard: int = 0
    shards: int | None = None
    after: int
    upto: int


class BoundsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Shards whose bounds are wanted."""

    shards: list[ShardBody]


class BoundsAnswer(Struct, frozen=True):
    """Bounds, in the order of the shards."""

    bounds: list[Bounds]


class ReachedBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Spans whose ends at an instant are wanted."""

    spans: list[SpanBody]
    at_ms: int


class ReachedAnswer(Struct, frozen=True):
    """The last numbers, in the order of the spans."""

    seqs: list[int]


class ConsumerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A reader to register, or to move."""

    seq: int = 0
    hold: bool = False


class ConsumersAnswer(Struct, frozen=True):
    """The registered readers."""

    rows: list[Consumer]


class ForgetAnswer(Struct, frozen=True):
    """Whether the reader was registered."""

    forgotten: bool


class TrimBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How many entries to drop at most."""

    limit: int = 1_000


class TrimAnswer(Struct, frozen=True):
    """The number of dropped entries."""

    dropped: int


class WorkersAnswer(Struct, frozen=True):
    """The workers of the last day."""

    rows: list[WorkerSeen]


class IntegrityBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a check or repair."""

    limit: int = 1_000
    cursor: str | None = None


class SplitAnswer(Struct, frozen=True):
    """Ids that cut a shard into parts."""

    ids: list[str]
