"""Reads journals for Spark as a batch, as a stream, and as a stream of results."""

from asyncio import Runner
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.model.event import Span
from headrace.model.finished import FinishedJob
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.pipeline.source.arrow import build_batch, coalesce, texts
from headrace.pipeline.source.compat import EqualTo
from headrace.pipeline.source.filters import FilteredReader, FilterPushdown, Filters
from headrace.pipeline.source.journal.follower import JournalFollower
from headrace.pipeline.source.journal.offset import Offset
from headrace.pipeline.source.journal.pages import read_spans
from headrace.pipeline.source.journal.payloads import is_of
from headrace.pipeline.source.journal.ranges import find_ranges
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition, split
from headrace.pipeline.source.schema import JOURNAL, Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.pipeline.source.stream_reader import OffsetJson, OffsetStreamReader
from headrace.stores.contract.store import Store

_DONE = Filters((EqualTo(("event",), "done"),))
_COPIED = ("tenant", "queue", "shard", "epoch", "seq", "id", "kind", "tag", "attempts", "stalls", "enqueued_at")
_EVENTS = JOURNAL.pick((*_COPIED, "happened_at", "event"))
_LOOKED_UP = ("kept", "result")


class JournalPartition(HostPartition):
    """The spans of one task of a batch."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__()
        self.spans = spans


class JournalReader(FilteredReader):
    """The selected journals, as they were when the query was planned."""

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
        # For an empty read, Spark passes a partition of another type.
        if isinstance(partition, JournalPartition):
            check_host(self._options.url, partition.planned_on)
            yield from read_spans(
                self._options.url, partition.spans, self._table, self.filters, self._options.fails_on_loss
            )


class FilteredJournalReader(FilterPushdown, JournalReader):
    """The same reader with filter pushdown."""


class JournalStream(OffsetStreamReader[Offset, Span]):
    """A stream of the selected journals; a stream of results overrides `read_spans` only."""

    def follow(self, store: Store) -> JournalFollower:
        return JournalFollower(store, self.options)

    def parse(self, stored: OffsetJson) -> Offset:
        return Offset.parse(stored)

    def split(self, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
        return split(spans, self.options.partitions_min, self.options.partition_events_max)

    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, Filters(), self.options.fails_on_loss)


class ResultStream(JournalStream):
    """A stream of done jobs with their results. A result that is no longer kept, or that a later run of the id has
    replaced, is null, and `kept` is false."""

    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        yield from coalesce(self._results(spans))

    def _results(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        queues = {(each.shard.queue.tenant, each.shard.queue.full_name): each.shard.queue for each in spans}
        needs_lookup = any(name in self.table.names for name in _LOOKED_UP)
        events = read_spans(self.options.url, spans, _EVENTS, _DONE, self.options.fails_on_loss)
        with connect(self.options.url) as (runner, store):
            for batch in events:
                finished_jobs = _finished_jobs(runner, store, queues, batch) if needs_lookup else []
                yield build_batch(
                    self.table,
                    batch.num_rows,
                    {name: _column(batch, name) for name in _COPIED}
                    | {
                        "outcome": "done",
                        "ended_at": _column(batch, "happened_at"),
                        "kept": lambda found=finished_jobs: [each is not None for each in found],
                        "result": lambda found=finished_jobs: texts([each and each.result for each in found]),
                    },
                )


def _column(batch: pa.RecordBatch, name: str) -> object:
    return lambda: batch.column(name)


def _finished_jobs(
    runner: Runner, store: Store, queues: Mapping[tuple[str, str], Queue], batch: pa.RecordBatch
) -> list[FinishedJob | None]:
    """The finished job of each event of a batch, while the store keeps it."""
    rows = batch.select(["tenant", "queue", "id"]).to_pydict()
    born, at = (batch.column(name).cast(pa.int64()).to_pylist() for name in ("enqueued_at", "happened_at"))
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, queue in enumerate(zip(rows["tenant"], rows["queue"], strict=True)):
        rows_of.setdefault(queue, []).append(row)
    found: list[FinishedJob | None] = [None] * batch.num_rows
    for name, queue_rows in rows_of.items():
        for first in range(0, len(queue_rows), BATCH_MAX):
            part = queue_rows[first : first + BATCH_MAX]
            known = runner.run(_found(store, queues[name], [rows["id"][row] for row in part]))
            for row, finished_job in zip(part, known, strict=True):
                if finished_job is not None and is_of(finished_job, born[row] // 1_000, at[row] // 1_000):
                    found[row] = finished_job
    return found


async def _found(store: Store, queue: Queue, ids: list[str]) -> list[FinishedJob | None]:
    return [None if each is None else each.finished_job for each in await store.reads.find(queue, ids)]
