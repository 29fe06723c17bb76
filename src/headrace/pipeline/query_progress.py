"""Reports the progress of streaming queries: events read and left, Spark's tasks, and metrics for Prometheus."""

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig
from headrace.pipeline.spark_errors import unwrap_errors
from headrace.pipeline.spark_session import is_connect
from headrace.worker.health import Histogram, Labels
from headrace.worker.metrics import MetricsServer, PrometheusPage, prometheus

QUERY = ("query",)

Progress = Mapping[str, Any] | str
"""`query.lastProgress`, the `progress` of a listener's event, or the JSON of either."""
Spark = SparkSession
Query = StreamingQuery
"""For modules that must not import Spark."""
LOOK_SECONDS = 0.3
"""The interval of polls of a query: short enough for the eye, and for a request to stop."""
PACE_BATCHES = 5
"""Batches by which the pace is measured, from end to end, since a query also waits between them."""


class Tasks(Struct, frozen=True):
    """The tasks of the running stages."""

    done: int
    all: int


class QueryProgress(Struct, frozen=True):
    """The progress of a query since its start in this process."""

    batches: int = 0
    events: int = 0
    events_per_s: float = 0.0
    behind: int | None = None
    """Events that are not read yet; None before the first batch."""
    skipped: int = 0
    lost: int = 0

    @property
    def left_s(self) -> float | None:
        """The time for the rest at this pace; None while it is unknown."""
        return self.behind / self.events_per_s if self.behind and self.events_per_s else None


def tasks(spark: SparkSession) -> Tasks:
    """The tasks of the running stages; a Spark Connect server shows none."""
    if is_connect(spark):
        return Tasks(0, 0)
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]  # a stage may have ended meanwhile
    return Tasks(sum(stage.numCompletedTasks for stage in active), sum(stage.numTasks for stage in active))


def follow(query: StreamingQuery, on_progress: Callable[[QueryProgress], None], stop: threading.Event) -> QueryProgress:
    """Wait until a query ends or `stop` is set, and report its progress; raises the error of the query."""
    tracker = ProgressTracker()
    try:
        while query.isActive and not stop.wait(LOOK_SECONDS):
            tracker.add(query)
            on_progress(tracker.progress)
    finally:
        query.stop()
    tracker.add(query)
    with unwrap_errors():
        if (error := query.exception()) is not None and not stop.is_set():
            raise error
    return tracker.progress


class ProgressTracker:
    """Adds up the batches of a query."""

    def __init__(self) -> None:
        self.progress = QueryProgress()
        self._last = -1
        self._ends: deque[tuple[int, int]] = deque(maxlen=PACE_BATCHES + 1)
        """The ends of batches, with the number of events until then."""

    def add(self, query: StreamingQuery) -> None:
        """Add the batches since the last call."""
        latest = query.lastProgress
        if latest is None:
            return
        # Recent batches are large, since each lists every shard: read them only if some were missed.
        recent = [latest] if latest.batchId <= self._last + 1 else query.recentProgress
        fresh = [batch for batch in recent if batch.batchId > self._last and batch.numInputRows]
        events = self.progress.events + sum(batch.numInputRows for batch in fresh)
        if fresh:
            self._last = fresh[-1].batchId
            now_ms = monotonic_ms()
            if not self._ends:
                self._ends.append((now_ms - fresh[0].batchDuration, 0))
            self._ends.append((now_ms, events))
        self.progress = QueryProgress(
            batches=self.progress.batches + len(fresh),
            events=events,
            events_per_s=self._pace(),
            behind=lag(latest),
            skipped=skipped(latest),
            lost=lost(latest),
        )

    def _pace(self) -> float:
        if not self._ends:
            return 0.0
        (since_ms, before), (until_ms, events) = self._ends[0], self._ends[-1]
        return (events - before) * 1_000 / max(until_ms - since_ms, 1)


def lag(progress: Progress) -> int:
    """The events (or changes of feeds) that a query was behind after its batch, over all sources of
    `format("headrace")`.

    Spark reports progress after a batch, and every ten seconds while a query is idle, so an old report may be outdated.
    A batch that is repeated after a restart reports 0, and so does Spark 4.1, whose batches hold all available events.
    """
    return sum(int(latest.get("lag", 0)) for _, latest in _offsets(progress))


def skipped(progress: Progress) -> int:
    """The events that were dropped unread since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("skipped", 0)) for end, _ in _offsets(progress))


def lost(progress: Progress) -> int:
    """The events that were read and then lost by the store, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("lost", 0)) for end, _ in _offsets(progress))


def _offsets(progress: Progress) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The end offset and the latest offset of each Headrace source."""
    if isinstance(progress, StreamingQueryProgress):
        progress = progress.json  # the fields of Spark 4.1's hold offsets as Python prints them
    report: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    for source in report.get("sources", ()):
        end, latest = _parse_offset(source.get("endOffset")), _parse_offset(source.get("latestOffset"))
        if "lag" in latest or end.keys() >= {"skipped", "lost"}:
            yield end, latest


def _parse_offset(offset: object) -> Mapping[str, Any]:
    """An offset: Python's progress holds it as JSON, the progress's own JSON as a part of it."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    return offset if isinstance(offset, Mapping) else {}


class QueryCounts(Struct):
    """Counts of queries by name; a query without a name has its id."""

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

    Add it with `spark.streams.addListener(metrics)`, or use `serve_metrics`. Programs may publish `metrics.registry`
    themselves. Spark calls a listener shortly after the end of a batch, and not for idle queries.
    """

    def __init__(self) -> None:
        self._core = prometheus()
        self._counts = QueryCounts()
        self._names: dict[str, Labels] = {}
        self.registry = self._core.CollectorRegistry()
        self.registry.register(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Count a started query."""
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
        """Nothing: the lag of the last batch is still right."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Count an ended query."""
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
                    "headrace_query_lost_events", "Events that were read and then lost by the store.", labels=QUERY
                ),
                counts.lost,
            ),
            (
                counter("headrace_query_failures", "Times that the query ended with an error.", labels=QUERY),
                counts.failures,
            ),
        )
        for family, values in families:
            for labels, value in list(values.items()):  # atomic for the interpreter, while Spark goes on counting
                family.add_metric(labels, value)
            yield family
        seconds = self._core.core.HistogramMetricFamily(
            "headrace_query_batch_seconds", "Duration of a batch with all its steps.", labels=QUERY
        )
        for labels, histogram in list(counts.times.items()):
            seconds.add_metric(labels, list(histogram.rows()), histogram.sum_ms / 1000)
        yield seconds

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> MetricsServer:
        """Serve GET /metrics from a thread. Port 0 chooses a free port: `server.port`."""
        return MetricsServer(host, port, PrometheusPage(self.registry), None)

    def _labels(self, id: str, name: str | None) -> Labels:
        """The label of a query; its last event has the id only."""
        if name is not None or id not in self._names:
            self._names[id] = (name or id,)
        return self._names[id]


@contextmanager
def serve_metrics(spark: SparkSession, host: str = "127.0.0.1", port: int = 0) -> Iterator[MetricsServer]:
    """Within this block, count the queries of a session and serve their metrics on http://host:port/metrics."""
    if is_connect(spark):
        # pyspark's client hangs if an event arrives while its last listener is removed.
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
