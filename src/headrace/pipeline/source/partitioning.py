"""Divides a read among tasks: many small shards share one, a large one is cut."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

from headrace.model.event import Bounds, Span
from headrace.model.names import Shard
from headrace.pipeline.source.options import EVENTS_PER_PARTITION
from headrace.pipeline.source.store_access import this_host


class HostPartition(InputPartition):
    """The work of one task, with the machine that planned it, which the task checks."""

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.planned_on = this_host()


def span_of(shard: Shard, bounds: Bounds) -> Span:
    """Everything that a shard's journal holds."""
    return Span(shard, bounds.first_seq - 1, bounds.last_seq)


def split(spans: Sequence[Span], partitions_min: int = 1, target: int = EVENTS_PER_PARTITION) -> list[tuple[Span, ...]]:
    """Cut the spans, laid end to end, into at least `partitions_min` equal pieces of about `target` events.

    Small shards share a piece and a large one is cut by seq; order is kept. No piece is empty: with fewer events than
    `partitions_min`, each event is a piece.
    """
    total = sum(span.count for span in spans)
    pieces = min(max(-(-total // target), partitions_min), total)
    cuts = [total * piece // pieces for piece in range(1, pieces + 1)]
    parts: list[list[Span]] = [[] for _ in cuts]
    piece, planned = 0, 0
    for span in spans:
        after = span.after
        while after < span.upto:
            upto = min(span.upto, after + cuts[piece] - planned)
            parts[piece].append(Span(span.shard, after, upto))
            planned += upto - after
            after = upto
            piece += planned == cuts[piece]
    return [tuple(part) for part in parts]


Thing = TypeVar("Thing")


def pack(
    sized: Iterable[tuple[Thing, int]], parts_min: int = 1, target: int = EVENTS_PER_PARTITION
) -> list[tuple[Thing, ...]]:
    """Parts of about `target` rows each, at least `parts_min` if there are enough things.

    The largest thing goes first, each to the smallest part so far, so that the sizes of two parts differ by the largest
    thing at most.
    """
    ordered = sorted(sized, key=lambda pair: -pair[1])
    total = sum(size for _, size in ordered)
    count = min(max(-(-total // target), parts_min), len(ordered))
    parts: list[list[Thing]] = [[] for _ in range(count)]
    fullness = [(0, 0, number) for number in range(count)]
    for thing, size in ordered:
        # Equal sizes go by number of things, which spreads seemingly empty ones.
        rows, things, number = heappop(fullness)
        parts[number].append(thing)
        heappush(fullness, (rows + size, things + 1, number))
    return [tuple(part) for part in parts]
