"""Adds events to the table of statistics: each once, whoever brings it, and from wherever it comes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.times import instant_text
from headrace.pipeline.stats.counted import Counted, add, lacks_beginning, overlap, ranges_of, without
from headrace.pipeline.storage.layout import Condition, DataFile, TableVersion
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, open_table
from headrace.pipeline.storage.write import write_files
from headrace.pipeline.tables.increment import merge_small
from headrace.pipeline.tables.layouts import STATS, STATS_COLUMNS, Key
from headrace.pipeline.tables.stats import KEY, merge_windows, window_counts, with_rates
from headrace.pipeline.tables.usage import day_of

APP = "headrace-stats"
TRIES = 5
"""How often a commit is tried when another run commits at the same time."""


COMMITS_VACUUM = 250
VACUUM_HOURS = 2
"""A live query replaces the file of an hour with each batch: those that nobody reads any more go soon."""
_HOUR_MS = 3_600_000


class StatsState(Struct, kw_only=True):
    """What is committed with the rows."""

    window_ms: int
    counted: Counted = {}
    source: str = ""
    """The history whose batches up to `batch` are counted."""
    batch: int = -1
    totals: list[tuple[str, str, str | None, int]] = []
    """Open jobs by tenant, queue and kind: what all windows add up to."""
    feeds: dict[str, int | None] = {}
    """Feeds that windows were published to, by name; a number is the first window that may have rows which were not."""
    floors: dict[str, int] = {}
    """By tenant/feed, the last window that may have been there and evicted before this table published to it; -1 where
    none was."""

    def open_jobs(self) -> dict[Key, int]:
        """The totals by key."""
        return {(tenant, queue, kind): total for tenant, queue, kind, total in self.totals}


class StatsChange(Struct, frozen=True):
    """What events have changed."""

    events: int
    windows: int
    """Rows that were added or changed."""
    first_ms: int | None
    """The first window that has changed."""
    added: frozenset[tuple[int, Key]]
    """Rows that were not there before, by window and key."""
    unpublished_ms: int | None
    """The first window that may have rows which were not published before; None when all of them were."""
    state: StatsState


def stats_table(folder: Path | str | Location) -> DataTable:
    """The table of statistics in a folder, which need not be there yet."""
    return open_table(Location.parse(folder), STATS)


def state_of(now: TableVersion | None) -> StatsState | None:
    """What a table knows beside its rows; None when there is no table, or nothing in it."""
    state = None if now is None else now.state(APP)
    return None if state is None else msgspec.convert(state, StatsState)


def add_events(
    events: DataFrame,
    table: DataTable,
    now: TableVersion,
    state: StatsState,
    *,
    is_anew: bool = False,
    feed: str | None = None,
) -> StatsChange:
    """Count the events that were not counted yet, and commit their windows with the state.

    `state` says what is counted and of which batches; with `is_anew`, it stands for itself and all rows are replaced.
    `feed` is noted as one that these windows were not published to yet. Raises `Conflict` when another run has
    committed meanwhile.
    """
    new = ranges_of(events)
    fresh = without(events, overlap(state.counted, new))
    delta = window_counts(fresh, state.window_ms).withColumn("day", day_of("window_start")).persist()
    try:
        sums = delta.groupBy("day", *KEY[1:]).agg(
            F.sum(F.col("opened") - F.col("closed")).alias("net"),
            F.unix_millis(F.min("window_start")).alias("first_ms"),
            F.unix_millis(F.max("window_start")).alias("last_ms"),
            F.count("*").alias("rows"),
        )
        nets = sums.collect()
        days = tuple(sorted({row.day for row in nets}))
        first_ms = min((row.first_ms for row in nets), default=None)
        added: frozenset[tuple[int, Key]] = frozenset()
        old, files = now.files() if is_anew else [], []
        if is_anew and days:
            files = write_files(_finished(delta, state.window_ms).repartitionByRange("day"), table)
        elif days:
            last_ms = max(row.last_ms for row in nets)
            where = _touched(now, days, min(row.first_ms for row in nets), last_ms)
            old, there = now.files(where), table.read(events.sparkSession, where=where)
            if feed is not None:
                found = delta.join(there, _same(delta, there), "left_anti")
                rows = found.select(F.unix_millis("window_start").alias("ms"), *KEY[1:]).collect()
                added = frozenset((row.ms, (row.tenant, row.queue, row.kind)) for row in rows)
            both = merge_windows(delta.drop("day").unionByName(there.select(*delta.drop("day").columns)))
            merged = _finished(both.withColumn("day", day_of("window_start")), state.window_ms)
            files = _write_hours(merged, table, old, last_ms)
        changed = _moved(state, new, [(row.tenant, row.queue, row.kind, row.net) for row in nets], first_ms, feed)
        if files or changed != state or is_anew:
            commit(table, now, changed, files, old)
    finally:
        delta.unpersist()
    count = sum(each.last - each.first + 1 for ranges in new.values() for each in ranges)
    since_ms = None if feed is None else state.feeds.get(feed, 0)
    return StatsChange(count, sum(row.rows for row in nets), first_ms, added, since_ms, changed)


def _touched(now: TableVersion, days: tuple[Any, ...], first_ms: int, last_ms: int) -> list[Condition]:
    """The files with windows of some time, as conditions that all their rows meet; of several days, all files."""
    if len(days) > 1:
        return [("day", "in", days)]
    low, high = _text(first_ms), _text(last_ms)
    while True:
        where: list[Condition] = [("day", "=", days[0]), ("window_start", ">=", low), ("window_start", "<=", high)]
        files = now.files(where)
        wider = (
            min([low, *(file.lows["window_start"] for file in files)]),
            max([high, *(file.highs["window_start"] for file in files)]),
        )
        if wider == (low, high):
            return where
        low, high = wider


def _write_hours(rows: DataFrame, table: DataTable, old: Sequence[DataFile], last_ms: int) -> list[DataFile]:
    """Write the last hour to files of its own, which the next batches replace, and what came before to others."""
    hour_ms = last_ms - last_ms % _HOUR_MS
    if all(file.lows["window_start"] >= _text(hour_ms) for file in old):
        return write_files(rows.coalesce(1), table)
    is_before = F.col("window_start") < F.timestamp_millis(F.lit(hour_ms))
    return [file for part in (is_before, ~is_before) for file in write_files(rows.where(part).coalesce(1), table)]


def _text(at_ms: int) -> str:
    """An instant as the log has it."""
    return f"{instant_text(at_ms)[:-1]}000Z"


def no_change(state: StatsState, feed: str | None) -> StatsChange:
    """What no new event changes: windows that were not published are still to be."""
    return StatsChange(0, 0, None, frozenset(), None if feed is None else state.feeds.get(feed, 0), state)


def commit(
    table: DataTable,
    now: TableVersion,
    state: StatsState,
    files: Sequence[DataFile] = (),
    replace: Sequence[DataFile] = (),
) -> None:
    """Commit files in place of others, with the state; `Conflict` if the table has moved on since `now`."""
    last = now.batch(APP)
    number = 0 if last is None else last + 1
    table.commit(files, replace=replace, batch=(APP, number), state=msgspec.to_builtins(state))
    if number % COMMITS_VACUUM == COMMITS_VACUUM - 1:
        merge_small(table)
        table.vacuum(hours=VACUUM_HOURS)


def read_windows(table: DataTable, spark: SparkSession, state: StatsState, since_ms: int = 0) -> DataFrame:
    """The rows with their backlog, of the windows that begin at `since_ms` or later."""
    since = _text(since_ms)
    rows = table.read(spark, where=[("day", ">=", since[:10]), ("window_start", ">=", since)] if since_ms else [])
    totals, unknown = _totals(spark, state), _unknown(spark, state)
    later = Window.partitionBy(*KEY[1:]).orderBy(F.desc("window_start")).rowsBetween(Window.unboundedPreceding, -1)
    # From the end: what is open now, less what came after the window.
    after = F.coalesce(F.sum(F.col("opened") - F.col("closed")).over(later), F.lit(0))
    total = F.coalesce("total", F.lit(0))
    known = (
        rows.withColumn("after", after)
        .join(F.broadcast(totals).alias("sums"), _same_key(rows, totals), "left")
        .join(F.broadcast(unknown), (rows.tenant == unknown.t) & (rows["queue"] == unknown.q), "left")
    )
    backlog = F.when(F.col("t").isNull(), total - F.col("after")).alias("backlog")
    return known.select(*(rows[name] for name in STATS_COLUMNS.names if name != "backlog"), backlog, rows["day"])


def open_before(windows: DataFrame, state: StatsState) -> DataFrame:
    """The jobs that were open before the first of these windows: `tenant queue kind open`.

    The windows are all from some time on. Kinds without open jobs are left out, and queues of which nobody knows.
    """
    totals, unknown = _totals(windows.sparkSession, state), _unknown(windows.sparkSession, state)
    since = windows.select(*KEY[1:], (F.col("closed") - F.col("opened")).alias("total"))
    sums = totals.unionByName(since).groupBy(*KEY[1:]).agg(F.sum("total").alias("open"))
    is_unknown = (sums["tenant"] == unknown.t) & (sums["queue"] == unknown.q)
    return sums.where("open <> 0").join(F.broadcast(unknown), is_unknown, "left_anti")


def _totals(spark: SparkSession, state: StatsState) -> DataFrame:
    rows = [(*key, total) for key, total in state.open_jobs().items()]
    return spark.createDataFrame(rows, "tenant string, queue string, kind string, total long")


def _unknown(spark: SparkSession, state: StatsState) -> DataFrame:
    return spark.createDataFrame(
        [tuple(name.split("/")) for name in lacks_beginning(state.counted)], "t string, q string"
    )


def _finished(counts: DataFrame, window_ms: int) -> DataFrame:
    return with_rates(counts, window_ms).withColumn("day", day_of("window_start"))


def _moved(
    state: StatsState,
    new: Counted,
    nets: list[tuple[str, str, str | None, int]],
    first_ms: int | None,
    feed: str | None,
) -> StatsState:
    """The state as it is when the events are counted."""
    totals = state.open_jobs()
    for tenant, queue, kind, net in nets:
        totals[tenant, queue, kind] = totals.get((tenant, queue, kind), 0) + net
    feeds = dict(state.feeds)
    if feed is not None:
        feeds.setdefault(feed, 0)
    if first_ms is not None:
        feeds = {name: first_ms if since is None else min(since, first_ms) for name, since in feeds.items()}
    return msgspec.structs.replace(
        state,
        counted=add(state.counted, new),
        totals=[(*key, total) for key, total in sorted(totals.items(), key=str) if total],
        feeds=feeds,
    )


def _same(one: DataFrame, other: DataFrame) -> Column:
    return (one["window_start"] == other["window_start"]) & _same_key(one, other)


def _same_key(one: DataFrame, other: DataFrame) -> Column:
    # A kind may be unknown, and unknown is the same as unknown here.
    return (one["tenant"] == other["tenant"]) & (one["queue"] == other["queue"]) & one["kind"].eqNullSafe(other["kind"])
