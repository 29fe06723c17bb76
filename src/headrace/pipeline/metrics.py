"""Metrics of streaming queries for Prometheus: lag, skipped and lost events, rows, and the time of batches."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headrace.model.errors import BadConfig
from headrace.pipeline.query_progress import lag, lost, skipped
from headrace.pipeline.spark_session import is_connect
from headrace.worker.health import Histogram, Labels
from headrace.worker.metrics import MetricsServer, PrometheusPage, prometheus

QUERY = ("query",)


class QueryCounts(Struct):
    """What was counted of queries, by their names; a query without one counts under its id."""

    running: dict[Labels, int] = field(default_factory=dict)
    batches: dict[Labels, int] = field(default_factory=Counter)
    rows: dict[Labels, int] = field(default_factory=Counter)
    failures: dict[Labels, int] = field(default_factory=Counter)
    lag: dict[Labels, int] = field(default_factory=dict)
    skipped: dict[Labels, int] = field(default_factory=dict)
    lost: dict[Labels, int] = field(default_factory=dict)
    times: dict[Labels, Histogram] = field(default_factory=dict)


class QueryMetrics(StreamingQueryListener):
    """A listener that counts the batches of all queries of a session, and a collector with its own registry.

    Add it with `spark.streams.addListener(metrics)`, or use `serve_metrics`. `metrics.registry` is for programs that
    publish it themselves. Spark tells a listener of a batch a moment after its end, and of an idle query nothing new.
    """

    def __init__(self) -> None:
        self._core = prometheus()
        self._counts = QueryCounts()
        self._names: dict[str, Labels] = {}
        self.registry = self._core.CollectorRegistry()
        self.registry.register(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Count a query that runs from now on."""
        labels = self._labels(str(event.id), event.name)
        self._counts.running[labels] = 1

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Count a batch."""
        progress = event.progress
        labels, counts = self._labels(str(progress.id), progress.name), self._counts
        if progress.numInputRows:
            counts.batches[labels] += 1
            counts.rows[labels] += progress.numInputRows
            counts.times.setdefault(labels, Histogram()).add(progress.batchDuration)
        for values, value in ((counts.lag, lag), (counts.skipped, skipped), (counts.lost, lost)):
            values[labels] = value(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing: the lag of the last batch still holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Count a query that no longer runs."""
        labels = self._labels(str(event.id), None)
        self._counts.running[labels] = 0
        if event.exception is not None:
            self._counts.failures[labels] += 1

    def collect(self) -> Iterable[Any]:
        """The metrics; called from the thread of Prometheus."""
        counts = self._counts
        gauge, counter = self._core.core.GaugeMetricFamily, self._core.core.CounterMetricFamily
        families = (
            (gauge("headrace_query_running", "Whether the query runs.", labels=QUERY), counts.running),
            (gauge("headrace_query_lag_events", "Events that are not read yet.", labels=QUERY), counts.lag),
            (counter("headrace_query_batches", "Batches that had rows.", labels=QUERY), counts.batches),
            (counter("headrace_query_rows", "Rows that were read.", labels=QUERY), counts.rows),
            (
                counter(
                    "headrace_query_skipped_events", "Events that were dropped before they were read.", labels=QUERY
                ),
                counts.skipped,
            ),
            (
                counter(
                    "headrace_query_lost_events", "Events that were read and the store no longer knows.", labels=QUERY
                ),
                counts.lost,
            ),
            (
                counter("headrace_query_failures", "Times that the query ended with an error.", labels=QUERY),
                counts.failures,
            ),
        )
        for family, values in families:
            for labels, value in list(values.items()):  # one step for the interpreter: Spark goes on counting
                family.add_metric(labels, value)
            yield family
        seconds = self._core.core.HistogramMetricFamily(
            "headrace_query_batch_seconds", "How long a batch took, all its steps.", labels=QUERY
        )
        for labels, histogram in list(counts.times.items()):
            seconds.add_metric(labels, list(histogram.rows()), histogram.sum_ms / 1000)
        yield seconds

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> MetricsServer:
        """Answer GET /metrics from a separate thread. Port 0 chooses a free port: `server.port`."""
        return MetricsServer(host, port, PrometheusPage(self.registry), None)

    def _labels(self, id: str, name: str | None) -> Labels:
        """The label of a query; its end tells the id only."""
        if name is not None or id not in self._names:
            self._names[id] = (name or id,)
        return self._names[id]


@contextmanager
def serve_metrics(spark: SparkSession, host: str = "127.0.0.1", port: int = 0) -> Iterator[MetricsServer]:
    """Count the queries of a session and serve their metrics on http://host:port/metrics, within this block."""
    if is_connect(spark):
        # pyspark's client waits for ever when an event arrives while its last listener is removed.
        raise BadConfig(
            "metrics of queries cannot be served through Spark Connect; leave out the port, or use a master"
        )
    metrics = QueryMetrics()
    with metrics.serve(host, port) as server:
        spark.streams.addListener(metrics)
        try:
            yield server
        finally:
            spark.streams.removeListener(metrics)
