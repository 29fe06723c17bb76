"""Leftovers of feeds: what is over goes, until nothing is left."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headrace.model.feed import FIRST, FeedName, FeedType, ItemPosition, Publication
from tests.support.feed_play import FeedPlay
from tests.support.stores import LEFTOVERS

DAY_MS = 24 * 3_600_000


@pytest.fixture
def leftovers(feed: FeedPlay, store_name: str, tmp_path: Path) -> Callable[[], Awaitable[dict[str, int]]]:
    """What the store holds."""
    return lambda: LEFTOVERS[store_name](feed.store, tmp_path)


async def live(feed: FeedPlay) -> list[FeedPlay]:
    """One of each kind of record, so that every structure of a store is used."""
    types: tuple[FeedType, ...] = ("feed", "sorted", "queue")
    feeds = [FeedPlay(feed.store, name=f"a-{type}") for type in types]
    for each, type in zip(feeds, types, strict=True):
        await each.create(type, **({"items_keep_ms": 1_000, "items_max": 20} if type == "feed" else {}))
        await each.put(*[f"{number}" for number in range(30)])
        await each.retract("7", "25")
        await each.configure(changes_keep_max=20)
        await each.store.signals.changed(each.name, None, 0)
        await each.store.signals.changed(each.name, await each.end(), 1)
    await feeds[0].publish("26")
    await feeds[1].publish_all(*[Publication(b"", position=ItemPosition("before", "5")) for _ in range(20)])
    await feeds[1].move("5", FIRST)
    await feeds[2].put("x", position=FIRST)
    await feeds[2].take(10)
    await feed.store.signals.changed(feed.name, None, 1)
    await feed.store.signals.changed(feed.name.directory, None, 1)
    return feeds


async def sweep(feed: FeedPlay, name: FeedName) -> None:
    """Sweep a feed until nothing more is over."""
    for _ in range(20):
        if not await feed.store.feeds.sweep(name, now_ms=feed.now_ms):
            return
    raise AssertionError("sweeping does not end")


async def test_nothing_stays_of_deleted_feeds_once_their_directory_has_forgotten_them(
    feed: FeedPlay, leftovers: Callable[[], Awaitable[dict[str, int]]]
) -> None:
    """K2, KB10: neither items nor ranks, counters, logs, settings, names or subscriptions."""
    feeds = await live(feed)
    before = await leftovers()

    for each in feeds:
        await each.delete()
    feed.advance(DAY_MS)
    await sweep(feed, feed.name.directory)

    assert before
    assert await leftovers() == {}


async def test_nothing_stays_of_a_feed_that_had_thousands_of_rows(
    feed: FeedPlay, leftovers: Callable[[], Awaitable[dict[str, int]]]
) -> None:
    """KB10: however many rows there are; a delete erases all of them."""
    for tenant in ("acme", "other"):
        each = FeedPlay(feed.store, tenant=tenant)
        await each.create("sorted")
        for start in range(0, 2_000, 1_000):
            await each.put(*[str(number) for number in range(start, start + 1_000)])
        await each.delete()

    feed.advance(DAY_MS)
    for tenant in ("acme", "other"):
        await sweep(feed, FeedName("*", tenant))

    assert await leftovers() == {}


async def test_an_item_queue_that_was_emptied_holds_its_settings_only(
    feed: FeedPlay, leftovers: Callable[[], Awaitable[dict[str, int]]]
) -> None:
    """KB1, KB10: what was taken leaves nothing behind, whichever way it went."""
    await feed.create("queue")
    fresh = await leftovers()

    await feed.put(*[str(number) for number in range(50)])
    await feed.retract("3", "4")
    await feed.put("x", "y", position=FIRST)
    while await feed.take(7):
        pass

    assert await leftovers() == fresh


async def test_a_bounded_feed_does_not_grow(feed: FeedPlay, leftovers: Callable[[], Awaitable[dict[str, int]]]) -> None:
    """KB10: by count, and after its time by nothing at all."""
    await feed.create(items_max=3, items_keep_ms=1_000, changes_keep_max=5)
    fresh = await leftovers()

    for number in range(40):
        await feed.publish(str(number))
    busy = await leftovers()
    for _ in range(2):  # evictions by age are logged, so the log is trimmed in a second round
        feed.advance(DAY_MS)
        await sweep(feed, feed.name)
        await sweep(feed, feed.name.directory)
    idle = await leftovers()

    assert max(size - fresh.get(name, 0) for name, size in busy.items()) <= 5
    assert sum(idle.values()) < sum(fresh.values())
    assert await feed.ids() == []


async def test_waiters_that_gave_up_leave_nothing_behind(
    feed: FeedPlay, leftovers: Callable[[], Awaitable[dict[str, int]]]
) -> None:
    """Woken, timed out or cancelled; of feeds that are there, and of those that never came."""
    await feed.create()
    await feed.store.feeds.sweep(feed.name)
    changed = feed.store.signals.changed
    waiters = [
        asyncio.create_task(changed(name, cursor, timeout_ms))
        for name, cursor in ((feed.name, await feed.end()), (FeedName("never", "acme"), None))
        for timeout_ms in (1, 20_000)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
        await feed.end()

    await feed.publish("a")
    woken = await asyncio.gather(*waiters[:3])
    waiters[3].cancel()
    await asyncio.wait(waiters)

    assert woken[1:] == [True, False]
    found = await leftovers()
    assert (found.get("waiters", 0), found.get("subscriptions", 0)) == (0, 0)
