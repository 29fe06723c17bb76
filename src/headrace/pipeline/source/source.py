"""`format("headrace")`: lets Spark read and write queues, feeds and the journal."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from headrace.model.errors import BadConfig
from headrace.pipeline.source.compat import DataSourceStreamArrowWriter, check_limit
from headrace.pipeline.source.filters import is_pushdown_on
from headrace.pipeline.source.options import SourceOptions, WriteOptions
from headrace.pipeline.source.schema import Table, table_of


class HeadraceSource(DataSource):
    """Reads and writes a store; the options are those of docs/reference/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        return table_of(self._options()).spark

    # Imported here, so that a task on journals does not import the others.

    def reader(self, schema: StructType) -> DataSourceReader:
        options, table = self._read_options(schema)
        for name, value in (("max", options.events_max), ("min", options.events_min)):
            if value is not None:
                raise BadConfig(f"option {name}EventsPerTrigger is for streams; leave it out, or use spark.readStream")
        if options.starting is not None and options.what != "journal":
            raise BadConfig(
                f"option startingOffsets is for streams of {options.what}, and a batch reads everything; leave it"
                " out, or use spark.readStream"
            )
        if options.what == "journal":
            from headrace.pipeline.source.journal.reader import FilteredJournalReader, JournalReader

            return FilteredJournalReader(options, table) if is_pushdown_on() else JournalReader(options, table)
        if options.what == "feed":
            from headrace.pipeline.source.feed.reader import FeedReader, FilteredFeedReader

            return FilteredFeedReader(options, table) if is_pushdown_on() else FeedReader(options, table)
        from headrace.pipeline.source.records.reader import FilteredRecordReader, RecordReader

        return FilteredRecordReader(options, table) if is_pushdown_on() else RecordReader(options, table)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        options, table = self._read_options(schema)
        if options.events_max is not None:
            check_limit()
        if options.ending is not None:
            raise BadConfig("option endingOffsets is for batches; a stream has no end, use trigger(availableNow=True)")
        if options.what == "journal":
            from headrace.pipeline.source.journal.reader import JournalStream

            return JournalStream(options, table)
        if options.what == "results":
            from headrace.pipeline.source.journal.reader import ResultStream

            return ResultStream(options, table)
        if options.what == "feed":
            from headrace.pipeline.source.feed.reader import FeedStream

            return FeedStream(options, table)
        raise BadConfig(f"{options.what} cannot be streamed, only read as a batch; stream journal, results or feed")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from headrace.pipeline.source.sink.sink import BatchWriter

        return BatchWriter(self._write_options(overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from headrace.pipeline.source.sink.sink import StreamWriter

        return StreamWriter(self._write_options(overwrite), schema)

    def _read_options(self, schema: StructType) -> tuple[SourceOptions, Table]:
        options = self._options()
        table = table_of(options)
        if schema != table.spark:
            raise BadConfig(
                "format headrace has fixed columns; leave out .schema(…), and select columns or name some with option"
                " columns"
            )
        return options, table

    def _write_options(self, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise BadConfig(
                "jobs, dead letters and items are added, never overwritten; write with .mode('append') or"
                " .outputMode('append')"
            )
        return WriteOptions.parse(self.options.copy())  # type: ignore[attr-defined]

    def _options(self) -> SourceOptions:
        # A copy keeps the case-insensitive lookup; dict(…) would not.
        return SourceOptions.parse(self.options.copy())  # type: ignore[attr-defined]
