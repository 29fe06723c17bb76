"""Statistics of a running store: the events of each batch are added to their windows, and these are published."""

from collections.abc import Callable

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame

from headrace.pipeline.source.store_access import connect
from headrace.pipeline.stats.publish import publish_change
from headrace.pipeline.stats.table import TRIES, StatsChange, StatsState, add_events, state_of
from headrace.pipeline.storage.table import Conflict, DataTable


class BatchStats(Struct, frozen=True):
    """What a batch came to."""

    batch: int
    events: int
    windows: int
    """Rows that were added or changed."""
    items: int
    """That were published or edited."""


class Live:
    """Takes the batches of one query."""

    def __init__(
        self,
        table: DataTable,
        url: str,
        window_ms: int,
        feed: str | None,
        on_batch: Callable[[BatchStats], None] | None,
    ) -> None:
        self._table = table
        self._url = url
        self._window_ms = window_ms
        self._feed = feed
        self._on_batch = on_batch
        self._is_published = False
        self._floors: dict[str, int] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        """Add the events of a batch, and publish the windows that have changed."""
        # The store is read once for all that is asked of the batch.
        kept = frame.persist()
        try:
            change = self._add(kept)
        finally:
            kept.unpersist()
        if not change.events:
            return
        items = 0
        if self._feed is not None:
            with connect(self._url) as (runner, store):
                self._floors = change.state.floors | self._floors
                items = runner.run(
                    publish_change(store, self._feed, self._table, frame.sparkSession, change, self._floors)
                )
            # Noted with the next commit: a run that is killed before publishes these windows once more.
            self._is_published = True
        if self._on_batch is not None:
            self._on_batch(BatchStats(batch, change.events, change.windows, items))

    def _add(self, frame: DataFrame) -> StatsChange:
        for left in range(TRIES - 1, -1, -1):
            now = self._table.prepare()
            state = state_of(now) or StatsState(window_ms=self._window_ms)
            if self._is_published and self._feed is not None:
                state = msgspec.structs.replace(
                    state, feeds={**state.feeds, self._feed: None}, floors=state.floors | self._floors
                )
            try:
                change = add_events(frame, self._table, now, state, feed=self._feed)
            except Conflict:
                if not left:
                    raise
            else:
                self._is_published = False
                return change
        raise AssertionError("there is at least one try")
