"""What only the SQLite store promises of feeds: plans, one watch for all followers, epochs, leftovers."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.feed import FeedCursor, FeedName, FeedType, ItemPosition, Publication
from headrace.model.job import new_job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.engine import feeds
from headrace.stores.engine.row_codec import PIECE_BYTES, PIECE_MAX
from headrace.stores.sqlite.connection import connect, migrate
from headrace.stores.sqlite.sql import sql
from headrace.stores.sqlite.store import SqliteStore

NEWS = FeedName("news", "acme")
ME = "host:1:abcdef"
LONG_MS = 60_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return str(tmp_path / "headrace.db")


@pytest.fixture
def store(path: str, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    """A store on a new file."""
    store = runner.run(SqliteStore.open(path, profile="fast"))
    yield store
    runner.run(store.close())


@pytest.fixture
def raw(path: str) -> Iterator[sqlite3.Connection]:
    """A connection of our own to a file with the schema."""
    with closing(connect(path, "fast")) as connection:
        migrate(connection, path)
        yield connection


async def publish(store: SqliteStore, *ids: str, item: bytes = b"1") -> None:
    """Publish an item under each of the ids, in one call."""
    answers = await store.items.publish(NEWS, [Publication(item, id) for id in ids], instance=ME)
    assert all(answer.ok for answer in answers)


async def end_of(store: SqliteStore, feed: FeedName = NEWS) -> FeedCursor:
    """Where the log of a feed ends."""
    state = await store.feeds.describe(feed)
    assert state is not None
    return state.cursor


def rows_in(path: str) -> dict[str, int]:
    """How many rows of feeds are in a file, by table."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ("feed", "feed_item", "feed_change", "feed_gone")
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}  # noqa: S608 - our own names


# Query plans.


ITEMS, CHANGES = "sqlite_autoindex_feed_item_1", "sqlite_autoindex_feed_change_1"
PLANS = {
    "feed_item_first": "feed_item USING INDEX feed_item_rank (feed_id=? AND rank>?)",
    "feed_item_last": "feed_item USING INDEX feed_item_rank (feed_id=? AND rank<?)",
    "feed_item_find": f"feed_item USING INDEX {ITEMS} (feed_id=? AND id=?)",
    "feed_item_drop": f"feed_item USING INDEX {ITEMS} (feed_id=? AND id=?)",
    "feed_change_read": f"feed_change USING INDEX {CHANGES} (feed_id=? AND seq>?)",
    "feed_change_drop": f"feed_change USING INDEX {CHANGES} (feed_id=? AND seq<?)",
}


@pytest.mark.parametrize("analyzed", [False, True], ids=["empty", "analyzed"])
def test_places_items_and_changes_are_found_without_a_scan_or_a_sort(raw: sqlite3.Connection, analyzed: bool) -> None:
    """To insert, to move and to take cost the same however many items there are."""
    if analyzed:
        items = [(number % 2, b"%d" % number, f"{number:08}") for number in range(2_000)]
        raw.executemany("INSERT INTO feed_item (feed_id, id, rank, at_ms, item) VALUES (?, ?, ?, 1, x'00')", items)
        raw.execute("ANALYZE")

    found = {}
    for name in PLANS:
        text = sql(name)
        found[name] = [step for _, _, _, step in raw.execute(f"EXPLAIN QUERY PLAN {text}", [1] * text.count("?"))]

    assert found == {name: [f"SEARCH {index}"] for name, index in PLANS.items()}


# Waiting for changes.


async def test_hundreds_of_followers_of_a_feed_share_their_polls_and_are_woken_by_another_connection(
    store: SqliteStore, path: str
) -> None:
    other = await SqliteStore.open(path, profile="fast")
    await store.feeds.create(NEWS, instance=ME)
    end = await end_of(store)
    statements: list[str] = []
    await store.signals.reader.run(lambda connection: connection.set_trace_callback(statements.append))
    waiters = [asyncio.create_task(store.signals.changed(NEWS, end, LONG_MS)) for _ in range(300)]
    while len(store.signals._watch) < len(waiters):
        await store.items.find(FeedName("nobody"), ["a"])
    await store.items.find(FeedName("nobody"), ["a"])  # returns after the checks of the new waiters

    await publish(other, "a")
    woken = await asyncio.wait_for(asyncio.gather(*waiters), LONG_MS / 2_000)

    assert all(woken)
    assert 2 <= len([each for each in statements if "FROM feed WHERE" in each and "'acme'" in each]) < 10
    assert (len(store.signals._watch), store.signals._watch._poll) == (0, None)
    await other.close()


async def test_a_follower_sleeps_while_other_connections_write_something_else(store: SqliteStore, path: str) -> None:
    other = await SqliteStore.open(path, profile="fast")
    await store.feeds.create(NEWS, instance=ME)
    waiter = asyncio.create_task(store.signals.changed(NEWS, await end_of(store), LONG_MS))

    for number in range(20):
        await other.jobs.enqueue([new_job(Queue("mail"), "send", fresh_id=f"job-{number}")])
        await store.feeds.describe(NEWS)
    slept_on = not waiter.done()
    await publish(other, "a")

    assert slept_on
    assert await asyncio.wait_for(waiter, LONG_MS / 2_000)
    await other.close()


# Epochs.


def copy(source: str, target: str) -> None:
    """Copy a file as it is now, with what was not yet folded into it."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.mark.parametrize("profile", ["fast", "durable"])
async def test_a_reader_of_a_lost_tail_gets_a_gap_and_other_readers_continue(tmp_path: Path, profile: str) -> None:
    """KB9: the machine stopped, and the last changes never reached the disk."""
    before, after = str(tmp_path / "before.db"), str(tmp_path / "after.db")
    store = await SqliteStore.open(before, profile="fast", boot_id="boot-1")
    await store.feeds.create(NEWS, instance=ME)
    await publish(store, "a", "b")
    kept = await end_of(store)
    copy(before, after)
    await publish(store, "lost-1", "lost-2")
    seen = await end_of(store)
    await store.close()

    store = await SqliteStore.open(after, profile=profile, boot_id="boot-2")
    at_once = [await store.feeds.changes(NEWS, cursor) for cursor in (seen, kept)]
    await publish(store, "c", "d")
    later = [await store.feeds.changes(NEWS, cursor) for cursor in (seen, kept)]
    health = await store.health()
    await store.close()

    assert [page.status for page in at_once] == ["gap", "kept"]
    assert [page.status for page in later] == ["gap", "kept"]
    assert [(row.seq, row.epoch, row.id) for row in later[1].rows] == [(4, health.epoch, "c"), (5, health.epoch, "d")]
    assert health.epoch > kept.epoch


@pytest.mark.parametrize(("profile", "boot_id"), [("fast", "boot-1"), ("durable", "boot-2")])
async def test_a_feed_keeps_its_epoch_when_nothing_can_be_lost(path: str, profile: str, boot_id: str) -> None:
    store = await SqliteStore.open(path, profile=profile, boot_id="boot-1")
    await store.feeds.create(NEWS, instance=ME)
    end = await end_of(store)
    await store.close()

    store = await SqliteStore.open(path, profile=profile, boot_id=boot_id)
    await publish(store, "a")
    page = await store.feeds.changes(NEWS, end)
    await store.close()

    assert [(row.epoch, row.id) for row in page.rows] == [(1, "a")]


# Leftovers.


async def test_a_delete_that_was_broken_off_is_finished_by_the_next_sweep(store: SqliteStore, path: str) -> None:
    """KB10: it is nowhere to be found at once, and nothing of it stays."""
    await store.feeds.create(NEWS, "sorted", instance=ME)
    for start in (0, 1_000):
        await publish(store, *map(str, range(start, start + 1_000)))
    await store.signals.write(lambda tx: feeds.delete(tx, NEWS, ME, tx.now_ms()))
    broken_off = rows_in(path)

    await store.feeds.create(NEWS, instance=ME)
    await publish(store, "new")
    swept = [await store.feeds.sweep(NEWS) for _ in range(4)]
    found = await store.items.snapshot(NEWS)

    assert (broken_off["feed"], broken_off["feed_item"], broken_off["feed_gone"]) == (1, 2_000, 1)
    assert swept[:2] == [BATCH_MAX, BATCH_MAX]
    assert (0 < swept[2] < BATCH_MAX, swept[3]) == (True, 0)
    assert [row.id for row in found.rows] == ["new"]
    assert (rows_in(path)["feed_item"], rows_in(path)["feed_gone"]) == (2, 0), "the item, and the feed in its directory"


@pytest.mark.parametrize("type", ["feed", "sorted"])
async def test_a_number_of_which_rows_are_left_is_not_given_to_another_feed(
    store: SqliteStore, path: str, type: FeedType
) -> None:
    await store.feeds.create(NEWS, type, instance=ME)
    await publish(store, "old")
    await store.signals.write(lambda tx: feeds.delete(tx, NEWS, ME, tx.now_ms()))

    await store.feeds.create(NEWS, type, instance=ME)
    empty, log = await store.items.snapshot(NEWS), await store.feeds.changes(NEWS)

    assert rows_in(path)["feed_gone"] == 1
    assert (empty.rows, [row.event for row in log.rows]) == ([], ["created"])


# The log.


async def test_a_log_is_read_from_every_number_and_trimmed_at_any_wherever_its_pieces_end(store: SqliteStore) -> None:
    await store.feeds.create(NEWS, instance=ME)
    many, large = 2 * PIECE_MAX + 50, b"x" * (PIECE_BYTES // 2)
    await publish(store, *map(str, range(many)))
    await publish(store, "large-1", "large-2", "large-3", item=large)
    end = await end_of(store)

    for keep_max in (many, PIECE_MAX + 30, 3, 1):
        await store.feeds.configure(NEWS, {"changes_keep_max": keep_max}, instance=ME)
        end = await end_of(store)
        pages = {
            seq: await store.feeds.changes(NEWS, FeedCursor(end.birth, 1, seq))
            for seq in range(end.seq - keep_max - 1, end.seq + 1)
        }

        numbers = {seq: [row.seq for row in page.rows] for seq, page in pages.items() if page.status == "kept"}
        assert numbers == {seq: list(range(seq + 1, end.seq + 1)) for seq in range(end.seq - keep_max, end.seq + 1)}
        assert pages[end.seq - keep_max - 1].status == "gap"


async def test_the_changes_of_a_batch_take_few_rows(store: SqliteStore, path: str) -> None:
    await store.feeds.create(NEWS, "sorted", instance=ME)
    before = rows_in(path)["feed_change"]

    await publish(store, *map(str, range(5 * PIECE_MAX)))

    assert rows_in(path)["feed_change"] - before == 5


async def test_a_batch_sees_what_it_has_done_so_far(store: SqliteStore) -> None:
    """Items are read in order of rank only where they must be, and after all earlier writes."""
    await store.feeds.create(NEWS, "sorted", instance=ME)
    places = [
        ("a", ItemPosition("last")),
        ("b", ItemPosition("first")),
        ("c", ItemPosition("after", "b")),
        ("d", ItemPosition("last")),
        ("b", ItemPosition("last")),
        ("e", ItemPosition("first")),
        ("f", ItemPosition("before", "b")),
        ("a", ItemPosition("first")),
        ("g", ItemPosition("first")),
    ]

    await store.items.publish(NEWS, [Publication(b"1", id, place) for id, place in places], instance=ME)
    found = await store.items.snapshot(NEWS)

    assert [row.id for row in found.rows] == ["g", "a", "e", "c", "d", "f", "b"]
