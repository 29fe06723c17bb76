"""Promises of the metrics of streaming queries: what Prometheus scrapes is what the queries did."""

import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from headrace import App
from headrace.cli.main import main
from headrace.pipeline import follow_history
from headrace.pipeline.query_progress import QueryMetrics, serve_metrics

Samples = dict[tuple[str, str], float]
EVENTS = 20


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with so many events."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    def count(n: int) -> None: ...

    count.blocking.enqueue_many([{"n": n} for n in range(EVENTS)])
    return app.url or ""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits for Spark to tell of the end of a query, which it does after the query has ended."""
    event, original = threading.Event(), QueryMetrics.onQueryTerminated

    def tell(metrics: QueryMetrics, terminated: QueryTerminatedEvent) -> None:
        original(metrics, terminated)
        event.set()

    monkeypatch.setattr(QueryMetrics, "onQueryTerminated", tell)

    def wait() -> None:
        assert event.wait(60)

    return wait


def scrape(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    return {
        (sample.name, sample.labels.get("query", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_a_scrape_finds_what_a_query_read_and_how_far_it_is_behind(
    spark: SparkSession, url: str, tmp_path: Path, ended: Callable[[], None]
) -> None:
    with serve_metrics(spark) as server:
        before = scrape(server.port)
        follow_history(spark, url, tmp_path / "history", once=True, events_max=8).awaitTermination()
        ended()
        found = scrape(server.port)

    assert before == {}
    assert {name: value for (name, query), value in found.items() if query == "history" and "seconds" not in name} == {
        "headrace_query_running": 0,
        "headrace_query_lag_events": 0,
        "headrace_query_batches_total": 3,
        "headrace_query_rows_total": EVENTS,
        "headrace_query_skipped_events_total": 0,
        "headrace_query_lost_events_total": 0,
    }
    assert found["headrace_query_batch_seconds_count", "history"] == 3
    assert found["headrace_query_batch_seconds_sum", "history"] > 0


def test_a_query_that_ends_with_an_error_is_counted_as_failed(
    spark: SparkSession, url: str, tmp_path: Path, ended: Callable[[], None]
) -> None:
    def fail(frame: Any, batch: int) -> None:
        raise ValueError(f"batch {batch} of {frame.count()}")

    with serve_metrics(spark) as server:
        stream = spark.readStream.format("headrace").option("url", url).load()
        writer = stream.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
        with pytest.raises(Exception, match="batch 0 of 20"):
            query.awaitTermination()
        ended()
        found = scrape(server.port)

    assert found["headrace_query_failures_total", str(query.id)] == 1
    assert found["headrace_query_running", str(query.id)] == 0


def test_a_session_has_no_listener_once_its_metrics_are_no_longer_served(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    with serve_metrics(spark) as server:
        port = server.port

    follow_history(spark, url, tmp_path / "history", once=True).awaitTermination()

    with pytest.raises(OSError, match="refused"):
        scrape(port)


def test_the_command_says_where_its_metrics_are(
    spark: SparkSession, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["pipeline", "history", "--once", "--url", url, "--dir", str(tmp_path / "data"), "--metrics-port", "0"])

    assert (code, "metrics: http://127.0.0.1:" in capsys.readouterr().err) == (0, True)
