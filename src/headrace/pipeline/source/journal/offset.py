"""How far a stream has read each journal, as Spark keeps it in a checkpoint, and what a journal has lost of that."""

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
    """The last event that was read of a shard: its place, and what it was."""

    epoch: int
    seq: int
    digest: str
    """By which the event is known again; empty when there was none to look at."""
    at_ms: int
    """When it happened: what happened later is new, whatever became of the store. 0 when there was none."""

    @staticmethod
    def of(seq: int, entries: Sequence[Entry]) -> "Mark":
        """The mark of the event `seq`, the only one in `entries`; they are empty when the journal does not keep it."""
        if not entries:
            return Mark(0, seq, "", 0)
        entry = entries[0]
        digest = blake2b(b"%d %d %s" % (entry.epoch, entry.at_ms, entry.lines), digest_size=_DIGEST_BYTES)
        return Mark(entry.epoch, seq, digest.hexdigest(), entry.at_ms)


NOTHING = Mark(0, 0, "", 0)
"""Of a journal of which nothing was read yet."""


class Offset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a batch ends, which is where the next one begins."""

    v: int = VERSION
    shards: dict[str, Mark]
    """Those that this batch reads, that are not read to their end or whose last event is recent; and all others as long
    as they are few."""
    idle: IdleShards | None = None
    """All others, where they are many."""
    jumps: dict[str, int] = {}
    """After which seq this batch begins in a shard, where the last offset does not say it: the shard is new or was
    idle, or something was lost. Kept, so that the batch reads the same when it is run again."""
    gone: tuple[str, ...] = ()
    """Shards that were read up to the last offset and are not read any more."""
    skipped: int = 0
    """Events that were dropped before they were read, since the beginning."""
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
        """After which seq the batch that ends here begins in a shard, when the last one ended with `before`."""
        return self.jumps.get(name, before.shards.get(name, NOTHING).seq)

    def spans(self, before: "Offset", shards: Mapping[str, Shard]) -> list[Span]:
        """What the batch that ends here reads, of those shards that are known."""
        spans = [
            Span(shards[name], self.begins(before, name), mark.seq)
            for name, mark in self.shards.items()
            if name in shards
        ]
        return [span for span in spans if span.count > 0]


class Loss(Struct, frozen=True):
    """Something is missing in the journal of a shard that was read up to a mark."""

    name: str
    kind: LossKind
    mark: Mark
    bounds: Bounds

    def sentence(self) -> str:
        """What was wanted, what was found, what to do."""
        name, seq, first, last = self.name, self.mark.seq, self.bounds.first_seq, self.bounds.last_seq
        if self.kind == "trimmed":
            return (
                f"the stream has read {name} up to seq {seq:,}, and retention has dropped what follows up to"
                f" {first - 1:,}; let the queue keep its journal longer or register a consumer that holds it, and use"
                f" a new checkpoint, {GO_ON} without the {first - 1 - seq:,} events"
            )
        if self.kind == "gone":
            return (
                f"the stream has read {name} up to seq {seq:,}, and there is no such queue any more; use a new"
                f" checkpoint, {GO_ON} without it"
            )
        found = f"ends at seq {last:,}" if self.kind == "shorter" else "holds another event there"
        return (
            f"the checkpoint has read {name} up to seq {seq:,}, and its journal {found}: the store has lost its tail,"
            f" the queue was made anew, or this is another store; use a new checkpoint, {GO_ON} from what is there"
        )

    @property
    def is_other(self) -> bool:
        """Whether the journal is not the one that was read, from some place on."""
        return self.kind in ("shorter", "changed")


class ResumedJournal(Struct, frozen=True):
    """Where a stream goes on after a loss, and what that costs."""

    after: int
    skipped: int = 0
    lost: int = 0


def find_loss(name: str, mark: Mark, bounds: Bounds, now: Mark) -> Loss | None:
    """What is missing, if anything; `now` is the mark of what stands at the same seq."""
    if mark.seq > bounds.last_seq:
        return Loss(name, "shorter", mark, bounds)
    if bounds.epoch < mark.epoch or (mark.digest and now.digest and mark != now):
        return Loss(name, "changed", mark, bounds)
    if mark.seq + 1 < bounds.first_seq:
        return Loss(name, "trimmed", mark, bounds)
    return None


def resume_after(loss: Loss, cut: int) -> ResumedJournal:
    """Where to go on; `cut` is the last seq that is kept and as old as the mark: not of a later epoch or instant.

    What is older than the last event that was read was read as well, and what is younger is new: so it is with a store
    that has lost its tail or was restored from a copy, and with a queue that was made anew. Where older events go
    beyond the mark, this is another store, and everything that it keeps is new.
    """
    seq, first = loss.mark.seq, loss.bounds.first_seq
    if loss.kind == "trimmed":
        return ResumedJournal(first - 1, skipped=first - 1 - seq)
    if cut < seq:
        return ResumedJournal(cut, lost=seq - cut)
    return ResumedJournal(first - 1, lost=seq)
