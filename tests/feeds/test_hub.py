"""The hub: one reader for all subscribers of an event loop, however many, whatever happens to the store."""

import asyncio
import gc

import pytest

from headrace import Feeds, Refused, StoreUnavailable, Subscription
from headrace.feeds import hub, log_hub
from headrace.model.limits import FEED_RETRY_MS
from headrace.testing import FaultyStore
from headrace.testing.faults import ForwardingStore, StoreCall
from tests.feeds.changes import SOON_S, summaries, take, take_until

SUBSCRIBERS = 1_000


def hubs() -> int:
    """Those of the running event loop."""
    return sum(key[0] is asyncio.get_running_loop() for key in log_hub._HUBS)


async def test_a_thousand_subscribers_cost_the_store_as_much_as_one(faulty: FaultyStore) -> None:
    """And an item is read once for all of them."""
    news = await Feeds(faulty).feed("news")
    await news.publish_many(range(1_001))
    faulty.calls.clear()
    subscriptions = [news.subscribe() for _ in range(SUBSCRIBERS)]

    async with asyncio.timeout(SOON_S):
        first = await asyncio.gather(*(each.batch() for each in subscriptions))
        more = await asyncio.gather(*(each.batch() for each in subscriptions))
        begun = faulty.calls.copy()
        waiting = [asyncio.ensure_future(anext(each)) for each in subscriptions]
        await faulty.called("signals.changed")
        changes = []
        for number in range(3):
            await news.publish({"number": number})
            changes.append(await asyncio.gather(*waiting))
            waiting = [asyncio.ensure_future(anext(each)) for each in subscriptions]
        await asyncio.gather(*(each.aclose() for each in subscriptions))
        ended = await asyncio.gather(*waiting, return_exceptions=True)

    assert {len(one) + len(two) for one, two in zip(first, more, strict=True)} == {1_002}
    assert begun["items.list"] <= 4  # two pages, for those who came first and for the others
    assert len({id(change) for same in changes for change in same}) == 3
    assert len({id(change.item) for same in changes for change in same}) == 3
    assert faulty.calls["feeds.changes"] <= 4
    assert faulty.calls["signals.changed"] <= 6
    assert {type(each) for each in ended} == {StopAsyncIteration}
    assert hubs() == 0


async def test_the_last_subscriber_that_leaves_stops_the_reader(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    one, two = news.subscribe(), news.subscribe()
    for each in (one, two):
        await take_until(each, "live")
    waiting = asyncio.ensure_future(anext(one))
    await faulty.called("signals.changed")

    await two.aclose()
    there = hubs()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    [reader] = [task for task in asyncio.all_tasks() if task.get_name() == "headrace-feed"]
    await one.aclose()
    await asyncio.wait([reader], timeout=SOON_S)

    assert (there, hubs(), reader.cancelled()) == (1, 0, True)
    with pytest.raises(StopAsyncIteration):
        await anext(one)


@pytest.mark.parametrize("call", ["items.list", "feeds.changes"])
async def test_closing_a_subscription_ends_the_wait_of_another_task(faulty: FaultyStore, call: str) -> None:
    news = await Feeds(faulty).feed("news")
    cursor = (await take(news.subscribe(), 1))[0].cursor if call == "feeds.changes" else None
    hold = faulty.hold(call)
    subscription = news.subscribe(cursor=cursor)
    waiting = asyncio.ensure_future(anext(subscription))
    await hold.reached()

    await subscription.aclose()

    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_hub_without_subscribers_is_dropped_when_the_next_one_is_made(faulty: FaultyStore) -> None:
    feeds = Feeds(faulty)
    news, board = await feeds.feed("news"), await feeds.sorted("board")

    async def look() -> None:
        await take_until(news.subscribe(), "live")

    await look()
    gc.collect()
    await take_until(subscription := board.subscribe(), "live")

    assert hubs() == 1
    await subscription.aclose()


async def test_subscribers_miss_nothing_during_an_outage(faulty: FaultyStore) -> None:
    """By running, new and resumed subscriptions."""
    news = await Feeds(faulty).feed("news")
    subscription = news.subscribe()
    cursor = (await take(subscription, 1))[0].cursor
    waiting = asyncio.ensure_future(anext(subscription))
    await faulty.called("signals.changed")
    faulty.calls.clear()

    with faulty.down():
        newcomer, returned = news.subscribe(), news.subscribe(cursor=cursor)
        others = [asyncio.ensure_future(take(newcomer, 2)), asyncio.ensure_future(take(returned, 1))]
        with pytest.raises(StoreUnavailable):
            await news.publish(0, id="lost")
        await faulty.called("items.list")
    faulty.fail("feeds.changes", times=2)
    await news.publish(1, id="a")

    async with asyncio.timeout(SOON_S):
        changes = [await waiting]
        came, back = await asyncio.gather(*others)
    assert summaries(changes) == summaries(back) == ["published a"]
    assert summaries(came) in (["present a", "live"], ["live", "published a"])


async def test_a_hub_that_is_woken_without_a_change_pauses(faulty: FaultyStore) -> None:
    called = asyncio.Semaphore(0)

    async def woken(call: StoreCall) -> object:
        if call.name != "signals.changed":
            return await call.act()
        called.release()
        return True

    news = await Feeds(ForwardingStore(faulty, woken)).feed("news")
    async with news.subscribe() as subscription, asyncio.timeout(SOON_S):
        await take_until(subscription, "live")
        waiting = asyncio.ensure_future(anext(subscription))
        await called.acquire()
        began_at = asyncio.get_running_loop().time()
        for _ in range(2):
            await called.acquire()
        took_s = asyncio.get_running_loop().time() - began_at
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    assert took_s >= 1.5 * FEED_RETRY_MS / 1_000  # half of the pause is chance, and the second is twice as long


async def test_reads_with_a_lost_answer_are_repeated(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    subscription = news.subscribe()
    await take_until(subscription, "live")
    faulty.lose("feeds.changes", "signals.changed", times=2)

    await news.publish(1, id="a")
    [change] = await take(subscription, 1)

    assert change.id == "a"


async def test_an_unexpected_error_is_raised_to_the_subscribers(faulty: FaultyStore) -> None:
    """The next call tries again."""
    news = await Feeds(faulty).feed("news")
    subscription = news.subscribe()
    await take_until(subscription, "live")
    faulty.fail("signals.changed", error=Refused("no", "not today"))

    with pytest.raises(Refused, match="not today"):
        await take(subscription, 1)
    await news.publish(1, id="a")

    assert summaries(await take(subscription, 1)) == ["published a"]


async def test_a_subscription_goes_on_when_its_hub_ends(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    subscription = news.subscribe()
    await take_until(subscription, "live")
    waiting = asyncio.ensure_future(anext(subscription))
    await faulty.called("signals.changed")

    assert isinstance(subscription, Subscription)
    assert subscription._hub is not None
    subscription._hub.stop()
    await news.publish(1, id="a")

    async with asyncio.timeout(SOON_S):
        assert (await waiting).id == "a"


async def test_a_new_subscriber_gets_items_published_before_it_during_a_running_read(faulty: FaultyStore) -> None:
    """Polls are shared, but never with an earlier one."""
    news = await Feeds(faulty).feed("news")
    hold = faulty.hold("items.list")
    early = asyncio.ensure_future(take(news.subscribe(), 2))
    await hold.reached()
    await news.publish(1, id="a")
    late = [asyncio.ensure_future(take(news.subscribe(), 2)) for _ in range(5)]
    await asyncio.sleep(0)
    hold.release()

    assert summaries(await early) in (["present a", "live"], ["live", "published a"])
    assert [summaries(each) for each in await asyncio.gather(*late)] == [["present a", "live"]] * 5
    assert faulty.calls["items.list"] == 2


async def test_items_over_their_age_are_evicted_while_a_subscriber_follows(
    faulty: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "FEED_LOOK_MS", 10)
    news = await Feeds(faulty).feed("news", items_keep_ms=30)
    subscription = news.subscribe()
    await take_until(subscription, "live")

    await news.publish(1, id="a")
    changes = await take(subscription, 2)

    assert summaries(changes) == ["published a", "retracted a"]
    assert (changes[1].reason, changes[1].instance) == ("age", "sweep")


async def test_repeatedly_cancelled_waits_leave_nothing_behind(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    subscription = news.subscribe()
    await take_until(subscription, "live")

    for _ in range(50):
        asking = asyncio.ensure_future(anext(subscription))
        for _ in range(3):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    assert subscription._hub is not None
    assert len(subscription._hub._waiters) == 0
    assert faulty.calls["signals.changed"] == 1
