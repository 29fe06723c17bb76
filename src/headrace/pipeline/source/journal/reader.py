"""Reads journals for Spark: planned on the driver, read by tasks that open the store themselves."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.model.errors import StoreUnavailable
from headrace.model.event import Span
from headrace.pipeline.source.journal.convert import record_batch
from headrace.pipeline.source.options import Options
from headrace.pipeline.source.plan import plan
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.urls import check_url
from headrace.stores.contract.journal import Journal
from headrace.stores.open import open_store


class JournalPartition(InputPartition):
    """What one task reads."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__(spans)
        self.spans = spans


class JournalReader(DataSourceReader):
    """The journals that the options name, as they were when the query was planned."""

    def __init__(self, options: Options, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        return [JournalPartition(spans) for spans in asyncio.run(self._plan())]

    async def _plan(self) -> list[tuple[Span, ...]]:
        store = await open_store(self._options.url)
        try:
            return await plan(store, self._options)
        finally:
            await store.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        spans = partition.spans if isinstance(partition, JournalPartition) else ()
        if spans:
            yield from _read(self._options.url, spans)


def _read(url: str, spans: tuple[Span, ...]) -> Iterator[pa.RecordBatch]:
    # Opened here, in the task: a connection that was open before a fork is not safe to use after it.
    check_url(url)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        try:
            for span in spans:
                after = span.after
                while after < span.upto:
                    # A page is a transaction of its own: a long one would keep SQLite's log from being cut.
                    batch, after = runner.run(read_page(store.journal, span, after))
                    yield batch
        finally:
            runner.run(store.close())


async def read_page(journal: Journal, span: Span, after: int) -> tuple[pa.RecordBatch, int]:
    """The next events of a span after `after`, and the seq that they reach."""
    entries = await journal.read(span.shard, after, span.upto)
    if not entries or entries[0].first_seq != after + 1:
        raise StoreUnavailable(
            f"events of {span.shard} after seq {after} were dropped while they were read, by retention; read again, or"
            " let the queue keep its journal longer"
        )
    return record_batch(span.shard, entries), entries[-1].last_seq
