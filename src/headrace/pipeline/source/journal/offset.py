"""Keeps how far a stream has read each journal, and finds what a journal has lost since."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.model.event import Bounds, Entry, Span
from headrace.model.names import Shard
from headrace.pipeline.source.journal.idle import IdleShards
from headrace.pipeline.source.offsets import GO_ON, VERSION, read_offset, unknown_form

_DIGEST_BYTES = 8
LossKind = Literal["trimmed", "shorter", "changed", "gone"]


class Mark(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """The last read event of a shard: its position and digest."""

    epoch: int
    seq: int
    digest: str
    """Identifies the event; empty if there was none."""
    at_ms: int
    """When it happened, 0 without an event: later events are new, even if the store was restored."""

    @staticmethod
    def of(seq: int, entries: Sequence[Entry]) -> "Mark":
        """The mark of the event `seq`, the only one in `entries`, which is empty if the event was dropped."""
        if not entries:
            return Mark(0, seq, "", 0)
        entry = entries[0]
        digest = blake2b(b"%d %d %s" % (entry.epoch, entry.at_ms, entry.lines), digest_size=_DIGEST_BYTES)
        return Mark(entry.epoch, seq, digest.hexdigest(), entry.at_ms)


NOTHING = Mark(0, 0, "", 0)
"""The mark of an unread journal."""


class Offset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a batch and the beginning of the next."""

    v: int = VERSION
    shards: dict[str, Mark]
    """The shards that this batch reads, that are not fully read or whose last event is recent; the others, too, if they
    are few."""
    idle: IdleShards | None = None
    """The other shards, if they are many."""
    jumps: dict[str, int] = {}
    """The seq after which this batch begins in a shard that the last offset does not list, or that lost events. Kept,
    so that a repeated batch reads the same."""
    gone: tuple[str, ...] = ()
    """Shards that were read up to the last offset and no longer are."""
    skipped: int = 0
    """Events that were dropped unread, since the beginning."""
    lost: int = 0
    """Events that were read and that the store no longer knows, since the beginning."""

    @staticmethod
    def parse(stored: Mapping[str, Any]) -> "Offset":
        """An offset that Spark has kept; `BadConfig` when another source wrote it."""
        offset = read_offset(stored, Offset)
        if any(name.count("/") != 2 for name in offset.shards):
            raise unknown_form()
        return offset

    def to_json(self) -> dict[str, Any]:
        """What Spark is to keep."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if name not in ("idle", "gone") or value}

    def begins(self, before: "Offset", name: str) -> int:
        """The seq after which this batch begins in a shard, if the last one ended with `before`."""
        return self.jumps.get(name, before.shards.get(name, NOTHING).seq)

    def spans(self, before: "Offset", shards: Mapping[str, Shard]) -> list[Span]:
        """The spans of this batch in the known shards."""
        spans = [
            Span(shards[name], self.begins(before, name), mark.seq)
            for name, mark in self.shards.items()
            if name in shards
        ]
        return [span for span in spans if span.count > 0]


class Loss(Struct, frozen=True):
    """A loss in the journal of a shard that was read up to a mark."""

    name: str
    kind: LossKind
    mark: Mark
    bounds: Bounds

    def sentence(self) -> str:
        """The loss as a sentence: expected, found, and what to do."""
        name, seq, first, last = self.name, self.mark.seq, self.bounds.first_seq, self.bounds.last_seq
        if self.kind == "trimmed":
            return (
                f"the stream has read {name} up to seq {seq:,}, and retention has dropped what follows up to"
                f" {first - 1:,}; let the queue keep its journal longer or register a consumer that holds it, and use"
                f" a new checkpoint, {GO_ON} without the {first - 1 - seq:,} events"
            )
        if self.kind == "gone":
            return (
                f"the stream has read {name} up to seq {seq:,}, and the queue no longer exists; use a new"
                f" checkpoint, {GO_ON} without it"
            )
        found = f"ends at seq {last:,}" if self.kind == "shorter" else "holds another event there"
        return (
            f"the checkpoint has read {name} up to seq {seq:,}, and its journal {found}: the store has lost its tail,"
            f" the queue was created again, or this is another store; use a new checkpoint, {GO_ON} with the remaining"
            " events"
        )

    @property
    def is_other(self) -> bool:
        """Whether the journal differs from the read one from some seq on."""
        return self.kind in ("shorter", "changed")


class ResumedJournal(Struct, frozen=True):
    """Where a stream continues after a loss, with the skipped and lost events."""

    after: int
    skipped: int = 0
    lost: int = 0


def find_loss(name: str, mark: Mark, bounds: Bounds, now: Mark) -> Loss | None:
    """The loss, if any; `now` is the present mark of the same seq."""
    if mark.seq > bounds.last_seq:
        return Loss(name, "shorter", mark, bounds)
    if bounds.epoch < mark.epoch or (mark.digest and now.digest and mark != now):
        return Loss(name, "changed", mark, bounds)
    if mark.seq + 1 < bounds.first_seq:
        return Loss(name, "trimmed", mark, bounds)
    return None


def resume_after(loss: Loss, cut: int) -> ResumedJournal:
    """Where to continue; `cut` is the last kept seq whose epoch and time are not later than those of the mark.

    Events older than the last read one were read, and younger ones are new: for a store that lost its tail or was
    restored from a copy, and for a queue that was created again. If older events go beyond the mark, this is another
    store, and all its events are new.
    """
    seq, first = loss.mark.seq, loss.bounds.first_seq
    if loss.kind == "trimmed":
        return ResumedJournal(first - 1, skipped=first - 1 - seq)
    if cut < seq:
        return ResumedJournal(cut, lost=seq - cut)
    return ResumedJournal(first - 1, lost=seq)
