"""Writes frames to a store for Spark: a batch in one run, a stream in one run per batch."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.model.errors import Refused
from headrace.model.feed import FeedName
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.dead_letters import DeadSink
from headrace.pipeline.source.sink.feed import FeedSink
from headrace.pipeline.source.sink.jobs import JobSink
from headrace.pipeline.source.sink.rejects import clear_refused, settle_refused
from headrace.pipeline.source.sink.result import (
    Message,
    WriteRun,
    WriteTally,
    Written,
    first_start,
    new_run,
    publish_report,
    total,
)
from headrace.pipeline.source.store_access import connect
from headrace.stores.contract.store import Store


class Sink(Protocol):
    """Writes rows to a store, idempotently. Pickled with its writer."""

    async def check(self, store: Store) -> None:
        """Refuse, on the driver, a write that cannot succeed."""

    async def write(self, store: Store, run: WriteRun, rows: Iterator[pa.RecordBatch]) -> WriteTally:
        """Write a task's rows and count the outcomes."""


def sink_of(options: WriteOptions, schema: StructType) -> Sink:
    """The sink of a write; refuses a frame with other columns."""
    if options.what == "dead":
        return DeadSink(options, schema)
    if options.what == "feed":
        return FeedSink(options, schema)
    return JobSink(options, schema)


def begin_run(options: WriteOptions, sink: Sink) -> WriteRun:
    """A run that starts now, on the driver."""
    with connect(options.url) as (runner, store):
        runner.run(sink.check(store))
        return runner.run(new_run(store, options.run))


def end_run(options: WriteOptions, run: WriteRun, messages: Sequence[WriterCommitMessage | None]) -> Written:
    """The counts of a run whose tasks have all ended, reported if requested; raises `Refused` for refused rows unless
    the options accept them."""
    tallies = [message.tally for message in messages if isinstance(message, Message)]
    folder = _kept_rejects(options, run, tallies)
    if options.report is None:
        written = replace(total(options.what, run, tallies, run.started_at_ms), refused_folder=folder)
    else:
        feed = FeedName(options.report, options.tenant)
        with connect(options.url) as (runner, store):
            found = total(options.what, run, tallies, runner.run(store.now_ms()))
            written = replace(found, refused_folder=folder)
            runner.run(publish_report(store, feed, written))
    if written.refused and options.fails_on_refusal:
        raise rows_refused(written)
    return written


def _kept_rejects(options: WriteOptions, run: WriteRun, tallies: Sequence[WriteTally]) -> str | None:
    """The folder of the refused rows of the successful attempts."""
    if options.refused_dir is None:
        return None
    names = [tally.refused_file for tally in tallies if tally.refused_file is not None]
    return settle_refused(options.refused_dir, run.id, names)


def rows_refused(written: Written) -> Refused:
    """The refusal of a write with refused rows."""
    return Refused(
        "rows_refused",
        f"rows were refused, all others are written: {written.sentence()} (set option refusals to count to accept"
        " this)",
    )


class BatchWriter(DataSourceArrowWriter):
    """Made on the driver, where the run begins; copies write in the tasks, and another one commits."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._sink = sink_of(options, schema)
        self._run = begin_run(options, self._sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._run.check_host(self._options.url)
        with connect(self._options.url) as (runner, store):
            return Message(self._run, runner.run(self._sink.write(store, self._run, iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        end_run(self._options, self._run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  (Spark's)
        """Keep the written rows, which the next run finds, and delete the refused ones."""
        if self._options.refused_dir is not None:
            clear_refused(self._options.refused_dir, self._run.id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Made on the driver for each batch, and again to commit it: messages of tasks carry what a commit needs."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._sink = sink_of(options, schema)
        self._run = begin_run(options, self._sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._run.check_host(self._options.url)
        query_id, batch_id = _batch_of_task()
        run = self._run if query_id is None else replace(self._run, id=f"{query_id}/{batch_id}")
        with connect(self._options.url) as (runner, store):
            run, tally = runner.run(self._write(store, run, iterator))
            return Message(run, tally, query_id)

    async def _write(
        self, store: Store, run: WriteRun, iterator: Iterator[pa.RecordBatch]
    ) -> tuple[WriteRun, WriteTally]:
        if self._options.report is not None:
            feed = FeedName(self._options.report, self._options.tenant)
            run = replace(run, started_at_ms=await first_start(store, feed, run))
        return run, await self._sink.write(store, run, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        run = next((message.run for message in messages if isinstance(message, Message)), self._run)
        end_run(self._options, run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Keep the written rows: the repeated batch finds them."""


def _batch_of_task() -> tuple[str | None, str | None]:
    """The query and the batch of this task, from local properties of Spark that are not documented."""
    context = TaskContext.get()
    if context is None:
        return None, None
    query_id, batch_id = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    return (None, None) if not query_id or not batch_id else (query_id, batch_id)
