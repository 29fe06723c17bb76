"""What a stream finds missing in a journal that it has read before: named, and gone on from."""

from typing import Literal

from msgspec import Struct

from headrace.model.event import Bounds
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.source.lacking import GO_ON


class Loss(Struct, frozen=True):
    """Something is missing in the journal of a shard that was read up to a mark."""

    name: str
    kind: Literal["trimmed", "shorter", "changed", "gone"]
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


def find(name: str, mark: Mark, bounds: Bounds, now: Mark) -> Loss | None:
    """What is missing, if anything; `now` is the mark of what stands at the same seq."""
    if mark.seq > bounds.last_seq:
        return Loss(name, "shorter", mark, bounds)
    if bounds.epoch < mark.epoch or (mark.digest and now.digest and mark != now):
        return Loss(name, "changed", mark, bounds)
    if mark.seq + 1 < bounds.first_seq:
        return Loss(name, "trimmed", mark, bounds)
    return None


def resume(loss: Loss, cut: int) -> ResumedJournal:
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
