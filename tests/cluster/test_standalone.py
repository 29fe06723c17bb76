"""Promises on a standalone cluster: a Master and two Workers, as an administrator starts them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.pipeline import enqueue, follow_history, read_history
from headrace.pipeline.event_source import read_journal
from headrace.pipeline.flows.fleet.run import run_fleet
from tests.pipeline.busy_journal import bustle
from tests.pipeline.filled_journals import fill_store
from tests.pipeline.flows.fleet_runs import check_once, send
from tests.pipeline.shared_stores import fresh_url
from tests.pipeline.writes import counts_of, events, waiting

pytestmark = pytest.mark.parametrize("spark", ["standalone"], indirect=True)

MAIL, BULK = Queue("mail", "acme", 4), Queue("bulk", shards=2)
APP = "tests.pipeline.flows.fleet_app:app"
SECONDS_MAX = 120


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("redis", tmp_path)


def test_executors_of_two_workers_read_a_journal_and_enqueue_jobs(spark: SparkSession, url: str) -> None:
    fill_store(url, bustle(MAIL, 30))

    def processes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"pid": [os.getppid()] * batch.num_rows})

    journal = spark.read.format("headrace").options(url=url, tenant="*", minPartitions="4").load()
    found = journal.groupBy("event").count().collect()
    executors = journal.mapInArrow(processes, "pid long").distinct().count()
    written = enqueue(spark.range(1_000).selectExpr("'k' AS kind", "id AS payload"), url, queue="bulk", shards=2)

    assert dict(map(tuple, found)) == dict(events(url, MAIL))
    assert executors == 2
    assert counts_of(written) == {"created": 1_000}
    assert len(waiting(url, BULK)) == 1_000


def test_a_history_is_written_by_the_executors_and_has_each_event_once(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    fill_store(url, bustle(MAIL, 30))

    query = follow_history(spark, url, tmp_path / "history", once=True)
    ended = query.awaitTermination(SECONDS_MAX)

    history = read_history(spark, tmp_path / "history")
    assert (ended, query.exception()) == (True, None)
    assert history.count() == history.select("queue", "shard", "seq").distinct().count() == events(url, MAIL).total()


def test_a_fleet_works_on_both_workers(spark: SparkSession, url: str) -> None:
    send(url, "double", *({"number": number} for number in range(100)))

    report = run_fleet(spark, APP, url=url)

    assert (report.end_reason, report.slots) == ("drained", 2)
    assert check_once(url) == {"done": 90, "dead": 10}


def test_a_store_that_is_a_file_is_refused_before_anything_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        BadConfig, match=r"^a SQLite store can be read by a local Spark only, and this one runs on spark:"
    ):
        read_journal(spark, fresh_url("sqlite", tmp_path))
