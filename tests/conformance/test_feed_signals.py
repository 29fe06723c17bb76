"""Signals of feeds: a waiter is woken by a change of its feed, and sleeps while others change."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from headrace.model.feed import FIRST, FeedCursor, FeedType
from headrace.stores.open import open_store
from tests.support.feed_play import FeedPlay, refused

LONG_MS = 20_000
"""Longer than any test takes: a waiter that is not woken fails the test instead of passing it late."""
TURNS = 10
"""Turns of the event loop after which a waiter that was started has looked and sleeps."""


async def asleep(feed: FeedPlay, after: FeedCursor | None) -> asyncio.Task[bool]:
    """A sleeping waiter for a change after a cursor."""
    waiter = asyncio.create_task(feed.store.signals.changed(feed.name, after, LONG_MS))
    for _ in range(TURNS):
        # Our own check returns after that of the waiter, which began earlier.
        await asyncio.sleep(0)
        await feed.store.feeds.describe(feed.name)
    assert not waiter.done(), "the waiter found a change without one"
    return waiter


async def woken_by(waiter: asyncio.Task[bool], act: Awaitable[object]) -> bool:
    """Whether the waiter returns True once this was done; fails when it sleeps on."""
    await act
    return await asyncio.wait_for(waiter, LONG_MS / 2_000)


async def slept(waiter: asyncio.Task[bool]) -> bool:
    """Whether the waiter sleeps on although something has happened."""
    return not (await asyncio.wait([waiter], timeout=0.02))[0]


# Looking.


async def test_a_reader_that_is_behind_is_answered_at_once(feed: FeedPlay) -> None:
    """KB9: what was changed before it waits is not missed; also when the log stands before the cursor."""
    await feed.create()
    start = await feed.end()
    await feed.publish("a")

    end = await feed.end()
    elsewhere = replace(end, seq=99), replace(end, birth="1.1"), replace(end, epoch=end.epoch + 1)
    for cursor in (None, start, replace(start, seq=0), *elsewhere):
        assert await feed.store.signals.changed(feed.name, cursor, LONG_MS), cursor


async def test_a_reader_that_has_everything_waits_until_its_time_is_over(feed: FeedPlay) -> None:
    await feed.create()
    await feed.publish("a")
    end = await feed.end()

    assert not await feed.store.signals.changed(feed.name, end, 0)
    assert not await feed.store.signals.changed(feed.name, end, 20)


async def test_an_unknown_feed_is_waited_for_without_a_cursor_and_gone_with_one(feed: FeedPlay) -> None:
    """K2: a reader of a deleted feed must learn that it is gone."""
    unknown = await feed.store.signals.changed(feed.name, None, 1)
    await feed.create()
    cursor = await feed.end()
    await feed.delete()

    assert not unknown
    assert await feed.store.signals.changed(feed.name, cursor, LONG_MS)


async def test_items_of_an_item_queue_wake_all_waiters(feed: FeedPlay) -> None:
    """K18: without a cursor an empty one is waited for, although its log has changes."""
    await feed.create("queue")
    end = await feed.end()

    empty = [await feed.store.signals.changed(feed.name, cursor, 1) for cursor in (None, end)]
    await feed.put("a")
    filled = [await feed.store.signals.changed(feed.name, cursor, LONG_MS) for cursor in (None, end)]
    await feed.take()
    taken = await feed.store.signals.changed(feed.name, None, 1)

    assert (empty, filled, taken) == ([False, False], [True, True], False)


# Waking.


async def test_a_reader_is_woken_by_every_change(feed: FeedPlay) -> None:
    """KB9: of items and of the feed itself."""
    await feed.create("sorted")
    await feed.put("a", "b")
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "publish": lambda: feed.publish("c"),
        "edit": lambda: feed.edit("a"),
        "move": lambda: feed.move("c", FIRST),
        "retract": lambda: feed.retract("c"),
        "configure": lambda: feed.configure(items_max=9),
        "delete": feed.delete,
    }

    for name, act in acts.items():
        waiter = await asleep(feed, await feed.end())
        assert await woken_by(waiter, act()), name


async def test_a_reader_is_woken_by_a_sweep_that_evicts(feed: FeedPlay) -> None:
    await feed.create(items_keep_ms=1_000)
    await feed.publish("a")
    waiter = await asleep(feed, await feed.end())

    feed.advance(1_000)

    assert await woken_by(waiter, feed.sweep())


async def test_the_notices_of_a_feed_that_is_created_later_arrive(feed: FeedPlay) -> None:
    """KB14, K1: a waiter for a feed is woken by its creation, and then by its changes."""
    await FeedPlay(feed.store, name="earlier").create()
    waiter = await asleep(feed, None)

    assert await woken_by(waiter, feed.create())
    assert await woken_by(await asleep(feed, await feed.end()), feed.publish("a"))
    assert await feed.events() == ["created", "published a"]


async def test_the_readers_of_a_directory_hear_of_feeds_that_come_change_and_go(feed: FeedPlay) -> None:
    """K1, K2, K3, KB14: the first one makes the directory."""
    directory = feed.directory
    waiter = await asleep(directory, None)

    assert await woken_by(waiter, feed.create())
    for act in (feed.configure(items_max=3), feed.delete(), feed.create()):
        assert await woken_by(await asleep(directory, await directory.end()), act)
    assert await directory.events() == ["created news", "configured news", "deleted news", "created news"]


async def test_a_waiter_for_items_is_woken_by_a_put_at_either_end(feed: FeedPlay) -> None:
    """K18: however many wait."""
    await feed.create("queue")
    waiters = [await asleep(feed, None), await asleep(feed, await feed.end())]

    await feed.put("a")
    woken = await asyncio.wait_for(asyncio.gather(*waiters), LONG_MS / 2_000)
    await feed.take()

    assert woken == [True, True]
    assert await woken_by(await asleep(feed, None), feed.put("b", position=FIRST))


async def test_all_waiters_for_a_change_are_woken_after_one_gave_up(feed: FeedPlay) -> None:
    await feed.create()
    waiters = [await asleep(feed, await feed.end()) for _ in range(3)]

    waiters[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    await feed.publish("a")

    assert await asyncio.wait_for(asyncio.gather(*waiters[1:]), LONG_MS / 2_000) == [True, True]


async def test_a_reader_is_woken_by_another_handle_of_the_store(feed: FeedPlay, shared_url: str) -> None:
    """KB9: long before its next look: it hears, as it would from another process."""
    await feed.create("sorted")
    store = await open_store(shared_url)
    other, queue, far = FeedPlay(store), FeedPlay(feed.store, name="queue"), FeedPlay(store, name="queue")
    await queue.create("queue")
    took: list[float] = []
    acts: list[tuple[FeedPlay, Callable[[], Awaitable[object]]]] = [
        (feed, lambda: other.publish("a")),
        (feed, lambda: other.retract("a")),
        (feed, lambda: other.configure(items_max=5)),
        (queue, lambda: far.put("a")),
        (feed.directory, lambda: FeedPlay(store, name="third").create()),
        (feed, other.delete),
    ]

    for near, act in acts:
        waiter = await asleep(near, None if near is queue else await near.end())
        began = asyncio.get_running_loop().time()
        assert await woken_by(waiter, act())
        took.append(asyncio.get_running_loop().time() - began)
    await store.close()

    assert max(took) < 1.5, f"found by looking, not by hearing: {took}"


# Sleeping on.


@pytest.mark.parametrize("type", ["feed", "queue"])
async def test_a_reader_sleeps_on_while_other_feeds_change(feed: FeedPlay, type: FeedType) -> None:
    """K1: of the same tenant, and of another tenant under the same name; nor does it hear of refusals."""
    neighbour, stranger = FeedPlay(feed.store, name="other"), FeedPlay(feed.store, tenant="other")
    await feed.create(type)
    await neighbour.create()
    waiter = await asleep(feed, await feed.end() if type == "feed" else None)
    listener = await asleep(feed.directory, await feed.directory.end())

    await stranger.create()
    for other in (neighbour, stranger):
        await other.publish("a")
        await other.retract("a")
    await stranger.delete()
    await refused(feed.publish("x", position=FIRST) if type == "feed" else feed.edit("x"))
    await feed.retract("nobody")
    if type == "feed":
        await feed.edit("nobody")
    await feed.sweep()

    assert await slept(waiter)
    assert await slept(listener)
    assert await woken_by(listener, neighbour.delete())
    assert await slept(waiter)
    assert await woken_by(waiter, feed.publish("a"))


async def test_a_wait_that_can_never_be_right_is_refused(feed: FeedPlay) -> None:
    await feed.create()

    reasons = [await refused(feed.store.signals.changed(feed.name, None, ms)) for ms in (-1, 2**40, 1.5)]  # type: ignore[arg-type]
    assert reasons == ["bad_timeout_ms"] * 3
