"""Promises of the runs: a table that DuckDB, Polars and people can read, written where it may be written."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.run import read_journal, summarise, write_jobs
from headrace.stores.contract.store import Store
from tests.pipeline.stories import tell, url_of

QUEUE = Queue("mail", "acme", 3)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = url_of(tmp_path / "jobs.db")

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=QUEUE, id=id, kind="k") for id in "abcde"], now_ms=1_000)
        await store.jobs.cancel(QUEUE, ["b", "d"], now_ms=2_000)

    tell(url, story)
    return url


def test_the_table_of_jobs_is_plain_parquet_and_its_rows_are_counted(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "table"

    count = write_jobs(spark, url, str(path))

    found = sorted((row["id"], row["outcome"]) for row in pq.read_table(path).to_pylist())
    assert count == 5
    assert found == [("a", None), ("b", "cancelled"), ("c", None), ("d", "cancelled"), ("e", None)]


def test_a_table_that_is_there_is_replaced(spark: SparkSession, url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    write_jobs(spark, url, path)

    async def more(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=QUEUE, id="f", kind="k")], now_ms=3_000)

    tell(url, more)

    assert write_jobs(spark, url, path) == 6


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_table_is_never_overwritten(spark: SparkSession, url: str, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "home" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")

    with pytest.raises(BadConfig, match="exists and is no table that Spark wrote; name a folder that is new or empty"):
        write_jobs(spark, url, str(precious.parent if kind == "folder" else precious))

    assert precious.read_text() == "mine"


def test_a_fault_is_found_before_spark_wraps_it(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no store at"):
        read_journal(spark, url_of(tmp_path / "gone.db"))


def test_a_summary_counts_events_jobs_and_where_they_stand(spark: SparkSession, url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    write_jobs(spark, url, path)

    summary = summarise(spark, url, path)

    assert (summary.events, summary.jobs) == (7, 5)
    assert summary.standing == [{"tenant": "acme", "queue": "mail", "open": 3, "done": 0, "cancelled": 2, "dead": 0}]
    assert [(row["event"], row["events"]) for row in summary.events_by_queue] == [("cancelled", 2), ("enqueued", 5)]
