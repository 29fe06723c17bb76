"""Tells how far Spark is: the tasks of its stages, and the events that a streaming query has read and has left."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.clock import monotonic_ms
from headrace.pipeline.spark_errors import unwrap_errors
from headrace.pipeline.spark_session import is_connect

Progress = Mapping[str, Any] | str
"""`query.lastProgress`, the `progress` of a listener's event, or the JSON of either."""
Spark = SparkSession
Query = StreamingQuery
"""For programs that may not import Spark."""
LOOK_SECONDS = 0.3
"""How often a query is looked at: often enough for an eye, and for a request to stop."""
PACE_BATCHES = 5
"""How many batches the pace of a query is measured by: between their ends, since it also waits between them."""


class Tasks(Struct, frozen=True):
    """The tasks of the stages that run at this moment."""

    done: int
    all: int


class QueryProgress(Struct, frozen=True):
    """How far a query has come since it was started here."""

    batches: int = 0
    events: int = 0
    events_per_s: float = 0.0
    behind: int | None = None
    """Events that were written and not yet read; None before the first batch."""
    skipped: int = 0
    lost: int = 0

    @property
    def left_s(self) -> float | None:
        """How long the rest takes at this pace; None while the pace is unknown."""
        return self.behind / self.events_per_s if self.behind and self.events_per_s else None


def tasks(spark: SparkSession) -> Tasks:
    """How many tasks of the present stages are done; a Spark Connect server shows none."""
    if is_connect(spark):
        return Tasks(0, 0)
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]  # one may have ended meanwhile
    return Tasks(sum(stage.numCompletedTasks for stage in active), sum(stage.numTasks for stage in active))


def follow(query: StreamingQuery, on_progress: Callable[[QueryProgress], None], stop: threading.Event) -> QueryProgress:
    """Wait until a query ends or `stop` is set, and report its progress meanwhile; raises the error it ended with."""
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
        """When batches ended, and how many events there were then."""

    def add(self, query: StreamingQuery) -> None:
        """Take in the batches that ended since the last look."""
        latest = query.lastProgress
        if latest is None:
            return
        # All recent batches are read only when some were missed: each names every shard.
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
    """By how many events (or changes of feeds) a query was behind after its batch; 0 at the head.

    Over all sources of `format("headrace")`; others do not count. Spark reports progress after a batch, and every ten
    seconds while a query is idle: an old report says what was true then. A batch that is run again after a restart
    reports nothing, which counts as 0; so does Spark 4.1, whose batches hold everything that is there.
    """
    return sum(int(latest.get("lag", 0)) for _, latest in _offsets(progress))


def skipped(progress: Progress) -> int:
    """How many events were dropped before they were read, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("skipped", 0)) for end, _ in _offsets(progress))


def lost(progress: Progress) -> int:
    """How many events were read that the store no longer knows, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("lost", 0)) for end, _ in _offsets(progress))


def _offsets(progress: Progress) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The end offset and the latest offset of each source of ours."""
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
