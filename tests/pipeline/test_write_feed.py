"""Promises of a write of items: published or edited once, and what is there as it should be is left alone."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedName, FeedType
from headrace.pipeline.sinks import publish
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import SERVED, call_store, fresh_url
from tests.pipeline.writes import Batch, Row, counts_of, write

STATS = FeedName("stats")
COLUMNS = "id string, item string"


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def create(url: str, type: FeedType = "feed", **settings: int) -> None:
    call_store(url, lambda store: store.feeds.create(STATS, type, settings, instance="test"))


def items(url: str) -> list[tuple[str, bytes]]:
    async def look(store: Store) -> list[tuple[str, bytes]]:
        return [(item.id, item.item) for item in (await store.items.list(STATS)).rows]

    return call_store(url, look)


def changes(url: str) -> int:
    """How far the log of the feed has got."""

    async def look(store: Store) -> int:
        state = await store.feeds.describe(STATS)
        assert state is not None
        return state.cursor.seq

    return call_store(url, look)


def rows_of(numbers: range, value: int = 0) -> list[Row]:
    return [{"id": f"item {number}", "item": f'{{"value":{value}}}'} for number in numbers]


def test_items_are_published_once_edited_where_they_differ_and_left_alone_otherwise(url: str) -> None:
    create(url)
    options = {"url": url, "what": "feed", "feed": "stats"}

    first = write(COLUMNS, rows_of(range(3)), [*rows_of(range(3, 5)), *rows_of(range(1))], **options)
    before = changes(url)
    again = write(COLUMNS, rows_of(range(4, -1, -1)), run="again", **options)
    unmoved = changes(url)
    edited = write(COLUMNS, [*rows_of(range(2), 7), *rows_of(range(2, 4))], run="edited", **options)

    assert [counts_of(each) for each in (first, again)] == [{"written": 5, "folded": 1}, {"unchanged": 5}]
    assert unmoved == before
    assert counts_of(edited) == {"written": 2, "unchanged": 2}
    assert dict(items(url)) == {f"item {number}": b'{"value":%d}' % (7 if number < 2 else 0) for number in range(5)}


def test_a_task_that_runs_again_counts_what_it_published_before_it_failed(url: str) -> None:
    create(url)
    batch = Batch(COLUMNS, url=url, what="feed", feed="stats")
    batch.failed_task(rows_of(range(4)), part=2)
    before = changes(url)

    batch.task(rows_of(range(6)))
    written = batch.commit()

    assert counts_of(written) == {"written": 6}
    assert changes(url) == before + 2


def test_an_item_without_an_id_is_known_by_what_it_says(url: str) -> None:
    create(url)
    options = {"url": url, "what": "feed", "feed": "stats"}

    first = write("item array<int>", [{"item": [1]}, {"item": [2]}, {"item": [1]}], **options)
    again = write(COLUMNS, [{"id": None, "item": "[2]"}, {"id": None, "item": "[3]"}], run="again", **options)

    assert counts_of(first) == {"written": 2, "folded": 1}
    assert counts_of(again) == {"written": 1, "unchanged": 1}
    assert [item for _, item in items(url)] == [b"[1]", b"[2]", b"[3]"]


def test_an_item_of_a_sorted_feed_keeps_its_place_when_it_is_edited(url: str) -> None:
    create(url, "sorted", items_max=3)
    options = {"url": url, "what": "feed", "feed": "stats"}
    write(COLUMNS, rows_of(range(3)), **options)

    written = write(COLUMNS, rows_of(range(3, -1, -1), 7), run="edited", refusals="count", **options)

    assert counts_of(written) == {"written": 3, "refused": {"full": 1}}
    assert items(url) == [(f"item {number}", b'{"value":7}') for number in range(3)]


def test_rows_that_are_no_items_are_refused_and_all_others_published(url: str) -> None:
    create(url)
    good = {"id": "a", "item": "1", "feed": "stats"}
    bad = [good | {"item": "text"}, good | {"id": "x" * 257}, good | {"feed": "gone"}, good | {"feed": "no name"}]
    batch = Batch(f"{COLUMNS}, feed string", url=url, what="feed")
    batch.task([*bad, good, good | {"id": "b", "feed": None}])

    with pytest.raises(Refused, match=r"rows were refused, all others are written: of 6 rows 1 written, 5 refused \("):
        batch.commit()

    written = batch.report()
    assert written.refused == {"bad_item": 1, "bad_id": 1, "unknown_feed": 1, "bad_feed": 2}
    assert items(url) == [("a", b"1")]


@pytest.mark.parametrize(
    ("columns", "feed", "sentence"),
    [
        (
            COLUMNS,
            "gone",
            r"there is no feed 'gone' of tenant 'default'; create it first, .*: headrace feeds create gone",
        ),
        (COLUMNS, None, r"items need a feed; give a column 'feed' or option feed"),
        ("id string", "stats", r"a feed needs items; give a column 'item'"),
        (
            f"{COLUMNS}, happened_at timestamp",
            "stats",
            r"a write with what=feed has no column 'happened_at'; put it into the item",
        ),
    ],
)
def test_a_frame_without_items_or_feed_is_refused_with_a_sentence(
    tmp_path: Path, columns: str, feed: str | None, sentence: str
) -> None:
    url = fresh_url("sqlite", tmp_path)

    with pytest.raises(BadConfig, match=sentence):
        Batch(columns, url=url, what="feed", **({"feed": feed} if feed else {}))


def test_spark_publishes_a_frame(spark: SparkSession, url: str) -> None:
    create(url)
    frame = spark.range(0, 50, 1, 2).selectExpr("concat('item ', id) as id", "struct(id as value) as item")

    written = publish(frame, url, feed="stats")

    assert counts_of(written) == {"written": 50}
    assert dict(items(url)) == {f"item {number}": b'{"value":%d}' % number for number in range(50)}
