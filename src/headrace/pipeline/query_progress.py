"""Watches what Spark does: the tasks of its stages, and how far a streaming query has come."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.clock import monotonic_ms
from headrace.pipeline.spark_errors import unwrap_errors

Progress = Mapping[str, Any] | str
"""`query.lastProgress`, the `progress` of a listener's event, or the JSON of either."""
Spark = SparkSession
Query = StreamingQuery
"""For programs that may not know Spark by name."""
LOOK_SECONDS = 0.3
"""How often a query is looked at: often enough for an eye, and for who asks it to stop."""
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
        """How long the rest takes at this pace; None when nobody can say."""
        return self.behind / self.events_per_s if self.behind and self.events_per_s else None


def tasks(spark: SparkSession) -> Tasks:
    """How many tasks of the present stages are done."""
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [each for each in found if each is not None]  # one may have ended meanwhile
    return Tasks(sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages))


def follow(query: StreamingQuery, tell: Callable[[QueryProgress], None], stopping: threading.Event) -> QueryProgress:
    """Wait until a query ends by itself or is asked to stop, telling how far it is; raises what it ended with."""
    walk = ProgressTracker()
    try:
        while query.isActive and not stopping.wait(LOOK_SECONDS):
            walk.add(query)
            tell(walk.far)
    finally:
        query.stop()
    walk.add(query)
    with unwrap_errors():
        if (error := query.exception()) is not None and not stopping.is_set():
            raise error
    return walk.far


class ProgressTracker:
    """Adds up what a query tells of its batches."""

    def __init__(self) -> None:
        self.far = QueryProgress()
        self._last = -1
        self._ends: deque[tuple[int, int]] = deque(maxlen=PACE_BATCHES + 1)
        """When batches ended, and how many events there were then."""

    def add(self, query: StreamingQuery) -> None:
        """Take in the batches that ended since the last look."""
        latest = query.lastProgress
        if latest is None:
            return
        # All that are kept are asked for only when some were missed: each names every shard.
        told = [latest] if latest.batchId <= self._last + 1 else query.recentProgress
        fresh = [each for each in told if each.batchId > self._last and each.numInputRows]
        events = self.far.events + sum(each.numInputRows for each in fresh)
        if fresh:
            self._last = fresh[-1].batchId
            now_ms = monotonic_ms()
            if not self._ends:
                self._ends.append((now_ms - fresh[0].batchDuration, 0))
            self._ends.append((now_ms, events))
        self.far = QueryProgress(
            batches=self.far.batches + len(fresh),
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

    Over all sources of `format("headrace")`; others do not count. Spark tells progress after a batch, and every ten
    seconds while a query is idle: an old one says what was true then. Of a batch that is run again after a restart
    it tells nothing, which counts as 0.
    """
    return sum(int(latest["lag"]) for _, latest in _ours(progress))


def skipped(progress: Progress) -> int:
    """How many events were dropped before they were read, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("skipped", 0)) for end, _ in _ours(progress))


def lost(progress: Progress) -> int:
    """How many events were read that the store no longer knows, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("lost", 0)) for end, _ in _ours(progress))


def _ours(progress: Progress) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Where the batch ended and what was there, of each source that is ours."""
    told: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    for source in told.get("sources", ()):
        latest = _offset(source.get("latestOffset"))
        if "lag" in latest:
            yield _offset(source.get("endOffset")), latest


def _offset(told: object) -> Mapping[str, Any]:
    """An offset, which is JSON in the progress that Python gives and part of it in the progress's own JSON."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    return told if isinstance(told, Mapping) else {}
