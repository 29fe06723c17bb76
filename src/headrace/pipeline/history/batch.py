"""Writes the batches of the history: staged, checked, placed, noted, told to the store; each exactly once."""

from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import DataFrame

from headrace.model.errors import BadConfig
from headrace.pipeline.history import delta, steps, verify
from headrace.pipeline.history.consumer import HistoryConsumer
from headrace.pipeline.history.lock import HistoryLock
from headrace.pipeline.history.place import place, remove_leftovers
from headrace.pipeline.history.planned import PlannedBatch, read_planned
from headrace.pipeline.history.resume import is_named, is_reached
from headrace.pipeline.history.staging import clear, stage
from headrace.pipeline.history.state import HistoryState, read_state, write_state
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.store_access import connect


class Writer:
    """What Spark calls for each batch (`foreachBatch`). Killed anywhere, the next run brings the batch to its end."""

    def __init__(
        self,
        folder: Path,
        lock: HistoryLock,
        first_batch: int,
        options: SourceOptions,
        consumer: HistoryConsumer | None,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._first_batch = first_batch
        self._options = options
        self._consumer = consumer
        self._is_first = True

    def write(self, frame: DataFrame, number: int) -> None:
        """Put the batch that Spark gives this number into place, unless it is."""
        batch = self._first_batch + number
        with self._lock.batch():
            state = self._state()
            planned = read_planned(self._folder, number)
            steps.reached("begun", batch)
            if batch == state.batch + 1:
                self._add(frame, batch, planned, state)
            elif batch != state.batch or not is_reached(state, planned.end):
                raise BadConfig(
                    f"the history in {self._folder} is at batch {state.batch:,}, and the checkpoint at another batch"
                    f" {batch:,}; start again, and the checkpoint is made anew"
                )
        self._advance(planned)
        steps.reached("advanced", batch)

    def _state(self) -> HistoryState:
        state = read_state(self._folder)
        if state is None:
            raise BadConfig(f"the history in {self._folder} was removed while it was written; start again")
        return state

    def _add(self, frame: DataFrame, batch: int, planned: PlannedBatch, state: HistoryState) -> None:
        if self._is_first:
            remove_leftovers(self._folder, batch)
            self._is_first = False
        files = stage(frame, self._folder, planned.events) if planned.events else []
        steps.reached("staged", batch)
        held = verify.held_by(files)
        counts = verify.verify(planned, held, state.shards, strict=self._options.fails_on_loss)
        steps.reached("checked", batch)
        placed = place(self._folder, files, batch)
        steps.reached("placed", batch)
        then = self._next(state, batch, planned, counts)
        if state.form == "delta" and placed:
            then = replace(then, committed=batch)
            delta.commit(self._folder, placed, state, then)
            steps.reached("committed", batch)
        write_state(self._folder, then)
        steps.reached("noted", batch)
        clear(self._folder)

    def _next(
        self, state: HistoryState, batch: int, planned: PlannedBatch, counts: verify.VerifiedCounts
    ) -> HistoryState:
        # Journals that the options leave out keep their place; one that is gone begins anew if it comes back.
        # The first batch of a checkpoint lists every journal, the others those in which something happens.
        gone = state.shards.keys() if batch == self._first_batch else set(planned.end.gone)
        others = {
            name: mark for name, mark in state.shards.items() if name not in gone or not is_named(name, self._options)
        }
        return replace(
            state,
            batch=batch,
            events=state.events + counts.events,
            skipped=state.skipped + counts.skipped,
            lost=state.lost + counts.lost,
            payloads=state.payloads or self._options.payloads,
            shards=others | planned.end.shards,
        )

    def _advance(self, planned: PlannedBatch) -> None:
        if self._consumer is None:
            return
        seqs = {name: span.upto for name, span in planned.spans.items() if span.count}
        if seqs:
            with connect(self._options.url) as (runner, store):
                runner.run(self._consumer.advance(store, seqs))
