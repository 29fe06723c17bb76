"""What a batch and a stream have in common: a sink for what is written, and the end of a write."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.model.errors import Refused
from headrace.model.feed import FeedName
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.write.counts import Message, WriteTally, Written, total
from headrace.pipeline.source.write.dead import DeadSink
from headrace.pipeline.source.write.feed import FeedSink
from headrace.pipeline.source.write.jobs import JobSink
from headrace.pipeline.source.write.keeping import settle_refused
from headrace.pipeline.source.write.report import publish_report
from headrace.pipeline.source.write.run import Run, begin
from headrace.stores.contract.store import Store


class Sink(Protocol):
    """Puts rows into a store so that putting them in again changes nothing. Pickled with its writer."""

    async def check(self, store: Store) -> None:
        """Refuse, on the driver, a write that cannot succeed."""

    async def write(self, store: Store, run: Run, rows: Iterator[pa.RecordBatch]) -> WriteTally:
        """Put a task's rows in and count what became of them."""


def sink_of(options: WriteOptions, schema: StructType) -> Sink:
    """The sink for what is written; refuses a frame whose columns are not its own."""
    if options.what == "dead":
        return DeadSink(options, schema)
    if options.what == "feed":
        return FeedSink(options, schema)
    return JobSink(options, schema)


def begin_run(options: WriteOptions, sink: Sink) -> Run:
    """A run that starts now, on the driver."""
    with opened(options.url) as (runner, store):
        runner.run(sink.check(store))
        return runner.run(begin(store, options.run))


def end_run(options: WriteOptions, run: Run, messages: Sequence[WriterCommitMessage | None]) -> Written:
    """The counts of a run whose tasks have all ended, reported if that is wanted; raises `Refused` when rows were
    refused and that is to fail."""
    tallies = [message.tally for message in messages if isinstance(message, Message)]
    folder = _kept(options, run, tallies)
    if options.report is None:
        written = replace(total(options.what, run, tallies, run.started_at_ms), refused_folder=folder)
    else:
        feed = FeedName(options.report, options.tenant)
        with opened(options.url) as (runner, store):
            found = total(options.what, run, tallies, runner.run(store.now_ms()))
            written = replace(found, refused_folder=folder)
            runner.run(publish_report(store, feed, written))
    if written.refused and options.fails_on_refusal:
        raise rows_refused(written)
    return written


def _kept(options: WriteOptions, run: Run, tallies: Sequence[WriteTally]) -> str | None:
    """Where the refused rows are, now that it is known which tasks count."""
    if options.refused_dir is None:
        return None
    names = [tally.refused_file for tally in tallies if tally.refused_file is not None]
    return settle_refused(options.refused_dir, run.id, names)


def rows_refused(written: Written) -> Refused:
    """The refusal of a write some of whose rows were refused."""
    return Refused(
        "rows_refused",
        f"rows were refused, all others are written: {written.sentence()} (set option refusals to count to let this"
        " pass)",
    )
