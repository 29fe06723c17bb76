"""Follows journals for Spark: a batch is a range of every shard, planned by one process and read by tasks."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace.model.event import Span
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.following import OffsetFollower, StreamPart, Told
from headrace.pipeline.source.journal.follow import Follower
from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.journal.pages import read_spans
from headrace.pipeline.source.plan import split
from headrace.stores.contract.store import Store

__all__ = ["JournalStream", "StreamPart"]


class JournalStream(OffsetFollower[Offset, Span]):
    """The journals that the options name, from a beginning on, batch by batch.

    What a task makes of the events of its spans is `read_spans`: another stream over the same journals (results)
    overrides it and nothing else.
    """

    def follow(self, store: Store) -> Follower:
        return Follower(store, self.options)

    def parse(self, told: Told) -> Offset:
        return Offset.parse(told)

    def split(self, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
        return split(spans, self.options.partitions_min)

    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, Filters(), self.options.fails_on_loss)
