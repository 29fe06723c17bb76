"""Promises of live statistics: whatever comes late, twice or after a fall, they equal what plain Python counts."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName, FeedType
from headrace.model.names import Queue, Shard
from headrace.pipeline.event_source import Events, read_journal
from headrace.pipeline.stats import table as stats_of
from headrace.pipeline.stats.run import BatchStats, follow_stats, read_stats, write_stats
from headrace.pipeline.stats.table import stats_table
from headrace.stores.contract.store import Store
from tests.pipeline.busy_journal import bustle
from tests.pipeline.by_hand import ENQUEUED, at, frame_of
from tests.pipeline.by_hand import Row as HandRow
from tests.pipeline.filled_journals import T0, Story, fill, fill_store, keep
from tests.pipeline.shared_stores import ONE_OF_SERVED, call_store, fresh_url
from tests.pipeline.stats_by_hand import Place, Row
from tests.pipeline.stats_checks import SECONDS_MAX, WINDOW_MS, cursor_of, expected, follow, items_of, rows_in
from tests.support.process import wait_until
from tests.support.stores import sqlite_url

MAIL, NEWS, LATE = Queue("mail", "acme", 2), Queue("news", "birch"), Queue("late", "acme")
TEN_HOURS_MS = 36_000_000
LIVE_SECONDS_MAX = 20
"""From an event to the feed while a query runs: some two seconds, on a machine that has nothing else to do."""


@pytest.mark.parametrize("name", ONE_OF_SERVED)
def test_statistics_equal_plain_python_with_late_events_and_a_rerun_changes_nothing(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """K29: they are published to the tenants' feeds, where a rerun leaves them alone."""
    url, folder = fresh_url(name, tmp_path), tmp_path / "stats"
    fill_store(url, bustle(MAIL, 60), bustle(NEWS, 20, seed=2))
    follow(spark, url, folder, events_max=300)
    # Late: another queue tells of a time that is long counted.
    fill_store(url, bustle(LATE, 30, seed=3, begin_ms=T0 - 15_000))
    follow(spark, url, folder)
    right, cursors, files = expected(url, MAIL, NEWS, LATE), cursors_of(url), bytes_in(folder)

    follow(spark, url, tmp_path / "again", events_max=600, feed=None)
    write_stats(spark, journal_of(spark, url), folder, url=url, feed="stats")

    assert len(right) > 30
    assert rows_in(spark, folder) == rows_in(spark, tmp_path / "again") == right
    assert (cursors_of(url), bytes_in(folder)) == (cursors, files)
    assert published(url) == right
    assert last_backlogs(right) == open_jobs(url)


def test_statistics_survive_a_shard_ten_hours_behind_small_batches_and_falls_before_and_after_the_feed(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder, batches = sqlite_url(tmp_path), tmp_path / "stats", list[BatchStats]()
    fill_store(url, bustle(MAIL, 20), fill(LATE, 40, every_ms=TEN_HOURS_MS // 40), make_feed("queue"))

    # The table is written, and the feed refuses; then it is published, and the batch is not committed.
    with pytest.raises(StreamingQueryException, match="is an item queue"):
        follow(spark, url, folder, events_max=80)
    fill_store(url, delete_feed)
    with pytest.raises(StreamingQueryException, match="fell over"):
        follow(spark, url, folder, events_max=80, on_batch=fall_over)
    follow(spark, url, folder, events_max=80, on_batch=batches.append)

    right = expected(url, MAIL, LATE)
    assert max(place[0] for place in right) - min(place[0] for place in right) > TEN_HOURS_MS - 1_000_000
    assert (batches[0].batch, batches[0].windows, batches[0].items) == (0, 0, 0)
    assert sum(batch.events for batch in batches) > 2 * 80
    assert rows_in(spark, folder) == published(url) == right


def test_the_backlog_is_not_known_after_a_loss_until_the_history_brings_the_lost_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "stats"
    fill_store(url, fill(NEWS, 24))
    follow(spark, url, folder)
    fill_store(url, fill(NEWS, 16, since=24))
    whole = journal_of(spark, url).frame.toArrow()
    right = expected(url, NEWS)

    fill_store(url, keep(Shard(NEWS), 5))
    kept = journal_of(spark, url).frame.where("seq > 40")
    follow(spark, url, folder, fail_on_loss=False)
    torn = rows_in(spark, folder)
    history = Events(spark.createDataFrame(whole).unionByName(kept), "history", "by hand", source="one", head=3)
    written = write_stats(spark, history, folder, url=url, feed="stats")
    again = write_stats(spark, history, folder, url=url, feed="stats")

    assert {row["backlog"] for row in torn.values()} == {None}
    assert sum(row["events"] for row in torn.values()) < 40
    assert written.events > again.events == again.changed == again.items == 0
    assert rows_in(spark, folder) == published(url, "birch") == right
    assert read_stats(spark, folder).where("day = date'2023-11-14'").count() == 4


def test_statistics_are_made_anew_by_other_windows(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "stats"
    fill_store(url, fill(NEWS, 40))
    follow(spark, url, folder, feed=None)
    journal = journal_of(spark, url)

    with pytest.raises(BadConfig, match=r"holds windows of 10\.0 s, and 1 h 0 m was asked for; make them anew"):
        write_stats(spark, journal, folder, window_ms=3_600_000)
    for window_ms in (500, 1_500, 2 * 86_400_000):
        with pytest.raises(BadConfig, match="give whole seconds, from 1 s to 24 h"):
            write_stats(spark, journal, folder, window_ms=window_ms)
    write_stats(spark, journal, folder, window_ms=3_600_000, rebuild=True)

    assert [(row.events, row.backlog) for row in read_stats(spark, folder).collect()] == [(40, 40)]


def test_two_runs_at_once_count_each_event_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "stats"
    fill_store(url, fill(NEWS, 24))
    journal, commit, met = journal_of(spark, url), stats_of.commit, list[int]()

    def met_by_another(*args: Any) -> None:
        if not met:
            met.append(1)
            write_stats(spark, journal, folder, window_ms=WINDOW_MS)
        commit(*args)

    monkeypatch.setattr(stats_of, "commit", met_by_another)
    written = write_stats(spark, journal, folder, window_ms=WINDOW_MS)

    assert written.changed == 0
    assert rows_in(spark, folder) == expected(url, NEWS)


def test_a_rerun_leaves_a_full_feed_as_it_is_from_the_same_folder_and_from_a_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "stats"
    fill_store(url, make_feed("feed", "birch", items_max=2), fill(NEWS, 40))
    follow(spark, url, folder, events_max=15)
    before, full = cursor_of(url, "birch"), items_of(url, "birch")

    again = write_stats(spark, journal_of(spark, url), folder, url=url, feed="stats")
    follow(spark, url, tmp_path / "new", events_max=15)
    after = cursor_of(url, "birch")
    fill_store(url, fill(NEWS, 10, since=40))
    follow(spark, url, tmp_path / "new")

    right = expected(url, NEWS)
    assert (again.changed, again.items) == (0, 0)
    assert (after, list(full)) == (before, list(right)[2:4])
    assert items_of(url, "birch") == {place: right[place] for place in list(right)[3:]}


def test_an_event_is_in_the_feed_within_seconds_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    url, batches = sqlite_url(tmp_path), list[BatchStats]()
    fill_store(url, fill(NEWS, 1))
    query = follow_stats(spark, url, tmp_path / "stats", window_ms=WINDOW_MS, every_ms=200, on_batch=batches.append)
    try:
        wait_until(lambda: opened_in(url) == [1], "the first event in the feed", SECONDS_MAX)
        fill_store(url, fill(NEWS, 2, since=1))
        wait_until(lambda: opened_in(url) == [3], "the next events in the feed", LIVE_SECONDS_MAX)
    finally:
        query.stop()

    assert sum(batch.items for batch in batches) >= 2


def test_a_batch_replaces_the_files_of_its_own_hours(spark: SparkSession, tmp_path: Path) -> None:
    def add(*places: tuple[int, int]) -> set[str]:
        rows: list[HandRow] = [{**ENQUEUED, "seq": seq, "happened_at": at(60 * minute)} for seq, minute in places]
        written.extend(rows)
        write_stats(
            spark, Events(frame_of(spark, *rows), "journal", "by hand"), tmp_path / "stats", window_ms=WINDOW_MS
        )
        now = stats_table(tmp_path / "stats").version()
        assert now is not None
        return {file.path for file in now.files()}

    written: list[HandRow] = []
    first = add((1, 600))
    next_hour = add((2, 660))
    same_hour = add((3, 661), (4, 660))
    earlier = add((5, 630))
    both = add((6, 600), (7, 661))
    write_stats(
        spark, Events(frame_of(spark, *written), "journal", "by hand"), tmp_path / "at once", window_ms=WINDOW_MS
    )

    assert first < next_hour
    assert (first < same_hour, len(same_hour - next_hour), len(next_hour - same_hour)) == (True, 1, 1)
    assert same_hour < earlier
    assert (len(both), len(both & earlier)) == (2, 0)
    assert rows_in(spark, tmp_path / "stats") == rows_in(spark, tmp_path / "at once")


def journal_of(spark: SparkSession, url: str) -> Events:
    return Events(read_journal(spark, url), "journal", url)


def opened_in(url: str) -> list[int]:
    """How many jobs came in each window of the feed."""
    return [row["opened"] for row in items_of(url, "birch").values()]


def fall_over(_: BatchStats) -> None:
    raise RuntimeError("fell over")


def make_feed(type: FeedType, tenant: str = "acme", **changes: int) -> Story:
    async def story(store: Store) -> None:
        await store.feeds.create(FeedName("stats", tenant), type, changes=changes, instance="test")

    return story


async def delete_feed(store: Store) -> None:
    await store.feeds.delete(FeedName("stats", "acme"), instance="test")


def cursors_of(url: str) -> list[str]:
    return [cursor_of(url, tenant) for tenant in ("acme", "birch")]


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.glob("day=*/*.parquet")}


def published(url: str, *tenants: str) -> dict[Place, Row]:
    """The items of the feeds, as rows by place."""
    return {place: row for tenant in tenants or ("acme", "birch") for place, row in items_of(url, tenant).items()}


def last_backlogs(rows: dict[Place, Row]) -> dict[str, int]:
    last = {place[1:]: row["backlog"] for place, row in sorted(rows.items(), key=lambda each: each[0][0])}
    sums: dict[str, int] = {}
    for (_, queue, _), backlog in last.items():
        sums[queue] = sums.get(queue, 0) + backlog
    return sums


def open_jobs(url: str) -> dict[str, int]:
    async def read(store: Store) -> dict[str, int]:
        found = {queue.name: await store.queues.counts(queue, now_ms=T0) for queue in (MAIL, NEWS, LATE)}
        return {name: counts.waiting + counts.active for name, counts in found.items()}

    return call_store(url, read)
