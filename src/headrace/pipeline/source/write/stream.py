"""Writes a stream into a store: each batch is a run of its own, whose rows are known whoever wrote them first."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.model.feed import FeedName
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.write.counts import Message, WriteTally
from headrace.pipeline.source.write.report import first_start
from headrace.pipeline.source.write.run import Run
from headrace.pipeline.source.write.sink import begin_run, end_run, sink_of
from headrace.stores.contract.store import Store


class StreamWriter(DataSourceStreamArrowWriter):
    """Made on the driver for each batch, and made once more to commit it: what a commit needs comes with the tasks."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._sink = sink_of(options, schema)
        self._run = begin_run(options, self._sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._run.check_here(self._options.url)
        query_id, batch_id = _whose()
        run = self._run if query_id is None else replace(self._run, id=f"{query_id}/{batch_id}")
        with opened(self._options.url) as (runner, store):
            run, tally = runner.run(self._write(store, run, iterator))
            return Message(run, tally, query_id)

    async def _write(self, store: Store, run: Run, iterator: Iterator[pa.RecordBatch]) -> tuple[Run, WriteTally]:
        if self._options.report is not None:
            feed = FeedName(self._options.report, self._options.tenant)
            run = replace(run, started_at_ms=await first_start(store, feed, run))
        return run, await self._sink.write(store, run, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        run = next((message.run for message in messages if isinstance(message, Message)), self._run)
        end_run(self._options, run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was written stays: the batch is run again, finds it and goes on from there."""


def _whose() -> tuple[str | None, str | None]:
    """The query and the batch that this task works for. Spark tells them to its tasks, but promises nothing."""
    context = TaskContext.get()
    if context is None:
        return None, None
    query_id, batch_id = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    return (None, None) if not query_id or not batch_id else (query_id, batch_id)
