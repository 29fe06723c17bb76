"""Brings tables to the last batch of the history: by the batches that they lack, or all anew."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.event_source import Events
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.layout import DataFile, TableVersion
from headrace.pipeline.storage.table import DataTable
from headrace.pipeline.storage.write import write_files

APP = "headrace-tables"
"""The application under which tables number their commits."""
MERGE_FILES = 12
"""Files of one day after which a run merges them: tables that grow by a file an hour stay quick to open."""


COMMITS_VACUUM = 50
"""Commits after which files are removed that no reader of the last week needs."""


class TableMark(Struct, frozen=True, kw_only=True):
    """How far a table is; it is committed with the rows."""

    source: str
    """Which events: of which history, tenant and queues."""
    batch: int
    """The last batch of the history that is in the table."""
    rebuild_id: str = ""
    """Tables that are made together have the same since they were last made anew."""


class Increment(Struct, frozen=True):
    """The batches that a run adds to a table: those above `after`, up to `upto`; all of them when `after` is None."""

    after: int | None
    upto: int


def mark_of(now: TableVersion) -> TableMark | None:
    """How far a table is; None of one that is empty."""
    state = now.state(APP)
    return None if state is None else msgspec.convert(state, TableMark)


def step_of(events: Events, mark: TableMark | None, *, rebuild: bool) -> Increment | None:
    """What a table lacks; None when it has everything."""
    if rebuild or events.head is None or mark is None or mark.source != events.source or mark.batch > events.head:
        return Increment(None, -1 if events.head is None else events.head)
    return None if mark.batch == events.head else Increment(mark.batch, events.head)


def commit(
    table: DataTable, now: TableVersion, files: Sequence[DataFile], replace: Sequence[DataFile], mark: TableMark
) -> None:
    """Commit files in place of others, with how far the table is then; `Conflict` if it has moved on since `now`."""
    last = now.batch(APP)
    number = 0 if last is None else last + 1
    table.commit(files, replace=replace, batch=(APP, number), state=msgspec.to_builtins(mark))
    if number % COMMITS_VACUUM == COMMITS_VACUUM - 1:
        table.vacuum()
    steps.crash_point(f"{table.layout.name} committed", number)


def spread(frame: DataFrame, step: Increment, *by: str) -> DataFrame:
    """The rows as tasks write them: those of an increment by one, those of a whole table by many, cut by range."""
    return frame.repartitionByRange(*by) if step.after is None else frame.coalesce(1)


def add_rows(
    spark: SparkSession,
    events: Events,
    table: DataTable,
    rows_of: Callable[[DataFrame], DataFrame],
    merge: Callable[[DataFrame], DataFrame],
    *,
    rebuild: bool = False,
) -> int:
    """Bring a table to the head of the events, and say how many rows it has.

    `rows_of` makes its rows of events, and `merge` makes one row of those with the same key: then the rows of new
    events are added to those of their days, and no event is read twice.
    """
    now = table.prepare()
    step = step_of(events, mark_of(now), rebuild=rebuild)
    if step is not None:
        mark = TableMark(source=events.source, batch=step.upto)
        if step.after is None:
            frame, old = rows_of(events.frame), now.files()
            files = write_files(spread(frame, step, *table.layout.partition_by, *table.layout.order[:2]), table)
        else:
            fresh = rows_of(events.between(step.after, step.upto)).persist()
            try:
                days = [row.day for row in fresh.select("day").distinct().collect()]
                old = now.files([("day", "in", days)]) if days else []
                there = table.read(spark, where=[("day", "in", days)])
                files = write_files(merge(fresh.unionByName(there)).coalesce(1), table, batch=step.upto) if days else []
            finally:
                fresh.unpersist()
        commit(table, now, files, old, mark)
    return rows_in(table)


def rows_in(table: DataTable) -> int:
    """How many rows a table has, by its log."""
    now = table.version()
    return 0 if now is None else sum(file.rows for file in now.files())


def merge_small(table: DataTable) -> None:
    """Merge the files of the days that have many."""
    now = table.version()
    counts: dict[Any, int] = {}
    for file in now.files() if now is not None else []:
        counts[file.partition.get("day")] = counts.get(file.partition.get("day"), 0) + 1
    for day in sorted(day for day, count in counts.items() if day is not None and count >= MERGE_FILES):
        table.compact(where=[("day", "=", day)])
