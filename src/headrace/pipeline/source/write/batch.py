"""Writes a frame into a store, in one run."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.write.counts import Message
from headrace.pipeline.source.write.keeping import clear_refused
from headrace.pipeline.source.write.sink import begin_run, end_run, sink_of


class BatchWriter(DataSourceArrowWriter):
    """Made on the driver, where the run begins; a copy of it writes in each task, and another one commits."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._sink = sink_of(options, schema)
        self._run = begin_run(options, self._sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._run.check_here(self._options.url)
        with opened(self._options.url) as (runner, store):
            return Message(self._run, runner.run(self._sink.write(store, self._run, iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        end_run(self._options, self._run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  (Spark's)
        """What was written stays: the next run finds it and goes on from there. So it does with what was refused."""
        if self._options.refused_dir is not None:
            clear_refused(self._options.refused_dir, self._run.id)
