"""Runs statistics: a query that follows a store, or all events of a frame in one go."""

import sys
from asyncio import Runner
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, StructField, StructType

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.pipeline.files import locked
from headrace.pipeline.source.compat import limit_options
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.spark_session import is_connect, partition_options
from headrace.pipeline.stats.columns import ROW, STATS, Row
from headrace.pipeline.stats.files import GLOB, Files
from headrace.pipeline.stats.live import Counted, Live
from headrace.pipeline.stats.merge import Visited, merge
from headrace.pipeline.stats.publish import Publisher
from headrace.pipeline.stats.state import StatsState, check_folder, load, save
from headrace.pipeline.stats.touched import NAMED
from headrace.pipeline.tables.stats import beginnings, stats

ROWS_PER_PART = 50_000
"""Rows of statistics that come to the driver at once: some 20 MB."""


class StatsWritten(Struct, frozen=True):
    """What a batch of statistics came to."""

    windows: int
    rows: int
    changed: int
    """Windows whose files were written; the others were as they should be."""
    items: int
    """That were published or edited."""


def follow_stats(
    spark: SparkSession,
    url: str,
    folder: Path | str,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    window_ms: int = 60_000,
    once: bool = False,
    every_ms: int = 2_000,
    events_max: int = 100_000,
    feed: str | None = "stats",
    fail_on_loss: bool = True,
    tell: Callable[[str], None] | None = None,
    on_batch: Callable[[Counted], None] | None = None,
) -> StreamingQuery:
    """Follow the store at `url`: write each window to a file of `folder`, and publish it to the tenants' feeds.

    Every batch counts the windows anew in which something happened, from the store's journal: a window is exact
    whenever it is read, and final once nothing more can happen in it. `once` ends at what is there now; else look every
    `every_ms`, at no more than `events_max` events. `tell` is given sentences for people (stderr by default), and
    `on_batch` what each batch came to. Raises `BadConfig` for a folder that holds anything else, or windows of another
    length.
    """
    if on_batch is not None and is_connect(spark):
        raise BadConfig(
            "on_batch cannot be called through Spark Connect, whose server counts; follow the query's progress"
        )
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would find the same faults, but wrap them into a traceback of its own.
    SourceOptions.parse(options)
    if feed is not None:
        _ = FeedName(feed)
    place = check_folder(folder, window_ms)
    live = Live(place, options, window_ms, feed, tell or _tell, on_batch)
    events = (
        spark.readStream.format("headrace")
        .options(**options, columns=",".join(NAMED), **limit_options(events_max))
        .options(**partition_options(spark, events_max))
        .option("failOnDataLoss", str(fail_on_loss).lower())
        .load()
    )
    writer = events.writeStream.queryName("stats").foreachBatch(live.take)
    writer = writer.option("checkpointLocation", f"file:{place / '_checkpoint'}")
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_ms} milliseconds")
    return writer.start()


def write_stats(
    spark: SparkSession,  # noqa: ARG001  (runs begin alike)
    events: DataFrame,
    folder: Path | str,
    *,
    window_ms: int = 60_000,
    url: str | None = None,
    feed: str | None = None,
    on_window: Callable[[Visited], None] | None = None,
) -> StatsWritten:
    """Count all windows of a frame of events (the history, or the journal), into the files that `follow_stats` writes.

    What is there with as many events or more stays: a query that runs beside it may be ahead of the history. With
    `feed` and the `url` of the store, the newest windows are published as well, as many as the feeds hold.
    """
    place = check_folder(folder, window_ms)
    frame = stats(events, window_ms).persist()
    try:
        with locked(place / "_lock"):
            state = load(place, window_ms)
            _note(state, events)
            lacks_ms = None if feed is None else state.lacks(feed)
            visits = merge(place, state, Files(place, window_ms), 0, _fresh(frame), to_end=True)
            if url is None or feed is None:
                written = _count(visits, on_window)
            else:
                with connect(url) as (runner, store):
                    publisher = Publisher(store, feed, window_ms, lacks_ms, state.floors)
                    written = _publish(runner, publisher, visits, on_window)
                state.feeds[feed] = None
            save(place, state)
    finally:
        frame.unpersist()
    return written


def read_stats(spark: SparkSession, folder: Path | str) -> DataFrame:
    """The windows of a folder, with the columns of the table and `day`; without rows when there are none."""
    place = Path(folder).absolute()
    schema = StructType([*STATS.spark.fields, StructField("day", DateType())])
    if next(place.glob(GLOB), None) is None:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(f"file:{place}")


def _tell(sentence: str) -> None:
    print(f"headrace: {sentence}", file=sys.stderr, flush=True)


def _note(state: StatsState, events: DataFrame) -> None:
    """Note how far the events go, and of which queues all of them are there."""
    found = events.groupBy("tenant", "queue", "shard").agg(F.max(F.struct("epoch", "seq")).alias("last")).collect()
    lasts = {f"{row.tenant}/{row.queue}/{row.shard}": (int(row.last.epoch), int(row.last.seq)) for row in found}
    for name, last in lasts.items():
        state.counted[name] = max(state.counted.get(name, (0, 0)), last)
    for row in beginnings(events).collect():
        name = f"{row.tenant}/{row.queue}"
        # From the first event on, and yet they may end before those that nobody has counted.
        if row.is_known and state.is_met(name, lasts):
            state.trust(name)
        elif name not in state.queues:
            state.doubt(name, 0)
            state.need(name)


def _fresh(frame: DataFrame) -> Iterator[tuple[int, list[Row]]]:
    """The rows window by window, oldest first, a part of them at a time."""
    parts = -(-frame.count() // ROWS_PER_PART) or 1
    names = [name for name in ROW.names if name != "backlog"]
    rows = frame.select(F.unix_millis("window_start").alias("start_ms"), *names)
    sorted_rows = rows.repartitionByRange(parts, "start_ms").sortWithinPartitions("start_ms")
    for start_ms, found in groupby(sorted_rows.toLocalIterator(), key=lambda row: int(row.start_ms)):
        yield start_ms, [{**{name: row[name] for name in names}, "backlog": None} for row in found]


def _count(visits: Iterator[Visited], on_window: Callable[[Visited], None] | None) -> StatsWritten:
    windows = rows = changed = 0
    for each in visits:
        windows, rows, changed = windows + 1, rows + len(each.rows), changed + each.is_changed
        if on_window is not None:
            on_window(each)
    return StatsWritten(windows, rows, changed, 0)


def _publish(
    runner: Runner, publisher: Publisher, visits: Iterator[Visited], on_window: Callable[[Visited], None] | None
) -> StatsWritten:
    def take(each: Visited) -> None:
        runner.run(publisher.add(each))
        if on_window is not None:
            on_window(each)

    counted = _count(visits, take)
    return StatsWritten(counted.windows, counted.rows, counted.changed, runner.run(publisher.flush()))
