"""Promises of statistics in feeds: an edit for what differs, and nothing for what is equal or was evicted."""

import json
from pathlib import Path

import pytest
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName, Publication
from headrace.pipeline.stats.publish import Publisher, publication
from headrace.pipeline.tables.layouts import WINDOW_ROW, Row
from headrace.stores.contract.store import Store
from tests.support.stores import STORES

FEED = FeedName("stats", "acme")
MINUTE = 60_000
DAY = 1_440 * MINUTE
NOON = 19_700 * DAY + DAY // 2


class Rows(Struct):
    """The rows of a window, and which of them the table did not have before."""

    start_ms: int
    rows: list[Row]
    added: bool = False


def row(opened: int, closed: int = 0, *, kind: str | None = "k", queue: str = "mail") -> Row:
    blank: Row = dict.fromkeys(WINDOW_ROW.names, 0)
    return blank | {"tenant": "acme", "queue": queue, "kind": kind, "opened": opened, "closed": closed, "events": 1}


def window(number: int, *rows: Row) -> Rows:
    """A window whose rows the table had before."""
    return Rows(NOON + number * MINUTE, list(rows))


def new(number: int, *rows: Row) -> Rows:
    """A window that the table did not have."""
    return Rows(NOON + number * MINUTE, list(rows), added=True)


async def publish(
    store: Store,
    windows: list[Rows],
    *,
    feed: str = "stats",
    since_ms: int | None = None,
    floors: dict[str, int] | None = None,
) -> int:
    """As a table that has published before, unless it is told otherwise."""
    known = {str(FEED): -1} if floors is None else floors
    publisher = Publisher(store, feed, MINUTE, since_ms, known)
    for each in windows:
        for one in each.rows:
            await publisher.add(each.start_ms, one, is_added=each.added)
    return await publisher.flush()


async def ids(store: Store) -> list[str]:
    return [item.id for item in (await store.items.snapshot(FEED)).rows]


async def minutes(store: Store) -> list[int]:
    """The windows of the items, in the feed's order."""
    return [int(id[14:16]) for id in await ids(store)]


async def test_what_differs_is_edited_and_what_is_equal_is_left_alone(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        windows = [window(n, row(n, kind="a"), row(0, 1, kind=None)) for n in range(3)]
        first = await publish(store, windows)
        before = await store.feeds.describe(FEED)
        again = await publish(store, windows)
        after = await store.feeds.describe(FEED)
        changed = await publish(store, [window(1, row(7, kind="a"), row(0, 1, kind=None))])

        assert (first, again, changed) == (6, 0, 1)
        assert before == after
        assert await ids(store) == [
            *("2023-12-09T12:00:00Z/mail/a", "2023-12-09T12:00:00Z/mail/"),
            *("2023-12-09T12:01:00Z/mail/", "2023-12-09T12:02:00Z/mail/a", "2023-12-09T12:02:00Z/mail/"),
            "2023-12-09T12:01:00Z/mail/a",
        ]
        [item] = await store.items.find(FEED, ["2023-12-09T12:01:00Z/mail/a"])
        assert item is not None
        fields = json.loads(item.item)
        assert list(fields)[:5] == ["window_start", "window_end", "tenant", "queue", "kind"]
        assert (fields["window_end"], fields["opened"], fields["backlog"]) == ("2023-12-09T12:02:00Z", 7, 0)


async def test_a_feed_that_is_full_does_not_get_back_what_it_has_evicted(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FEED, changes={"items_max": 4}, instance="test")
        windows = [new(n, row(n, kind="a"), row(n, kind="b")) for n in range(5)]
        for each in windows:
            await publish(store, [each])
        before = await ids(store)

        again = await publish(store, [window(n, row(n, kind="a"), row(n, kind="b")) for n in range(5)])
        late = await publish(store, [window(0, row(9, kind="a"))])

        assert (again, late) == (0, 0)
        assert await ids(store) == before
        assert [id[14:] for id in before] == ["03:00Z/mail/a", "03:00Z/mail/b", "04:00Z/mail/a", "04:00Z/mail/b"]


async def test_a_rerun_leaves_a_full_feed_alone_in_which_an_old_item_was_edited_late(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FEED, changes={"items_max": 4}, instance="test")
        await publish(store, [new(n, row(n)) for n in range(4)])
        await publish(store, [window(0, row(7))])
        await publish(store, [new(n, row(n)) for n in (4, 5, 6)])

        again = await publish(store, [window(0, row(7)), *(window(n, row(n)) for n in range(1, 7))])

        assert (again, await minutes(store)) == (0, [0, 4, 5, 6])


async def test_what_was_never_published_comes_late_and_after_a_fall(tmp_path: Path) -> None:
    """A queue that catches up adds rows to old windows; a run that was killed has left rows that nobody published."""
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FEED, changes={"items_max": 4}, instance="test")
        await publish(store, [new(n, row(n)) for n in range(4, 10)])

        late = await publish(store, [new(0, row(0))])
        killed = await publish(store, [window(n, row(n)) for n in range(4, 12)], since_ms=NOON + 10 * MINUTE)

        assert (late, killed) == (1, 2)
        assert await minutes(store) == [9, 0, 10, 11]


async def test_a_folder_that_is_new_brings_a_full_feed_only_what_is_newer_than_all_in_it(tmp_path: Path) -> None:
    floors: dict[str, int] = {}
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FEED, changes={"items_max": 4}, instance="test")
        await publish(store, [new(n, row(n)) for n in range(7)])
        await publish(store, [window(3, row(9))])

        first = await publish(store, [new(n, row(n)) for n in range(3)], since_ms=0, floors=floors)
        then = await publish(store, [new(3, row(9)), *(new(n, row(n)) for n in (4, 5, 6, 7))], floors=floors)

        assert (first, then) == (0, 1)
        assert await minutes(store) == [5, 6, 3, 7]
        assert floors == {str(FEED): NOON + 6 * MINUTE}


async def test_what_a_feed_has_dropped_by_age_does_not_come_back(tmp_path: Path) -> None:
    floors: dict[str, int] = {}
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FEED, changes={"items_keep_ms": 1_000}, instance="test", now_ms=1)
        await store.items.publish(FEED, [Publication(b"1", "2023-12-09T12:00:00Z/mail/k")], instance="test", now_ms=1)
        await store.items.publish(FEED, [Publication(b"2", "99")], instance="test")

        known = await publish(store, [window(n, row(n)) for n in range(3)])
        unknown = await publish(store, [new(n, row(n)) for n in range(3)], since_ms=0, floors=floors)

        assert (known, unknown, await ids(store)) == (0, 0, ["99"])
        assert floors[str(FEED)] > NOON + 3 * MINUTE


async def test_an_item_queue_takes_no_statistics_and_a_sorted_feed_keeps_its_order(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        await store.feeds.create(FeedName("queue", "acme"), "queue", instance="test")
        await store.feeds.create(FEED, "sorted", instance="test")
        await publish(store, [window(0, row(1)), window(1, row(1))])
        before = await ids(store)

        changed = await publish(store, [window(0, row(2))])

        assert (changed, await ids(store)) == (1, before)
        with pytest.raises(
            BadConfig, match="'acme/queue' is an item queue, whose items cannot be edited; name another"
        ):
            await publish(store, [window(0, row(1))], feed="queue", floors={})


def test_the_longest_names_still_make_an_id_of_their_own() -> None:
    long = [row(1, queue="q" * 120 + ".fail", kind="k" * 127 + end) for end in "ab"]

    ids = [publication(NOON, MINUTE, each).id or "" for each in long]

    assert all(len(id) == 256 and id.startswith("2023-12-09T12:00:00Z/qqq") for id in ids)
    assert ids[0] != ids[1]
