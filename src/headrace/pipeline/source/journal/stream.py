"""Follows journals for Spark: a batch is a range of every shard, planned by one process and read by tasks."""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from headrace.model.event import Span
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.journal.follow import Follower
from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.journal.pages import read_spans
from headrace.pipeline.source.machine import Part, check_here
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import Options
from headrace.pipeline.source.plan import split
from headrace.pipeline.source.schema import Table

T = TypeVar("T")
Told = Mapping[str, Any]


class StreamPart(Part):
    """What one task reads."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__(spans)
        self.spans = spans


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The journals that the options name, from a beginning on, batch by batch.

    What a task makes of the events of its spans is `read_spans`: another stream over the same journals (results)
    overrides it and nothing else. It runs in a task, on a copy of this object that has `options` and `table` only.
    """

    def __init__(self, options: Options, table: Table) -> None:
        self.options = options
        self.table = table
        self._follower: Follower | None = None
        self._open = ExitStack()

    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's spans, with the columns of `table`. The place to make something else of events."""
        return read_spans(self.options.url, spans, self.table, Filters(), self.options.fails_on_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        if isinstance(partition, StreamPart):
            check_here(self.options.url, partition.planned_on)
            yield from self.read_spans(partition.spans)

    # Everything below runs in one process that lives as long as the query, under Spark's names.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._run(self._follow().initial()).told()

    def latestOffset(self, start: Told | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        # Spark before 4.2 gives neither.
        begun = None if start is None else Offset.parse(start)
        events_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        latest = self._run(self._follow().latest(begun, events_max))
        # As it came, since Spark compares texts.
        return dict(start) if start is not None and latest is begun else latest.told()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.events_max is None else ReadMaxRows(self.options.events_max)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._follow().report()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._run(self._follow().aim())

    def partitions(self, start: Told, end: Told) -> Sequence[InputPartition]:
        spans = self._run(self._follow().plan(Offset.parse(start), Offset.parse(end)))
        return [StreamPart(part) for part in split(spans, self.options.partitions_min)]

    def commit(self, end: Told) -> None:
        """Nothing: Spark says it a batch late, and never of the last one."""

    def stop(self) -> None:
        self._follower = None
        self._open.close()

    def _follow(self) -> Follower:
        if self._follower is None:
            self._runner, store = self._open.enter_context(opened(self.options.url))
            self._follower = Follower(store, self.options)
        return self._follower

    def _run(self, asked: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asked)

    def __getstate__(self) -> tuple[Options, Table]:
        return self.options, self.table

    def __setstate__(self, state: tuple[Options, Table]) -> None:
        JournalStream.__init__(self, *state)
