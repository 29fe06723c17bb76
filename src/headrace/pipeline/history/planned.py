"""What a batch is to hold, as Spark has noted it in the checkpoint before the batch began."""

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.offsets import unknown_form


class SeqSpan(Struct, frozen=True, gc=False):
    """The events of a journal with `after < seq <= upto`."""

    after: int
    upto: int

    @property
    def count(self) -> int:
        """How many they are."""
        return max(self.upto - self.after, 0)


class PlannedBatch(Struct, frozen=True):
    """Where a batch ends, and what it is to hold of each journal."""

    end: Offset
    spans: dict[str, SeqSpan]

    @property
    def events(self) -> int:
        """How many in all."""
        return sum(span.count for span in self.spans.values())


def read_planned(checkpoint: Path, number: int) -> PlannedBatch:
    """The batch that Spark gives this number."""
    end = read_end(checkpoint, number)
    # The first batch of a checkpoint says itself where each journal begins; one that says nothing holds nothing.
    before = read_end(checkpoint, number - 1) if number else end
    return PlannedBatch(end, {name: SeqSpan(end.begins(before, name), mark.seq) for name, mark in end.shards.items()})


def read_end(checkpoint: Path, number: int) -> Offset:
    """Where the batch that Spark gives this number ends."""
    # A version, what Spark notes of the query, then a line for each source.
    lines = (checkpoint / "offsets" / str(number)).read_bytes().splitlines()
    try:
        stored = msgspec.json.decode(lines[-1])
    except (IndexError, msgspec.DecodeError):
        raise unknown_form() from None
    return Offset.parse(stored)
