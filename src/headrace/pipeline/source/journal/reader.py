"""Reads journals for Spark, as a batch and as a stream: planned by one process, read by tasks that open the store."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.model.event import Span
from headrace.pipeline.source.filters import FilteredReader, FilterPushdown, Filters
from headrace.pipeline.source.journal.follower import JournalFollower
from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.journal.pages import read_spans
from headrace.pipeline.source.journal.ranges import find_ranges
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition, split
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.pipeline.source.stream_reader import OffsetJson, OffsetStreamReader
from headrace.stores.contract.store import Store


class JournalPartition(HostPartition):
    """The ranges that one task reads."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__()
        self.spans = spans


class JournalReader(FilteredReader):
    """The journals that the options name, as they were when the query was planned."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with connect(self._options.url) as (runner, store):
            spans = runner.run(find_ranges(store, self._options, self.filters))
        return [
            JournalPartition(piece)
            for piece in split(spans, self._options.partitions_min, self._options.partition_events_max)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        if isinstance(partition, JournalPartition):
            check_host(self._options.url, partition.planned_on)
            yield from read_spans(
                self._options.url, partition.spans, self._table, self.filters, self._options.fails_on_loss
            )


class FilteredJournalReader(FilterPushdown, JournalReader):
    """The same for a query whose filters Spark hands over."""


class JournalStream(OffsetStreamReader[Offset, Span]):
    """The journals that the options name, from a beginning on, batch by batch.

    What a task makes of the events of its spans is `read_spans`: another stream over the same journals (results)
    overrides it and nothing else.
    """

    def follow(self, store: Store) -> JournalFollower:
        return JournalFollower(store, self.options)

    def parse(self, stored: OffsetJson) -> Offset:
        return Offset.parse(stored)

    def split(self, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
        return split(spans, self.options.partitions_min, self.options.partition_events_max)

    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, Filters(), self.options.fails_on_loss)
