"""The log of a feed: every change under a number, for as long as is configured, and read from any cursor."""

import asyncio

import pytest
from msgspec.structs import replace

from headrace.model.feed import FIRST, LAST, Changed, FeedCursor, FeedType, ItemPosition, Publication
from headrace.model.results import Changes
from tests.support.feed_play import FeedPlay

MIB = 1024 * 1024
DAY_MS = 24 * 3_600_000


def folded(changes: list[Changed]) -> dict[str, bytes]:
    """The items of a feed in order of publication, folded from its log."""
    items: dict[str, bytes] = {}
    for change in changes:
        items.pop(change.id, None)
        if change.event in ("published", "edited"):
            items[change.id] = change.item
    return items


# Order.


async def test_changes_are_numbered_without_a_hole_in_the_order_in_which_they_happened(feed: FeedPlay) -> None:
    """K30, KB9: one name per event, whatever was changed; a refusal leaves no number unused."""
    await feed.create("sorted", items_max=3)
    await feed.put("a", "b")
    await feed.move("a", LAST)
    await feed.publish("a", position=ItemPosition("before", "nobody"))
    await feed.edit("b")
    await feed.configure(items_max=2)
    await feed.retract("a", "nobody", "b")
    await feed.move("a", FIRST)
    await feed.publish("c", position=FIRST)

    changes = await feed.changes()

    assert [(each.seq, each.event, each.id) for each in changes] == [
        (1, "created", ""),
        (2, "published", "a"),
        (3, "published", "b"),
        (4, "moved", "a"),
        (5, "edited", "b"),
        (6, "configured", ""),
        (7, "retracted", "a"),
        (8, "retracted", "b"),
        (9, "published", "c"),
    ]
    state = await feed.state()
    assert (state.cursor.seq, state.first_seq) == (9, 1)
    assert state.changes_bytes == sum(each.size for each in changes)


async def test_log_and_items_agree_while_many_publish_at_once(feed: FeedPlay) -> None:
    """KB9: a change is written in the same step as the item, so neither comes alone or in another order."""
    await feed.create(items_max=7)

    async def publish(worker: int) -> None:
        for number in range(10):
            await feed.publish_all(
                Publication(b"%d.%d" % (worker, number), str((worker + number) % 12)),
                Publication(b"%d" % number, f"{worker}.{number}"),
            )
            await feed.retract(str(number))

    await asyncio.gather(*[publish(worker) for worker in range(5)])

    changes = await feed.changes()
    assert [each.seq for each in changes] == list(range(1, len(changes) + 1))
    assert list(folded(changes).items()) == list((await feed.items()).items())


async def test_instants_never_decrease_even_when_the_clock_goes_back(feed: FeedPlay) -> None:
    """KB13: neither in the log, nor in the items, nor across feed and directory."""
    await feed.create()
    start_ms = feed.now_ms

    for ms in (10, -500, 495, -3_600_000):
        feed.advance(ms)
        await feed.publish("a")
    await feed.configure(items_max=5)
    await feed.retract("a")
    await FeedPlay(feed.store, name="other").create()

    times_ms = [each.at_ms - start_ms for each in await feed.changes()]
    assert times_ms == [0, 10, 10, 10, 10, 10, 10]
    state = await feed.state()
    assert (state.created_at_ms, state.changed_at_ms) == (start_ms, start_ms + 10)
    listed = [each.at_ms for each in await feed.directory.changes()]
    assert listed == sorted(listed)


async def test_every_change_names_the_instance_that_made_it(feed: FeedPlay) -> None:
    """K30, KB9: also when several change the same feed."""
    await feed.create("sorted")
    for instance, act in (
        ("b", feed.put("x")),
        ("a c", feed.edit("x")),
        ("ü:{}*/", feed.put("y", position=FIRST)),
        ("d", feed.move("x", FIRST)),
        ("e", feed.retract("x")),
        ("f", feed.configure(items_max=3)),
    ):
        feed.instance = instance
        await act

    assert [each.instance for each in await feed.changes()] == ["me", "b", "a c", "ü:{}*/", "d", "e", "f"]


# Cursors.


async def test_a_cursor_returns_the_changes_after_it_repeatedly(feed: FeedPlay) -> None:
    """KB9: a reader that was away goes on where it was."""
    await feed.create()
    await feed.put("a", "b", "c")

    first = await feed.page(limit=2)
    second = await feed.page(first.cursor, limit=1)
    rest = await feed.page(second.cursor)
    nothing = await feed.page(rest.cursor)
    await feed.publish("d")
    new = await feed.page(rest.cursor)

    assert [each.seq for page in (first, second, rest, new) for each in page.rows] == [1, 2, 3, 4, 5]
    assert [page.more for page in (first, second, rest, new)] == [True, True, False, False]
    assert nothing == Changes("kept", [], rest.cursor, False)
    assert (await feed.page(first.cursor, limit=1)) == second
    assert new.cursor == await feed.end()
    assert [page.cursor and page.cursor.seq for page in (first, second, rest)] == [2, 3, 4]


async def test_the_end_of_the_log_and_the_items_belong_together(feed: FeedPlay) -> None:
    """KB9: the items as of a cursor and the changes after it are complete."""
    await feed.create()
    await feed.put("a", "b")

    page = await feed.store.items.list(feed.name, now_ms=feed.now_ms)
    whole = await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)
    await feed.put("c")

    assert page.as_of == whole.as_of
    assert await feed.events(page.as_of) == ["published c"]


async def test_a_page_of_changes_ends_once_it_holds_four_mebibytes(feed: FeedPlay) -> None:
    """The change that goes beyond is the last one of its page, so no page is empty while there is more."""
    await feed.create()
    for number in range(17):
        await feed.publish(str(number), bytes(256 * 1024))
    start = replace(await feed.end(), seq=1)

    first = await feed.page(start)
    second = await feed.page(first.cursor)

    assert [(len(page.rows), page.more) for page in (first, second)] == [(16, True), (1, False)]


async def test_thousands_of_changes_are_read_page_by_page(feed: FeedPlay) -> None:
    await feed.create()
    for start in range(0, 3_000, 1_000):
        await feed.put(*[str(number) for number in range(start, start + 1_000)])

    page = await feed.page()
    changes = await feed.changes(limit=700)

    assert (len(page.rows), page.more) == (1_000, True)
    assert [each.seq for each in changes] == list(range(1, 3_002))
    assert [each.id for each in changes[1:]] == [str(number) for number in range(3_000)]


async def test_a_cursor_that_this_log_has_not_reached_is_a_gap(feed: FeedPlay) -> None:
    """The store has lost what the reader has seen; the answer has the present end of the log."""
    await feed.create()
    await feed.publish("a")
    end = await feed.end()

    beyond = await feed.page(replace(end, seq=end.seq + 1))
    other_epoch = [await feed.page(replace(end, epoch=end.epoch + by, seq=seq)) for by in (-1, 1) for seq in (1, 2)]

    assert [beyond, *other_epoch] == [Changes("gap", [], end, False)] * 5


async def test_a_cursor_before_the_first_change_has_everything_before_it(feed: FeedPlay) -> None:
    """Nothing was written before, so nothing can have been lost."""
    await feed.create()
    await feed.publish("a")
    birth = (await feed.end()).birth

    page = await feed.page(FeedCursor(birth, 99, 0))

    assert [each.seq for each in page.rows] == [1, 2]


# Feeds that come and go.


async def test_a_cursor_of_a_deleted_feed_is_gone_even_if_the_name_is_used_again(
    feed: FeedPlay,
) -> None:
    """K2: within the same millisecond, too; the answer has the end of the new log."""
    await feed.create()
    await feed.put("a", "b")
    cursor = await feed.end()

    await feed.delete()
    deleted = await feed.page(cursor)
    await feed.create()
    await feed.put("c", "d", "e")
    created = await feed.page(cursor)

    assert deleted == Changes("gone", [], None, False)
    assert created == Changes("gone", [], await feed.end(), False)
    assert await feed.events() == ["created", "published c", "published d", "published e"]


async def test_a_directory_that_was_forgotten_is_another_one_when_it_comes_back(feed: FeedPlay) -> None:
    """Its numbers start again, so a cursor of the old one, or of a feed in it, must not be taken for one of the new."""
    await feed.create()
    cursor, feed_cursor = await feed.directory.end(), await feed.end()
    await feed.delete()
    feed.advance(2 * DAY_MS)
    await feed.directory.sweep()

    gone = await feed.directory.page(cursor)
    await feed.create()
    again, feed_again = await feed.directory.page(cursor), await feed.page(feed_cursor)

    assert (gone.status, again.status, feed_again.status) == ("gone", "gone", "gone")
    assert await feed.directory.events() == ["created news"]


# Retention.


async def test_changes_are_kept_by_count(feed: FeedPlay) -> None:
    """The oldest go; a reader that has read them continues, another one gets a gap, and never a silent loss."""
    await feed.create(changes_keep_max=3)
    first = await feed.end()
    await feed.put("a", "b", "c")
    at_edge = replace(first, seq=1)
    kept_at_edge = await feed.page(at_edge)

    await feed.put("d")

    state = await feed.state()
    assert (state.first_seq, state.cursor.seq) == (3, 5)
    assert await feed.events() == ["published b", "published c", "published d"]
    assert [each.seq for each in kept_at_edge.rows] == [2, 3, 4]
    assert await feed.page(at_edge) == Changes("gap", [], state.cursor, False)
    assert [each.seq for each in await feed.changes(replace(first, seq=2))] == [3, 4, 5]
    assert state.changes_bytes == 6


async def test_one_call_may_write_more_than_is_kept(feed: FeedPlay) -> None:
    """Its own first changes are dropped with it."""
    await feed.create(changes_keep_max=2, items_max=1)

    await feed.put("a", "b", "c")

    state = await feed.state()
    assert await feed.events() == ["retracted a", "retracted b"]
    assert (state.first_seq, state.cursor.seq, state.changes_bytes) == (5, 6, 2)


async def test_changes_are_kept_by_age(feed: FeedPlay) -> None:
    """Dropped by the next write."""
    await feed.create(changes_keep_ms=1_000)
    await feed.put("a")
    feed.advance(999)
    await feed.put("b")
    young = await feed.events()

    feed.advance(1)
    kept_until_the_next_write = await feed.events()
    await feed.put("c")

    assert young == kept_until_the_next_write == ["created", "published a", "published b"]
    assert await feed.events() == ["published b", "published c"]
    assert (await feed.state()).first_seq == 3


@pytest.mark.parametrize("type", ["feed", "sorted", "queue"])
async def test_a_sweep_drops_changes_over_their_age_down_to_none(feed: FeedPlay, type: FeedType) -> None:
    """The numbers continue; a reader that had read everything has missed nothing."""
    await feed.create(type, changes_keep_ms=1_000)
    await feed.put("a")
    end = await feed.end()

    feed.advance(1_000)
    swept = [await feed.sweep(), await feed.sweep()]
    empty, state = await feed.page(), await feed.state()
    await feed.configure(items_max=9)

    assert swept == [end.seq, 0]
    assert empty == Changes("kept", [], end, False)
    assert (state.first_seq, state.cursor, state.changes_bytes) == (end.seq + 1, end, 0)
    assert await feed.events(end) == await feed.events() == ["configured"]
    assert (await feed.page(replace(end, seq=end.seq - 1))).status == "gap"
    assert await feed.ids() == ["a"]


async def test_changes_are_kept_by_bytes_of_ids_and_items(feed: FeedPlay) -> None:
    await feed.create("sorted", changes_bytes_max=MIB)
    start = await feed.state()
    item = bytes(MIB // 4 - 1)

    for id in "abcd":
        await feed.publish(id, item)
    full = await feed.state()
    await feed.publish("e", b"")
    over = await feed.state()

    assert start.changes_bytes > 0
    assert (full.first_seq, full.changes_bytes) == (2, MIB)
    assert (over.first_seq, over.changes_bytes) == (3, 3 * MIB // 4 + 1)
    assert await feed.events() == ["published b", "published c", "published d", "published e"]


async def test_a_smaller_retention_holds_with_the_next_write(feed: FeedPlay) -> None:
    """The change of the configuration is itself one."""
    await feed.create()
    await feed.put("a", "b", "c")

    await feed.configure(changes_keep_max=2)

    assert await feed.events() == ["published c", "configured"]


async def test_a_log_far_beyond_its_retention_is_dropped_in_bounded_steps(feed: FeedPlay) -> None:
    """Four thousand changes at once at most, and the edge is right after each step."""
    await feed.create()
    for start in range(0, 6_000, 1_000):
        await feed.put(*[str(number) for number in range(start, start + 1_000)])

    await feed.configure(changes_keep_max=1)
    first = (await feed.state()).first_seq, (await feed.page(limit=1)).rows[0].seq
    swept = [await feed.sweep() for _ in range(2)]

    assert first == (4_001, 4_001)
    assert swept == [2_001, 0]
    state = await feed.state()
    assert (state.first_seq, state.cursor.seq) == (6_002, 6_002)
    assert await feed.events() == ["configured"]


async def test_a_cursor_that_was_dropped_is_compared_with_the_epoch_of_the_log(feed: FeedPlay) -> None:
    """What it has seen last is gone, so only a reader of this epoch can have missed nothing."""
    await feed.create(changes_keep_max=1)
    await feed.publish("a")
    dropped = replace(await feed.end(), seq=1)

    mine, other = await feed.page(dropped), await feed.page(replace(dropped, epoch=dropped.epoch + 1))

    assert ([each.seq for each in mine.rows], mine.status) == ([2], "kept")
    assert other.status == "gap"
