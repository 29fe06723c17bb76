"""Promises of live statistics: whatever comes late, twice or after a fall, they equal what plain Python counts."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.feed import FeedName, FeedType
from headrace.model.names import Queue, Shard
from headrace.pipeline.stats import touched
from headrace.pipeline.stats.live import Counted
from headrace.pipeline.stats.run import follow_stats, read_stats, write_stats
from headrace.stores.contract.store import Store
from tests.pipeline.busy_journal import bustle
from tests.pipeline.filled_journals import T0, Story, fill, keep, tell
from tests.pipeline.shared_stores import SERVED, ask, fresh_url
from tests.pipeline.stats_by_hand import Place, Row
from tests.pipeline.stats_checks import SECONDS_MAX, WINDOW_MS, cursor_of, expected, follow, items_of, rows_in
from tests.support.process import wait_until
from tests.support.stores import sqlite_url

MAIL, NEWS, LATE = Queue("mail", "acme", 2), Queue("news", "birch"), Queue("late", "acme")
TEN_HOURS_MS = 36_000_000
LIVE_SECONDS_MAX = 20
"""From an event to the feed while a query runs: some two seconds, on a machine that has nothing else to do."""
SENTENCE = (
    "4 events of birch/news came too late for their windows (2023-11-14T22:13:50.000Z to 2023-11-14T22:13:50.000Z),"
    " which the journal no longer holds whole; these stay as they are until statistics are made from the history, and"
    " the backlog is not known"
)


@pytest.mark.parametrize("name", SERVED)
def test_statistics_equal_plain_python_with_late_events_and_a_rerun_changes_nothing(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """K29: they are published to the tenants' feeds, where a rerun leaves them alone."""
    url, folder = fresh_url(name, tmp_path), tmp_path / "stats"
    tell(url, bustle(MAIL, 60), bustle(NEWS, 20, seed=2))
    follow(spark, url, folder, events_max=300)
    # Late: another queue tells of a time that is long counted.
    tell(url, bustle(LATE, 30, seed=3, begin_ms=T0 - 15_000))
    follow(spark, url, folder)
    right, cursors, files = expected(url, MAIL, NEWS, LATE), cursors_of(url), bytes_in(folder)

    follow(spark, url, tmp_path / "again", events_max=600)
    journal = spark.read.format("headrace").options(url=url, tenant="*").load()
    write_stats(spark, journal, folder, window_ms=WINDOW_MS, url=url, feed="stats")

    assert len(right) > 30
    assert rows_in(folder) == rows_in(tmp_path / "again") == right
    assert (cursors_of(url), bytes_in(folder)) == (cursors, files)
    assert published(url) == right
    assert last_backlogs(right) == open_jobs(url)


def test_statistics_survive_a_shard_ten_hours_behind_small_batches_and_falls_before_and_after_the_feed(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder, batches = sqlite_url(tmp_path), tmp_path / "stats", list[Counted]()
    tell(url, bustle(MAIL, 20), fill(LATE, 40, every_ms=TEN_HOURS_MS // 40), make_feed("plain"))

    # Files are written, and the feed refuses; then it is published, and the batch is not committed.
    with pytest.raises(StreamingQueryException, match="is a plain queue"):
        follow(spark, url, folder, events_max=80)
    tell(url, delete_feed)
    with pytest.raises(StreamingQueryException, match="fell over"):
        follow(spark, url, folder, events_max=80, on_batch=fall_over)
    follow(spark, url, folder, events_max=80, on_batch=batches.append)

    right = expected(url, MAIL, LATE)
    assert max(place[0] for place in right) - min(place[0] for place in right) > TEN_HOURS_MS - 1_000_000
    assert (batches[0].batch, batches[0].windows, batches[0].items) == (0, 0, 0)
    assert sum(batch.events for batch in batches) > 2 * 80
    assert rows_in(folder) == published(url) == right


def test_a_window_that_the_journal_no_longer_holds_whole_stays_and_is_reported_until_the_history_corrects_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder, told, batches = sqlite_url(tmp_path), tmp_path / "stats", list[str](), list[Counted]()
    tell(url, fill(NEWS, 24))
    follow(spark, url, folder)
    tell(url, fill(NEWS, 16, since=24))
    journal = spark.read.format("headrace").options(url=url, tenant="birch").load().toArrow()
    right = expected(url, NEWS)

    tell(url, keep(Shard(NEWS), 5))
    kept = spark.read.format("headrace").options(url=url, tenant="birch").load().where("seq > 40")
    history = spark.createDataFrame(journal).unionByName(kept)
    follow(spark, url, folder, fail_on_loss=False, tell=told.append, on_batch=batches.append)
    torn = rows_in(folder)
    # A history that does not reach what came too late has no gap, and yet it does not make the backlog known.
    write_stats(spark, history.where("seq <= 36"), folder, window_ms=WINDOW_MS)
    behind = rows_in(folder)
    written = write_stats(spark, history, folder, window_ms=WINDOW_MS, url=url, feed="stats")

    assert [row["backlog"] for row in torn.values()] == [10, 20, 24]
    assert [row["events"] for row in torn.values()] == [10, 10, 4]
    assert [batch.late for batch in batches] == [4]
    assert told == [SENTENCE]
    assert [row["backlog"] for row in behind.values()] == [10, 20, 30, None]
    assert (written.windows, written.rows, written.changed, written.items) == (4, 4, 1, 2)
    assert rows_in(folder) == published(url, "birch") == right
    assert read_stats(spark, folder).where("day = date'2023-11-14'").count() == 4


def test_events_that_a_window_holds_already_are_not_late_when_the_journal_drops_them_before_their_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder, batches = sqlite_url(tmp_path), tmp_path / "stats", list[Counted]()
    tell(url, fill(NEWS, 8))

    def drop(batch: Counted) -> None:
        if not batches:
            tell(url, keep(Shard(NEWS), 5))
        batches.append(batch)

    follow(spark, url, folder, events_max=4, feed=None, on_batch=drop)

    assert [batch.events for batch in batches[:2]] == [4, 4]
    assert [batch.late for batch in batches] == [0] * len(batches)
    assert [(row["events"], row["backlog"]) for row in rows_in(folder).values()] == [(8, 8)]


def test_a_rerun_leaves_a_full_feed_as_it_is_from_the_same_folder_and_from_a_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "stats"
    tell(url, make_feed("feed", "birch", items_max=2), fill(NEWS, 40))
    follow(spark, url, folder, events_max=15)
    before, full = cursor_of(url, "birch"), items_of(url, "birch")

    journal = spark.read.format("headrace").options(url=url, tenant="birch").load()
    again = write_stats(spark, journal, folder, window_ms=WINDOW_MS, url=url, feed="stats")
    follow(spark, url, tmp_path / "new", events_max=15)
    after = cursor_of(url, "birch")
    tell(url, fill(NEWS, 10, since=40))
    follow(spark, url, tmp_path / "new")

    right = expected(url, NEWS)
    assert (again.changed, again.items) == (0, 0)
    assert (after, list(full)) == (before, list(right)[2:4])
    assert items_of(url, "birch") == {place: right[place] for place in list(right)[3:]}


def test_windows_between_scattered_ones_do_not_come_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, came, rows_of = sqlite_url(tmp_path), list[int](), touched.rows_of
    tell(url, fill(NEWS, 100))
    wanted = {T0 + number * WINDOW_MS for number in (0, 2, 4, 6, 9)}

    def noting(frame: DataFrame) -> list[tuple[int, Row]]:
        found = rows_of(frame)
        came.extend(start_ms for start_ms, _ in found)
        return found

    monkeypatch.setattr(touched, "rows_of", noting)
    windows = [(start_ms, ("birch", "news")) for start_ms in wanted]
    found = touched.count_anew(spark, {"url": url, "tenant": "birch"}, WINDOW_MS, windows)

    assert found.keys() == set(came) == wanted


def test_an_event_is_in_the_feed_within_seconds_while_the_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    url, batches = sqlite_url(tmp_path), list[Counted]()
    tell(url, fill(NEWS, 1))
    query = follow_stats(spark, url, tmp_path / "stats", window_ms=WINDOW_MS, every_ms=200, on_batch=batches.append)
    try:
        wait_until(lambda: opened_in(url) == [1], "the first event in the feed", SECONDS_MAX)
        tell(url, fill(NEWS, 2, since=1))
        wait_until(lambda: opened_in(url) == [3], "the next events in the feed", LIVE_SECONDS_MAX)
    finally:
        query.stop()

    assert sum(batch.items for batch in batches) >= 2


def opened_in(url: str) -> list[int]:
    """How many jobs came in each window of the feed."""
    return [row["opened"] for row in items_of(url, "birch").values()]


def fall_over(_: Counted) -> None:
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

    return ask(url, read)
