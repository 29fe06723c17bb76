"""Promises of Spark Connect: a client without Java runs every pipeline but fleet and map, as on a driver of its own."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline import (
    DataDir,
    backfill_jobs,
    enqueue,
    follow_history,
    follow_rows,
    follow_stats,
    ingest_rows,
    map_rows,
    read_history,
    read_stats,
    replay_dead_letters,
    run_fleet,
    views,
    write_report,
    write_tables,
)
from headrace.pipeline.audit.run import audit
from headrace.pipeline.event_source import events
from headrace.pipeline.query_progress import Tasks, lag, serve_metrics, tasks
from headrace.stores.contract.store import Store
from tests.pipeline.busy_journal import bustle
from tests.pipeline.filled_journals import fill_store
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.writes import FAILED, drain, waiting
from tests.pipeline.writes import events as counts_of

MAIL = Queue("mail", "acme", 2)
SECONDS_MAX = 120
COLUMNS = {"kind": "kind", "payload": "payload", "key": "key"}
APP = "tests.pipeline.flows.fleet_app:app"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


def counted(counts: Counter[str]) -> dict[str, int]:
    return {event: count for event, count in counts.items() if count}


def write_history(spark: SparkSession, url: str, data_dir: DataDir) -> None:
    query = follow_history(spark, url, data_dir.history, once=True)
    assert query.awaitTermination(SECONDS_MAX)
    assert query.exception() is None


def test_the_journal_is_read_without_java_and_without_registering_anything(spark: SparkSession, url: str) -> None:
    fill_store(url, bustle(MAIL, 20))

    journal = spark.read.format("headrace").options(url=url, tenant="*").load()

    assert type(journal).__module__ == "pyspark.sql.connect.dataframe"
    assert dict(map(tuple, journal.groupBy("event").count().collect())) == counted(counts_of(url, MAIL))
    assert SparkContext._gateway is None  # where pyspark keeps its Java


@pytest.mark.filterwarnings("ignore:WARN WindowExpression")  # a client shows what a server of its own Java would log
def test_a_history_is_written_once_and_goes_on_and_every_table_and_the_report_are_made_of_it(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    fill_store(url, bustle(MAIL, 20))
    query = follow_history(spark, url, data_dir.history, every_ms=100)
    query.processAllAvailable()
    query.stop()
    fill_store(url, bustle(MAIL, 20, seed=2))
    write_history(spark, url, data_dir)

    history = events(spark, None, data_dir)
    write_tables(spark, history, data_dir)
    page = write_report(spark, data_dir)

    found = read_history(spark, data_dir.history).groupBy("event").count().collect()
    counts = counted(counts_of(url, MAIL))
    assert dict(map(tuple, found)) == counts
    assert len(pq.read_table(data_dir.table("attempts"))) == counts["claimed"]
    assert sum(row["done"] for row in read_stats(spark, data_dir.table("stats")).collect()) == counts["done"]
    assert len(pq.read_table(data_dir.table("errors"))) > 0
    assert len(pq.read_table(data_dir.table("usage"))) > 0
    assert data_dir.report.is_file(), page
    assert tasks(spark) == Tasks(0, 0)


def test_live_statistics_are_those_of_the_journal_and_call_no_listener(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    fill_store(url, bustle(MAIL, 20))
    folder = data_dir.table("stats")

    query = follow_stats(spark, url, folder, once=True)
    ended = query.awaitTermination(SECONDS_MAX)

    assert (ended, query.exception()) == (True, None)
    assert query.lastProgress is not None
    assert lag(query.lastProgress) == 0
    done = sum(row["done"] for row in read_stats(spark, folder).collect())
    assert done == counts_of(url, MAIL)["done"]
    with pytest.raises(BadConfig, match="on_batch cannot be called through Spark Connect"):
        follow_stats(spark, url, folder, once=True, on_batch=print)


def test_rows_are_ingested_once_from_a_batch_and_from_a_stream(spark: SparkSession, url: str, tmp_path: Path) -> None:
    rows = spark.range(20).selectExpr("'k' AS kind", "named_struct('n', id) AS payload", "CAST(id AS STRING) AS key")
    rows.write.parquet(f"file:{tmp_path}/rows")
    stream = spark.readStream.schema(rows.schema).parquet(f"file:{tmp_path}/rows")

    first = ingest_rows(rows, url, COLUMNS, name="numbers", queue="acme", refused=tmp_path / "refused")
    again = ingest_rows(rows, url, COLUMNS, name="numbers", queue="acme")
    query = follow_rows(stream, url, COLUMNS, tmp_path / "state", name="streamed", queue="streamed", once=True)
    ended = query.awaitTermination(SECONDS_MAX)

    assert (first.created, again.created, again.duplicate) == (20, 0, 20)
    assert (ended, query.exception()) == (True, None)
    assert len(waiting(url, Queue("acme"))) == len(waiting(url, Queue("streamed"))) == 20
    with pytest.raises(Refused, match="rows were refused, all others are written"):
        enqueue(spark.sql("SELECT 'no queue' AS kind, 'a b' AS queue"), url)
    with pytest.raises(BadConfig, match=r"mapping payload .* names 'nope', which does not exist; columns are"):
        ingest_rows(rows, url, COLUMNS | {"payload": "struct(nope)"}, name="numbers", queue="acme")


def test_dead_letters_are_replayed_and_jobs_of_the_history_are_enqueued_again(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    call_store(url, lambda store: store.queues.configure(MAIL, {"journal_payloads": True}))
    call_store(
        url,
        lambda store: store.jobs.enqueue([Job(queue=MAIL, id=f"job-{n}", kind="k", payload=b"1") for n in range(4)]),
    )
    drain(url, MAIL, FAILED)

    replayed = replay_dead_letters(spark, url, "error_class = 'Odd'")
    drain(url, MAIL)
    filled = backfill_jobs(spark, url, data_dir, "event = 'done'", name="once more")

    assert (replayed.found, replayed.replayed) == (4, 4)
    assert filled.created == 4
    assert len(waiting(url, MAIL)) == 4


def test_an_audit_finds_nothing_wrong_with_a_store_that_nobody_touched(spark: SparkSession, url: str) -> None:
    fill_store(url, bustle(MAIL, 20))

    found = audit(spark, url)

    assert (found.ok, found.events) == (True, counts_of(url, MAIL).total())


def test_fleet_map_and_metrics_are_refused_with_one_sentence(spark: SparkSession, url: str) -> None:
    sentence = "cannot run through Spark Connect, which neither shows nor cancels tasks; use a master"

    with pytest.raises(BadConfig, match=f"^a fleet {sentence}"):
        run_fleet(spark, APP, url=url, workers=1)
    with pytest.raises(BadConfig, match=f"^map {sentence}"):
        map_rows(spark.range(1), APP, "double", key="id", name="squares", url=url)
    with pytest.raises(BadConfig, match=r"^metrics of queries cannot be served"), serve_metrics(spark):
        pass


@pytest.mark.filterwarnings("ignore:WARN WindowExpression")
def test_views_have_payloads_as_structs(spark: SparkSession, url: str, data_dir: DataDir) -> None:
    async def send(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=MAIL, id="one", kind="invoice", payload=b'{"order":{"id":7}}')])

    fill_store(url, send)

    views(spark, url, data_dir=data_dir)

    assert [row.id for row in spark.sql("SELECT payload.order.id FROM jobs_invoice").collect()] == [7]
