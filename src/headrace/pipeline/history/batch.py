"""Writes the batches of the history: files by the tasks, checked, committed, told to the store; each exactly once."""

from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql.functions import date_from_unix_date, floor, lit, unix_micros

from headrace.pipeline.history import verify
from headrace.pipeline.history.consumer import HistoryConsumer
from headrace.pipeline.history.lock import HistoryLock
from headrace.pipeline.history.planned import PlannedBatch, read_planned
from headrace.pipeline.history.state import APP, HistoryState
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.layout import DataFile
from headrace.pipeline.storage.table import DataTable
from headrace.pipeline.storage.write import write_files

_DAY_US = 86_400_000_000


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
