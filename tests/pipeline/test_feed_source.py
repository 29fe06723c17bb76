"""Promises of feeds in Spark: items as a batch, changes as a stream, each once, whatever a store forgets."""

import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedName, FeedType, ItemPosition, Publication
from headrace.pipeline.source.feed.follower import fair_shares
from headrace.stores.contract.store import Store
from tests.pipeline.player import Checkpoint, Row, playing
from tests.pipeline.shared_stores import SERVED, Batch, call_store, fresh_url
from tests.pipeline.store_scenarios import instant

ME = "me"
NEWS, STATS = FeedName("news"), FeedName("stats")


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def publish(url: str, feed: FeedName, *ids: str, type: FeedType = "feed", **settings: int) -> None:
    """Publish items under ids, each holding its id; the feed is made when it is missing."""

    async def apply(store: Store) -> None:
        if await store.feeds.describe(feed) is None:
            await store.feeds.create(feed, type, settings, instance=ME, now_ms=1_000)
        publications = [Publication(b'{"id":"%s"}' % id.encode(), id) for id in ids]
        for first in range(0, len(publications), 1_000):
            await store.items.publish(feed, publications[first : first + 1_000], instance=ME, now_ms=2_000)

    call_store(url, apply)


def after(url: str, *steps: Callable[[Store], Awaitable[object]]) -> None:
    """Let steps happen in the store, one after the other."""

    async def apply(store: Store) -> None:
        for step in steps:
            await step(store)

    call_store(url, apply)


def delete(feed: FeedName) -> Callable[[Store], Awaitable[object]]:
    return lambda store: store.feeds.delete(feed, instance=ME)


def keep(feed: FeedName, **settings: int) -> Callable[[Store], Awaitable[object]]:
    return lambda store: store.feeds.configure(feed, settings, instance=ME, now_ms=2_000)


def ids(rows: list[Row] | None, feed: str | None = None) -> list[str]:
    """The ids of rows in order, without what happened to feeds themselves."""
    return [row["id"] for row in rows or [] if row["id"] and feed in (None, row["feed"])]


def numbered(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def test_a_batch_gives_the_items_of_a_feed_in_order_with_every_column(url: str) -> None:
    publish(url, NEWS, "a", "b")
    publish(url, FeedName("of-others", "acme"), "x")
    state = call_store(url, lambda store: store.feeds.describe(NEWS))

    rows = Batch(url=url, what="feed", feed="news").rows

    assert state is not None
    common = {
        "tenant": "default",
        "feed": "news",
        "birth": state.cursor.birth,
        "epoch": state.cursor.epoch,
        "seq": 3,
        "happened_at": instant(2_000),
        "event": "present",
        "place": None,
        "neighbour": None,
        "reason": None,
        "instance": None,
    }
    assert rows == [common | {"id": id, "item": f'{{"id":"{id}"}}', "position": at} for at, id in enumerate("ab")]


def test_a_batch_of_all_feeds_has_those_of_the_tenant_of_every_type_whatever_their_size(url: str) -> None:
    publish(url, NEWS, *numbered(1, 2_345))
    publish(url, FeedName("board"), "top", type="sorted")
    publish(url, FeedName("inbox"), "dead_letter", type="queue")
    publish(url, FeedName("empty"))
    publish(url, FeedName("of-others", "acme"), "x")

    batch = Batch(url=url, what="feed", columns="feed,id,position")

    assert ids(batch.rows, "news") == numbered(1, 2_345)
    assert [row["position"] for row in batch.rows if row["feed"] == "news"] == list(range(2_345))
    assert [row for row in batch.rows if row["feed"] != "news"] == [
        {"feed": "board", "id": "top", "position": 0},
        {"feed": "inbox", "id": "dead_letter", "position": 0},
    ]
    assert batch.sizes == [2_347]


def test_filters_leave_out_other_feeds_and_then_rows(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS, "a", "b")
    publish(url, STATS, "a", "b")

    some = Batch(EqualTo(("feed",), "stats"), GreaterThanOrEqual(("position",), 1), url=url, what="feed")
    none = Batch(EqualTo(("event",), "published"), url=url, what="feed")

    assert [part.feeds for part in some.parts] == [(STATS,)]
    assert [(row["feed"], row["id"]) for row in some.rows] == [("stats", "b")]
    assert (none.parts, none.left) == ([], [])


def test_an_item_that_is_no_text_is_null(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS)
    odd = [Publication(b"\xff\x00", "bytes"), Publication('"é"'.encode(), "text")]
    after(url, lambda store: store.items.publish(NEWS, odd, instance=ME))

    assert [row["item"] for row in Batch(url=url, what="feed").rows] == [None, '"é"']


def test_a_stream_tells_every_change_with_every_column_and_then_what_is_new(url: str) -> None:
    board = FeedName("board")
    publish(url, board, "1", type="sorted")
    before = ItemPosition("before", "1")
    after(
        url,
        lambda store: store.items.publish(board, [Publication(b"2", "2", before)], instance="you", now_ms=3_000),
        lambda store: store.items.retract(board, ["1"], instance=ME, now_ms=4_000),
    )

    with playing(url=url, what="feed", feed="board") as run:
        first = run.batch()
        publish(url, board, "3")
        second, third = run.batch(), run.batch()

    assert first is not None
    shown = ("seq", "happened_at", "event", "id", "item", "place", "neighbour", "instance")
    assert [tuple(row[name] for name in shown) for row in first[1:]] == [
        (2, instant(2_000), "published", "1", '{"id":"1"}', "last", None, ME),
        (3, instant(3_000), "published", "2", "2", "before", "1", "you"),
        (4, instant(4_000), "retracted", "1", None, None, None, ME),
    ]
    assert (first[0]["event"], first[0]["id"], '"type":"sorted"' in first[0]["item"]) == ("created", None, True)
    assert {(row["tenant"], row["feed"], row["position"]) for row in first} == {("default", "board", None)}
    assert (ids(second), third) == (["3"], None)


def test_a_limited_stream_has_batches_of_exactly_so_many_changes_and_reaches_the_end(url: str) -> None:
    publish(url, NEWS, *numbered(1, 20))
    publish(url, STATS, *numbered(1, 4))

    with playing(url=url, what="feed", maxEventsPerTrigger="6") as run:
        batches = run.rest()

    assert [len(batch) for batch in batches] == [6, 6, 6, 6, 2]
    assert [[row["feed"] for row in batch].count("stats") for batch in batches] == [3, 2, 0, 0, 0]
    everything = [row for batch in batches for row in batch]
    assert ids(everything, "news") == numbered(1, 20)
    assert ids(everything, "stats") == numbered(1, 4)


@given(st.lists(st.integers(0, 50)), st.integers(1, 120))
def test_shares_are_equal_and_nothing_of_a_limit_is_left_over(counts: list[int], limit: int) -> None:
    taken = fair_shares(counts, limit)

    assert sum(taken) == min(limit, sum(counts))
    assert all(share <= count for share, count in zip(taken, counts, strict=True))
    cut = [share for share, count in zip(taken, counts, strict=True) if share < count]
    assert not cut or max(taken) - min(cut) <= 1


def test_a_feed_with_little_is_not_kept_waiting_by_one_with_much() -> None:
    assert fair_shares([100, 1], 1) == [0, 1]


def test_a_stream_goes_on_from_its_checkpoint_and_feeds_that_come_later_join(url: str) -> None:
    publish(url, NEWS, *numbered(1, 5))
    kept = Checkpoint()
    with playing(kept, url=url, what="feed", maxEventsPerTrigger="4") as run:
        begun = run.batch()

    publish(url, STATS, "a", "b")
    with playing(kept, url=url, what="feed") as run:
        rest = run.rest()

    assert ids(begun) == numbered(1, 3)
    assert [ids(batch, "news") for batch in rest] == [["4", "5"]]
    assert [ids(batch, "stats") for batch in rest] == [["a", "b"]]


def test_a_batch_that_failed_is_read_again_as_it_was_planned(url: str) -> None:
    publish(url, NEWS, "1", "2")
    kept = Checkpoint()
    with playing(kept, url=url, what="feed") as run:
        first = run.batch()
    kept.run = 0
    publish(url, NEWS, "3")

    with playing(kept, url=url, what="feed") as run:
        again, rest = run.batch(), run.batch()

    assert (again, ids(rest)) == (first, ["3"])


def test_a_query_that_ends_with_what_is_there_reaches_it_and_nothing_beyond(url: str) -> None:
    publish(url, NEWS, *numbered(1, 9))
    publish(url, STATS, "a")

    options: dict[str, Any] = {"url": url, "what": "feed", "maxEventsPerTrigger": "5", "failOnDataLoss": "false"}
    with playing(available_now=True, **options) as run:
        publish(url, NEWS, "late")
        publish(url, FeedName("new"), "late")
        first = run.batch()
        after(url, delete(STATS))
        rest = run.rest()

    assert (ids(first, "news"), ids(first, "stats")) == (numbered(1, 2), ["a"])
    assert [ids(batch) for batch in rest] == [numbered(3, 7), numbered(8, 9)]


def test_a_stream_of_a_feed_begins_at_its_starting_offsets(url: str) -> None:
    publish(url, NEWS, *numbered(1, 4))
    publish(url, STATS, "a")
    late = [Publication(b"5", "5")]
    after(url, lambda store: store.items.publish(NEWS, late, instance=ME, now_ms=9_000))

    def first(**options: Any) -> list[str]:
        with playing(url=url, what="feed", **options) as run:
            return ids(run.batch())

    assert first(startingOffsets="latest") == []
    assert first(startingOffsets="9000") == ["5"]
    assert first(startingOffsets="2000", feed="news") == numbered(1, 5)
    assert first(startingOffsets="1970-01-01T00:00:10Z") == []
    assert first(startingOffsets='{"default/news": 4, "default/stats": -1}') == ["3", "4", "5"]
    assert first(startingOffsets='{"default/news": 7}') == ["a"]
    assert first(startingOffsets='{"default/news": "1970-01-01T00:00:09Z", "default/stats": -1}') == ["5"]
    with pytest.raises(
        BadConfig, match=r"names 'default/gone', which is not one of the feeds .* known feeds: default/news"
    ):
        first(startingOffsets='{"default/gone": 4}')
    with pytest.raises(BadConfig, match=r"seq 8 of feed default/news, which keeps 1 to 6; give a seq from 1 to 7"):
        first(startingOffsets='{"default/news": 8}')
    assert first(startingOffsets='{"default/news": 8}', failOnDataLoss="false") == ["a"]


def test_changes_that_retention_dropped_unread_are_refused_or_skipped_and_counted(url: str) -> None:
    publish(url, NEWS, "1")
    kept = Checkpoint()
    options: dict[str, Any] = {"url": url, "what": "feed", "feed": "news"}
    with playing(kept, **options) as run:
        run.batch()

    publish(url, NEWS, *numbered(2, 9))
    after(url, keep(NEWS, changes_keep_max=3))

    with (
        playing(kept, **options) as run,
        pytest.raises(
            Refused,
            match=r"read feed default/news up to seq 2, and retention has dropped what follows up to 8; .*"
            r"new checkpoint, or set option failOnDataLoss=false to continue without the 6 changes",
        ),
    ):
        run.batch()
    with playing(kept, **options, failOnDataLoss="false") as run:
        rest = run.batch()
        publish(url, NEWS, "10")
        assert ids(run.batch()) == ["10"]
    assert ids(rest) == ["8", "9"]
    assert (kept.last["skipped"], kept.last["lost"]) == (6, 0)


def test_the_oldest_change_that_is_kept_can_be_named_as_the_first(url: str) -> None:
    publish(url, NEWS, *numbered(1, 9))
    after(url, keep(NEWS, changes_keep_max=3))

    with playing(url=url, what="feed", startingOffsets='{"default/news": 9}') as run:
        rows = run.batch()

    assert ids(rows) == ["8", "9"]


def test_changes_that_retention_drops_under_a_task_are_refused_or_skipped_and_reported(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    publish(url, NEWS, *numbered(1, 9))
    kept = Checkpoint()
    with playing(kept, url=url, what="feed") as run:
        run.batch()
    kept.run = 0
    after(url, keep(NEWS, changes_keep_max=3))

    with (
        playing(kept, url=url, what="feed") as run,
        pytest.raises(Refused, match=r"is to read feed default/news from seq 1 on, which was dropped"),
    ):
        run.batch()
    with playing(kept, url=url, what="feed", failOnDataLoss="false") as run:
        again = run.batch()

    assert ids(again) == ["8", "9"]
    assert "headrace: 8 changes were dropped by retention before they were read" in capfd.readouterr().err


@pytest.mark.parametrize("is_anew", [False, True], ids=["gone", "made anew"])
def test_a_feed_that_was_deleted_is_refused_or_left_behind(url: str, is_anew: bool) -> None:
    publish(url, NEWS, "1")
    publish(url, STATS, "a")
    kept = Checkpoint()
    with playing(kept, url=url, what="feed") as run:
        run.batch()

    after(url, delete(NEWS))
    if is_anew:
        publish(url, NEWS, "new")
    publish(url, STATS, "b")

    sentence = "the feed of this name is another one" if is_anew else "the feed no longer exists"
    with (
        playing(kept, url=url, what="feed") as run,
        pytest.raises(Refused, match=rf"read feed default/news up to seq 2, and {sentence}.*; use a new checkpoint"),
    ):
        run.batch()
    with playing(kept, url=url, what="feed", failOnDataLoss="false") as run:
        rest, end = run.batch(), run.batch()
    assert (ids(rest, "news"), ids(rest, "stats"), end) == (["new"] if is_anew else [], ["b"], None)
    assert ("default/news" in kept.last["feeds"]) == is_anew


def test_changes_that_were_read_and_that_the_store_has_lost_are_refused_or_counted(url: str) -> None:
    publish(url, NEWS, *numbered(1, 5))
    kept = Checkpoint()
    options: dict[str, Any] = {"url": url, "what": "feed", "feed": "news"}
    with playing(kept, **options) as run:
        run.batch()
    # As if three more had been read that the store has lost since.
    cursor = kept.last["feeds"]["default/news"]
    kept.ends[-1] = kept.ends[-1].replace(cursor, cursor.removesuffix("-6") + "-9")

    with (
        playing(kept, **options) as run,
        pytest.raises(
            Refused, match=r"up to seq 9, and its log does not hold that change: the store has lost its tail"
        ),
    ):
        run.batch()
    with playing(kept, **options, failOnDataLoss="false") as run:
        assert run.batch() == []
        publish(url, NEWS, "6")
        assert ids(run.batch()) == ["6"]
    assert (kept.last["skipped"], kept.last["lost"]) == (0, 3)


def restart(folder: Path, *, keeps_tail: bool) -> None:
    """Let the store find that its machine was started anew, with what it has or with what `copy.db` holds."""
    path = folder / "headrace.db"
    if not keeps_tail:
        for end in ("-wal", "-shm"):
            (folder / f"headrace.db{end}").unlink(missing_ok=True)
        shutil.copy(folder / "copy.db", path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE store SET boot_id = 'another'")
        file.commit()


@pytest.mark.parametrize("fresh", [0, 1, 6], ids=["before anything is new", "shorter", "longer"])
def test_a_tail_that_a_store_has_lost_is_refused_or_gone_on_from_with_what_is_new(tmp_path: Path, fresh: int) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS, *numbered(1, 4))
    with (
        closing(sqlite3.connect(tmp_path / "headrace.db")) as now,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        now.backup(copy)
    publish(url, NEWS, *numbered(5, 7))
    kept = Checkpoint()
    with playing(kept, url=url, what="feed") as run:
        run.batch()
    restart(tmp_path, keeps_tail=False)
    publish(url, NEWS, *numbered(21, 20 + fresh))

    with playing(kept, url=url, what="feed") as run, pytest.raises(Refused, match="the store has lost its tail"):
        run.batch()
    with playing(kept, url=url, what="feed", failOnDataLoss="false", maxEventsPerTrigger="4") as run:
        batches = run.rest()

    assert [id for batch in batches for id in ids(batch)] == numbered(21, 20 + fresh)
    assert all(len(batch) <= 4 for batch in batches)
    assert (kept.last["skipped"], kept.last["lost"]) == (0, 3)


def test_a_restart_that_lost_nothing_is_read_across_whatever_the_limit(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS, *numbered(1, 4))
    kept = Checkpoint()
    with playing(kept, url=url, what="feed", maxEventsPerTrigger="2") as run:
        first = run.batch()
    restart(tmp_path, keeps_tail=True)
    publish(url, NEWS, *numbered(5, 8))

    with playing(kept, url=url, what="feed", maxEventsPerTrigger="2") as run:
        batches = [first or [], *run.rest()]

    assert [len(batch) for batch in batches] == [2, 2, 2, 2, 1]
    rows = [row for batch in batches for row in batch]
    assert ids(rows) == numbered(1, 8)
    epoch = rows[-1]["epoch"]
    assert epoch > 1
    assert [row["epoch"] for row in rows] == [1] * 5 + [epoch] * 4


def test_a_batch_of_changes_waits_for_so_many(url: str) -> None:
    publish(url, NEWS, "1")

    with playing(url=url, what="feed", minEventsPerTrigger="4") as run:
        first = [run.batch(), run.batch()]
        publish(url, NEWS, *numbered(2, 4))
        waiting = run.batch()
        publish(url, NEWS, "5")
        second = run.batch()

    assert (first[1], waiting) == (None, None)
    assert [ids(first[0]), ids(second)] == [["1"], numbered(2, 5)]


def test_a_stream_tells_its_lag(url: str) -> None:
    publish(url, NEWS, *numbered(1, 9))
    publish(url, STATS, "a")

    with playing(url=url, what="feed", maxEventsPerTrigger="5") as run:
        assert run.reader.reportLatestOffset() is None
        lags = []
        while run.batch() is not None:
            lags.append(run.reader.reportLatestOffset()["lag"])

    assert lags == [7, 2, 0]


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS)

    def latest(start: dict[str, Any]) -> None:
        with playing(url=url, what="feed") as run:
            run.reader.latestOffset(start, run.reader.getDefaultReadLimit())

    for start in ({"v": 2, "feeds": {}}, {"v": 1, "shards": {}}):
        with pytest.raises(BadConfig, match=r"checkpoint was written by another version of Headrace or by another"):
            latest(start)


def test_an_unknown_feed_is_refused_and_so_are_starting_offsets_of_a_batch(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    publish(url, NEWS)

    with pytest.raises(BadConfig, match=r"no feed 'nwes' of tenant 'default'; known feeds: news"):
        Batch(url=url, what="feed", feed="nwes")
    with playing(url=url, what="feed", feed="nwes") as run, pytest.raises(BadConfig, match=r"no feed 'nwes'"):
        run.batch()
    kept = Checkpoint()
    with playing(kept, url=url, what="feed", feed="news") as run:
        run.batch()
    with playing(kept, url=url, what="feed", feed="news,nwes") as run, pytest.raises(BadConfig, match=r"feed 'nwes'"):
        run.batch()
    with pytest.raises(BadConfig, match=r"startingOffsets is for streams of feed, and a batch reads everything"):
        Batch(url=url, what="feed", startingOffsets="latest")


def test_spark_streams_changes_up_to_the_end_and_joins_them_with_items(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    publish(url, NEWS, *numbered(1, 25))
    publish(url, NEWS, "7")
    changes = spark.readStream.format("headrace").options(url=url, what="feed", maxEventsPerTrigger="10").load()
    items = spark.read.format("headrace").options(url=url, what="feed").load()

    query = (
        changes.writeStream.format("memory")
        .queryName("changes")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)

    assert [progress["numInputRows"] for progress in query.recentProgress] == [10, 10, 7]
    edited = spark.table("changes").where("event = 'edited'").join(items, on="id", how="inner")
    assert [(row.id, row.position) for row in edited.select("id", items.position).collect()] == [("7", 24)]
