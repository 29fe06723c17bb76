"""Runs statistics: a query that follows a store, or the events of a history or a journal in one go."""

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.times import duration_text
from headrace.pipeline.event_source import Events
from headrace.pipeline.source.compat import limit_options
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.spark_session import is_connect, partition_options
from headrace.pipeline.stats.counted import SHARD
from headrace.pipeline.stats.publish import publish_change
from headrace.pipeline.stats.table import (
    TRIES,
    StatsChange,
    StatsState,
    add_events,
    commit,
    no_change,
    read_windows,
    state_of,
    stats_table,
)
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import Conflict, DataTable
from headrace.pipeline.tables.increment import merge_small, rows_in
from headrace.pipeline.tables.layouts import STATS_COLUMNS, check_window
from headrace.pipeline.tables.stats import READ


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


WINDOW_MS = 60_000
"""Unless somebody wants other windows."""
EVENTS_MAX = 100_000
"""In a batch, unless somebody wants another bound."""


class StatsWritten(Struct, frozen=True):
    """What a run of statistics came to."""

    events: int
    """That were not counted before."""
    rows: int
    """That the table has."""
    changed: int
    """Rows that were added or changed."""
    items: int
    """That were published or edited."""


def follow_stats(
    spark: SparkSession,
    url: str,
    folder: Path | str | Location,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    window_ms: int = WINDOW_MS,
    once: bool = False,
    every_ms: int = 2_000,
    events_max: int | None = None,
    feed: str | None = "stats",
    fail_on_loss: bool = True,
    on_batch: Callable[[BatchStats], None] | None = None,
) -> StreamingQuery:
    """Follow the store at `url`: add its events to the table of statistics in `folder`, and publish the windows that
    change to the tenants' feeds.

    Each event is counted once, whatever is stopped or killed, and whoever else writes statistics there. `once` ends at
    what is there now; else look every `every_ms`, at no more than `events_max` events (100,000 if
    that is None; Spark 4.1 has no bound). `on_batch` is given what each
    batch came to. Raises `BadConfig` for a folder that holds anything else, or windows of another length.
    """
    if on_batch is not None and is_connect(spark):
        raise BadConfig(
            "on_batch cannot be called through Spark Connect, whose server counts; follow the query's progress"
        )
    limit = limit_options(events_max, EVENTS_MAX)
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would wrap the same errors in a traceback.
    SourceOptions.parse(options)
    if feed is not None:
        _ = FeedName(feed)
    table = _prepared(folder, window_ms)
    live = Live(table, url, window_ms, feed, on_batch)
    events = (
        spark.readStream.format("headrace")
        .options(**options, columns=",".join(dict.fromkeys((*SHARD, "seq", *READ))), **limit)
        .options(**partition_options(spark, events_max or EVENTS_MAX))
        .option("failOnDataLoss", str(fail_on_loss).lower())
        .load()
    )
    writer = events.writeStream.queryName("stats").foreachBatch(live.take)
    writer = writer.option("checkpointLocation", table.location.child("_checkpoint").spark_url)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_ms} milliseconds")
    return writer.start()


def write_stats(
    spark: SparkSession,
    events: Events,
    folder: Path | str | Location,
    *,
    window_ms: int | None = None,
    rebuild: bool = False,
    url: str | None = None,
    feed: str | None = None,
) -> StatsWritten:
    """Add events to the table of statistics that `follow_stats` writes, those that it does not have yet.

    Of a history, only batches that this has not read are read; `rebuild` makes all windows anew. Windows are of
    `window_ms`; when that is None, as those that are there, else of a minute. With `feed` and the `url` of the store,
    the windows that have changed are published, as many as the feeds hold.
    """
    table = stats_table(folder)
    if window_ms is not None:
        check_window(window_ms)
        if not rebuild:
            _prepared(folder, window_ms)
    change = _add(events, table, window_ms, feed if url else None, rebuild=rebuild)
    items = 0
    if url is not None and feed is not None:
        floors = dict(change.state.floors)
        with connect(url) as (runner, store):
            items = runner.run(publish_change(store, feed, table, spark, change, floors))
        _note_published(table, feed, change.state.feeds.get(feed, 0), floors)
    merge_small(table)
    return StatsWritten(change.events, rows_in(table), change.windows, items)


def read_stats(spark: SparkSession, folder: Path | str | Location) -> DataFrame:
    """The windows of a folder, with the columns of the table and `day`; without rows when there are none."""
    table = stats_table(folder)
    state = state_of(table.version())
    if state is None:
        return spark.createDataFrame([], STATS_COLUMNS.spark.add("day", "date"))
    return read_windows(table, spark, state)


def _prepared(folder: Path | str | Location, window_ms: int) -> DataTable:
    check_window(window_ms)
    table = stats_table(folder)
    state = state_of(table.version())
    if state is not None and state.window_ms != window_ms:
        raise BadConfig(
            f"{table.location} holds windows of {duration_text(state.window_ms)}, and {duration_text(window_ms)} was"
            " asked for; make them anew with --rebuild, name another folder, or ask for the same length"
        )
    table.prepare()
    return table


def _add(events: Events, table: DataTable, window_ms: int | None, feed: str | None, *, rebuild: bool) -> StatsChange:
    for left in range(TRIES - 1, -1, -1):
        now = table.prepare()
        found = state_of(now)
        state = found or StatsState(window_ms=window_ms or WINDOW_MS)
        if rebuild:
            state = StatsState(window_ms=window_ms or state.window_ms, feeds=state.feeds, floors=state.floors)
        is_on = events.head is not None and state.source == events.source and 0 <= state.batch <= events.head
        after = state.batch
        if events.head is not None:
            state = msgspec.structs.replace(state, source=events.source, batch=events.head)
        if is_on and after == events.head:
            return no_change(state, feed)
        frame = events.between(after, state.batch) if is_on else events.frame
        try:
            return add_events(frame, table, now, state, is_anew=rebuild, feed=feed)
        except Conflict:
            if not left:
                raise
    raise AssertionError("there is at least one try")


def _note_published(table: DataTable, feed: str, since_ms: int | None, floors: dict[str, int]) -> None:
    """Note that all windows were published, unless another run has committed since: then they are compared again."""
    now = table.prepare()
    state = state_of(now)
    if state is not None and state.feeds.get(feed, 0) == since_ms and (since_ms is not None or state.floors != floors):
        commit(table, now, msgspec.structs.replace(state, feeds={**state.feeds, feed: None}, floors=floors))
