"""Promises of a stream that Spark itself runs: tried by a local Spark, and by one with executors of its own."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.names import Queue, Shard
from headrace.pipeline.query_progress import lag, lost, skipped
from tests.pipeline.filled_journals import fill, fill_store, keep
from tests.pipeline.store_scenarios import Row, store_events
from tests.support.stores import sqlite_url

MAIL, NEWS, OTHER = Queue("mail", shards=2), Queue("news", "acme"), Queue("other", "birch")
SECONDS_MAX = 60
"""For a query that has little to do."""


class Sink:
    """The rows of each batch, by its number: a batch that is run again replaces itself."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.batches: dict[int, list[Row]] = {}
        self._fails_at = fails_at

    def take(self, frame: DataFrame, number: int) -> None:
        rows = frame.toArrow().to_pylist()
        if number == self._fails_at:
            self._fails_at = None
            raise RuntimeError("the sink broke")
        self.batches[number] = rows

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[number]) for number in sorted(self.batches)]

    @property
    def rows(self) -> list[Row]:
        return sorted((row for rows in self.batches.values() for row in rows), key=place)


def place(row: Row) -> tuple[object, ...]:
    return row["tenant"], row["queue"], row["shard"], row["seq"]


def start(
    spark: SparkSession, sink: Sink, checkpoint: Path, *, available_now: bool = True, **options: str
) -> StreamingQuery:
    stream = spark.readStream.format("headrace").options(**options).load()
    writer = stream.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def run(spark: SparkSession, sink: Sink, checkpoint: Path, **options: Any) -> StreamingQuery:
    """A query from a checkpoint to the head that it sees at its start."""
    query = start(spark, sink, checkpoint, **options)
    assert query.awaitTermination(SECONDS_MAX)
    return query


def test_a_stream_reads_each_event_once_through_failures_restarts_and_other_limits(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    sink, checkpoint = Sink(fails_at=1), tmp_path / "checkpoint"
    fill_store(url, fill(MAIL, 50, every_ms=10), fill(NEWS, 20, every_ms=500))

    # Breaks in its second batch, which the next run reads again with other partitions.
    with pytest.raises(StreamingQueryException, match="the sink broke"):
        run(spark, sink, checkpoint, url=url, tenant="*", maxEventsPerTrigger="30")
    again = run(spark, sink, checkpoint, url=url, tenant="*", maxEventsPerTrigger="6", minPartitions="3")
    lags = [lag(progress) for progress in again.recentProgress if progress.numInputRows][1:]
    query = start(spark, sink, checkpoint, available_now=False, url=url, tenant="*")
    try:
        fill_store(url, fill(NEWS, 5, since=20), fill(OTHER, 4))
        while not any(row["tenant"] == "birch" for row in sink.rows):
            query.processAllAvailable()
    finally:
        query.stop()

    assert sink.sizes[:4] == [30, 30, 6, 4]
    assert lags == [4, 0]
    assert sink.rows == sorted(store_events(url, [MAIL, NEWS, OTHER]), key=place)


def test_what_a_stream_misses_is_refused_or_skipped_with_a_count_in_the_progress(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, checkpoint, url = Sink(), tmp_path / "checkpoint", sqlite_url(tmp_path)
    fill_store(url, fill(NEWS, 6))
    run(spark, sink, checkpoint, url=url, tenant="acme")
    fill_store(url, fill(NEWS, 10, since=6), keep(Shard(NEWS), 3))

    with pytest.raises(
        StreamingQueryException, match=r"acme/news/0 up to seq 6, and retention has dropped what follows"
    ):
        run(spark, sink, checkpoint, url=url, tenant="acme")
    query = run(spark, sink, checkpoint, url=url, tenant="acme", failOnDataLoss="false")

    assert sink.sizes == [6, 3]
    assert query.lastProgress is not None
    assert (skipped(query.lastProgress), lost(query.lastProgress), lag(query.lastProgress)) == (8, 0, 0)
