"""Writes the batches of the history: files by the tasks, checked, committed, told to the store; each exactly once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql.functions import date_from_unix_date, floor, lit, unix_micros

from headrace.model.errors import Refused
from headrace.model.names import Shard
from headrace.pipeline.history import verify
from headrace.pipeline.history.lock import HistoryLock
from headrace.pipeline.history.table import APP, HistoryState
from headrace.pipeline.history.verify import PlannedBatch, read_planned
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.layout import DataFile
from headrace.pipeline.storage.table import DataTable
from headrace.pipeline.storage.write import write_files
from headrace.stores.contract.store import Store

_DAY_US = 86_400_000_000
_AT_ONCE = 16
"""Calls under way at a time: enough to pipeline, below the size of a connection pool."""


class HistoryConsumer:
    """The places of one consumer in the journals of a store."""

    def __init__(self, consumer: str, options: SourceOptions, *, hold: bool) -> None:
        self._consumer = consumer
        # Without names: one that is gone would be refused.
        self._options = replace(options, names=())
        self._hold = hold
        self._shards: dict[str, Shard] = {}
        self._registered: set[str] = set()

    async def advance(self, store: Store, seqs: Mapping[str, int]) -> None:
        """Move the places to these seqs, by `tenant/queue/shard`. A queue that is gone is left alone."""
        if seqs.keys() - self._shards.keys():
            queues = await find_queues(store, self._options)
            self._shards = {str(shard): shard for queue in queues for shard in queue.all_shards()}
        room = asyncio.Semaphore(_AT_ONCE)

        async def move(name: str, seq: int) -> None:
            async with room:
                try:
                    await self._move(store, self._shards[name], seq)
                except Refused:
                    # Deleted, made anew, or behind the history: the stream itself says so where it matters.
                    self._shards.pop(name, None)
                    self._registered.discard(name)

        await asyncio.gather(*(move(name, seq) for name, seq in seqs.items() if name in self._shards))

    async def _move(self, store: Store, shard: Shard, seq: int) -> None:
        if str(shard) not in self._registered:
            await store.journal.register(shard, self._consumer, seq=seq, hold=self._hold)
            self._registered.add(str(shard))
        await store.journal.advance(shard, self._consumer, seq)


class Writer:
    """What Spark calls for each batch (`foreachBatch`). Killed anywhere, the next run begins after the last commit."""

    def __init__(
        self,
        table: DataTable,
        checkpoint: Path,
        lock: HistoryLock,
        state: HistoryState,
        options: SourceOptions,
        consumer: HistoryConsumer | None,
    ) -> None:
        self._table = table
        self._checkpoint = checkpoint
        self._lock = lock
        self._state = state
        self._options = options
        self._consumer = consumer

    def write(self, frame: DataFrame, number: int) -> None:
        """Put the batch that Spark gives this number into the table, in one transaction."""
        batch = self._state.batch + 1
        with self._lock.batch():
            planned = read_planned(self._checkpoint, number)
            steps.crash_point("begun", batch)
            self._add(frame, batch, planned)
        self._advance(planned)
        steps.crash_point("advanced", batch)

    def _add(self, frame: DataFrame, batch: int, planned: PlannedBatch) -> None:
        files = self._write_files(frame, batch) if planned.events else []
        steps.crash_point("written", batch)
        strict = self._options.fails_on_loss
        counts = verify.verify(planned, verify.stored_ranges(files), self._state.shards, strict=strict)
        steps.crash_point("checked", batch)
        # An offset lists the journals in which something happens; the others keep their place.
        others = {name: mark for name, mark in self._state.shards.items() if name not in planned.end.gone}
        then = replace(
            self._state,
            batch=batch,
            events=self._state.events + counts.events,
            skipped=self._state.skipped + counts.skipped,
            lost=self._state.lost + counts.lost,
            shards=others | planned.end.shards,
        )
        if files or then != replace(self._state, batch=batch):
            self._table.commit(files, batch=(APP, batch), state=then)
            self._state = then
        steps.crash_point("committed", batch)

    def _write_files(self, frame: DataFrame, batch: int) -> list[DataFile]:
        # The UTC date, whatever the time zone of the session is.
        day = date_from_unix_date(floor(unix_micros("happened_at") / _DAY_US).cast("int"))
        rows = frame.withColumns({"day": day, "batch": lit(batch).cast("long")})
        # Each task writes what it has read: no event moves between them.
        return write_files(rows, self._table, batch=batch, summarize=verify.seq_runs)

    def _advance(self, planned: PlannedBatch) -> None:
        if self._consumer is None:
            return
        seqs = {name: span.upto for name, span in planned.spans.items() if span.count}
        if seqs:
            with connect(self._options.url) as (runner, store):
                runner.run(self._consumer.advance(store, seqs))
