"""The finished jobs of a shard: collected during a step, written together at its end, swept oldest first."""

import sqlite3
from itertools import groupby, takewhile
from typing import Any

from headrace.model.finished import FinishedJob
from headrace.stores.engine.row_codec import finished_job_columns, finished_job_of
from headrace.stores.sqlite.shard_counters import SqliteShardCounters
from headrace.stores.sqlite.sql import json_array, read_page, sql

KEY_BITS = 40
"""The primary keys of finished jobs and journal entries: the shard_id above these bits, a number of the shard below."""
PINNED = 1 << KEY_BITS - 1
RUN_MIN = 4
"""From this length on, a run of finished jobs is cheaper as one statement than as one statement each."""


class SqliteFinishedRows:
    """Jobs that are done or cancelled, at most one finished job per id."""

    def __init__(self, connection: sqlite3.Connection, shard_id: int, counters: SqliteShardCounters) -> None:
        self._run = connection.execute
        self._run_many = connection.executemany
        self._shard_id = shard_id
        self._counters = counters
        self._base = shard_id << KEY_BITS
        self._changed: dict[str, FinishedJob | None] = {}

    def find(self, id: str) -> FinishedJob | None:
        self.flush()
        found = self._run(sql("finished_job_find"), (self._shard_id, id)).fetchone()
        return None if found is None else finished_job_of(found)

    def put(self, finished_job: FinishedJob) -> None:
        self._changed.pop(finished_job.id, None)
        self._changed[finished_job.id] = finished_job

    def drop(self, id: str) -> None:
        self._changed[id] = None

    def drop_all(self, ids: list[str]) -> None:
        """Drop the finished jobs of these ids, if the shard has finished jobs at all."""
        if self._counters.done or self._counters.cancelled:
            self._changed |= dict.fromkeys(ids)

    def flush(self) -> None:
        """Write the finished jobs that the step has changed so far."""
        if not self._changed:
            return
        counters = self._counters
        if counters.done or counters.cancelled:
            ids = json_array(list(self._changed))
            for state, pinned in self._run(sql("finished_job_drop"), (self._shard_id, ids)).fetchall():
                counters.count_finished(state, pinned, -1)
        written = [
            finished_job_columns(finished_job) for finished_job in self._changed.values() if finished_job is not None
        ]
        self._changed = {}
        if written:
            self.insert(written)

    def insert(self, finished_jobs: list[tuple[Any, ...]]) -> None:
        """Insert finished jobs, as columns in the order of finished_job_find; an id that has one is a constraint
        error."""
        # One statement for a run of finished jobs that differ in id and body only: 0.6 instead of 2.0 µs a job, since
        # neither Python nor SQLite starts anew for each. Bodies of one length are sent as one blob and cut from it.
        counters, few = self._counters, []
        for (state, pinned, until_ms, result, width), group in groupby(finished_jobs, _shape):
            run = list(group)
            number = self._base + counters.finished_job + 1 + PINNED * pinned
            if len(run) < RUN_MIN:
                few += [(number + index, self._shard_id, *columns) for index, columns in enumerate(run)]
            else:
                ids, bodies = json_array([each[0] for each in run]), b"".join([each[4] for each in run])
                shared = (number, self._shard_id, state, pinned, until_ms)
                self._run(sql("finished_job_write_run"), (*shared, bodies, width, width, result, ids))
            counters.finished_job += len(run)
            counters.count_finished(state, pinned, len(run))
        if few:
            self._run_many(sql("finished_job_write"), few)

    def scan(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[FinishedJob], bool]:
        self.flush()
        arguments = (bytes_max is not None, self._shard_id, after_id, limit)
        found, more = read_page(self._run(sql("finished_job_scan"), arguments), limit, bytes_max)
        return [finished_job_of(columns) for columns in found], more

    def page(self, pinned: bool, below: int, limit: int) -> list[tuple[int, FinishedJob]]:
        """Finished jobs with `number < below`, the newest first, with their numbers and without results."""
        self.flush()
        base = self._base + PINNED * pinned
        found = self._run(sql("finished_job_page"), (base, base + min(below, PINNED), limit))
        return [(key - base, finished_job_of(tuple(columns))) for key, *columns in found]

    def sweep(self, now_ms: int, keep_max: int, limit: int) -> int:
        self.flush()
        counters, span = self._counters, (self._base, self._base + PINNED - 1)
        swept = self._drop_oldest(min(max(counters.unpinned - keep_max, 0), limit))
        if counters.unpinned and swept < limit:
            oldest = self._run(sql("finished_job_oldest"), (*span, 1)).fetchone()
            if oldest[0] <= now_ms:
                ends = self._run(sql("finished_job_oldest"), (*span, limit - swept)).fetchall()
                swept += self._drop_oldest(len(list(takewhile(lambda end: end[0] <= now_ms, ends))))
        if counters.done + counters.cancelled > counters.unpinned and swept < limit:
            dropped = self._run(sql("finished_job_drop_pinned"), (self._shard_id, now_ms, limit - swept)).fetchall()
            for (state,) in dropped:
                counters.count_finished(state, True, -1)
            swept += len(dropped)
        return swept

    def _drop_oldest(self, count: int) -> int:
        if not count:
            return 0
        span = {"lowest": self._base, "highest": self._base + PINNED - 1, "others": count - 1}
        dropped = self._run(sql("finished_job_drop_oldest"), span).fetchall()
        for (state,) in dropped:
            self._counters.count_finished(state, False, -1)
        return len(dropped)


def _shape(columns: tuple[Any, ...]) -> tuple[str, bool, int, bytes | None, int]:
    """The columns that the finished jobs of one statement share, and the length of their bodies."""
    _, state, pinned, until_ms, body, result = columns
    return state, pinned, until_ms, result, len(body)
