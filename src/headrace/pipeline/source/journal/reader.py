"""Reads journals for Spark: planned on the driver, read by tasks that open the store themselves."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.model.event import Span
from headrace.pipeline.source.filters import Pushing
from headrace.pipeline.source.journal.pages import read_spans
from headrace.pipeline.source.journal.ranges import find_ranges
from headrace.pipeline.source.machine import LocalPartition, check_here
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.plan import split
from headrace.pipeline.source.schema import Table


class JournalPart(LocalPartition):
    """The ranges that one task reads."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__()
        self.spans = spans


class JournalReader(Pushing):
    """The journals that the options name, as they were when the query was planned."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with opened(self._options.url) as (runner, store):
            spans = runner.run(find_ranges(store, self._options, self.filters))
        return [JournalPart(piece) for piece in split(spans, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        if isinstance(partition, JournalPart):
            check_here(self._options.url, partition.planned_on)
            yield from read_spans(
                self._options.url, partition.spans, self._table, self.filters, self._options.fails_on_loss
            )
