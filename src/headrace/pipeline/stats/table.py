"""Adds events to the table of statistics: each once, whoever brings it, and from wherever it comes."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.stats.columns import LAYOUT, STATS, Key
from headrace.pipeline.stats.counted import Counted, add, lacks_beginning, overlap, ranges_of, without
from headrace.pipeline.storage.layout import DataFile, TableVersion
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, open_table
from headrace.pipeline.storage.write import write_files
from headrace.pipeline.tables.stats import KEY, merge_windows, window_counts, with_rates
from headrace.pipeline.tables.usage import day_of

APP = "headrace-stats"
TRIES = 5
"""How often a commit is tried when another run commits at the same time."""


COMMITS_VACUUM = 250
VACUUM_HOURS = 2
"""A live query replaces the file of a day with each batch: those that nobody reads any more go soon."""


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
    return open_table(Location.parse(folder), LAYOUT)


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
            F.count("*").alias("rows"),
        )
        nets = sums.collect()
        days = tuple(sorted({row.day for row in nets}))
        first_ms = min((row.first_ms for row in nets), default=None)
        added: frozenset[tuple[int, Key]] = frozenset()
        old = now.files() if is_anew else now.files([("day", "in", days)]) if days else []
        if is_anew or not days:
            files = write_files(_finished(delta, state.window_ms).repartitionByRange("day"), table) if days else []
        else:
            there = table.read(events.sparkSession, where=[("day", "in", days)])
            if feed is not None:
                found = delta.join(there, _same(delta, there), "left_anti")
                rows = found.select(F.unix_millis("window_start").alias("ms"), *KEY[1:]).collect()
                added = frozenset((row.ms, (row.tenant, row.queue, row.kind)) for row in rows)
            both = merge_windows(delta.drop("day").unionByName(there.select(*delta.drop("day").columns)))
            merged = both.withColumn("day", day_of("window_start"))
            files = write_files(_finished(merged, state.window_ms).coalesce(1), table)
        changed = _moved(state, new, [(row.tenant, row.queue, row.kind, row.net) for row in nets], first_ms, feed)
        if files or changed != state or is_anew:
            commit(table, now, changed, files, old)
    finally:
        delta.unpersist()
    count = sum(each.last - each.first + 1 for ranges in new.values() for each in ranges)
    since_ms = None if feed is None else state.feeds.get(feed, 0)
    return StatsChange(count, sum(row.rows for row in nets), first_ms, added, since_ms, changed)


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
        table.vacuum(hours=VACUUM_HOURS)


def read_windows(table: DataTable, spark: SparkSession, state: StatsState, since_day: str | None = None) -> DataFrame:
    """The rows with their backlog: those of the days from `since_day` on, or all."""
    rows = table.read(spark, where=[("day", ">=", since_day)] if since_day is not None else [])
    totals = spark.createDataFrame(
        [(*key, total) for key, total in state.open_jobs().items()],
        "tenant string, queue string, kind string, total long",
    )
    unknown = spark.createDataFrame(
        [tuple(name.split("/")) for name in lacks_beginning(state.counted)], "t string, q string"
    )
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
    return known.select(*(rows[name] for name in STATS.names if name != "backlog"), backlog, rows["day"])


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
