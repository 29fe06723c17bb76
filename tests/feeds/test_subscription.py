"""Subscriptions yield the items and then each change, without a gap and nothing twice, however they stop and resume."""

import asyncio
import pickle
import random

import pytest

from headrace import Change, Feed, Feeds, Refused, Store
from headrace.model.limits import HUB_CHANGES_MAX
from headrace.testing import FaultyStore
from tests.feeds.changes import EVERYWHERE, SOON_S, rest, summaries, take, take_until


async def log_of(store: Store, feed: Feed) -> list[tuple[int, str, str]]:
    """The whole log, as the store has it."""
    answer = await store.feeds.changes(feed.feed)
    rows = list(answer.rows)
    while answer.more:
        answer = await store.feeds.changes(feed.feed, answer.cursor)
        rows += answer.rows
    return [(row.seq, row.event, row.id) for row in rows]


def short(changes: list[Change]) -> list[tuple[int, str, str]]:
    return [(change.seq, change.event, change.id) for change in changes]


async def test_a_subscription_yields_the_items_then_each_change(feeds: Feeds, others: Feeds) -> None:
    """K30, K32, KB9: in order, with its instance, and a cursor from the end of the first items on."""
    news = await feeds.feed("news")
    await news.publish_many([1, 2], ids=["a", "b"])
    async with news.subscribe() as subscription:
        first = await take_until(subscription, "live")
        await (await others.feed("news")).publish(3, id="c")
        await news.publish(4, id="a")
        await news.retract("b")
        await feeds.configure("news", items_max=7)
        changes = await take(subscription, 4)

    assert summaries(first) == ["present a", "present b", "live"]
    assert [change.cursor is None for change in first] == [True, True, False]
    assert summaries(changes) == ["published c", "edited a", "retracted b", "configured"]
    assert [change.instance for change in changes] == ["elsewhere", "here", "here", "here"]
    assert (changes[1].item, changes[3].item.items_max, {change.feed for change in changes}) == (4, 7, {"news"})
    assert [change.seq for change in changes] == list(range(first[-1].seq + 1, first[-1].seq + 5))


async def test_a_subscription_is_resumed_behind_every_change(feeds: Feeds) -> None:
    """KB9: from the cursor of the change, with the later changes only."""
    news = await feeds.feed("news")
    subscription = news.subscribe()
    live = await take_until(subscription, "live")
    await news.publish_many(range(5), ids=list("abcde"))
    changes = [*live, *await take(subscription, 5)]
    await subscription.aclose()

    for at, change in enumerate(changes):
        resumed = news.subscribe(cursor=change.cursor)
        assert short(await take(resumed, 5 - at)) == short(changes[at + 1 :])
        await resumed.aclose()
    with pytest.raises(Refused, match="'nonsense' is not a cursor"):
        news.subscribe(cursor="nonsense")


@pytest.mark.parametrize("store", EVERYWHERE, indirect=True)
async def test_a_subscription_cancelled_and_resumed_at_random_yields_exactly_the_log(
    feeds: Feeds, store: Store
) -> None:
    """KB9: order kept, no gap, nothing twice."""
    news, chance = await feeds.feed("news", items_max=50), random.Random(7)
    [live] = await take(news.subscribe(), 1)

    async def publish(name: str) -> None:
        there = await Feeds(store, instance=name).feed("news")
        for number in range(20):
            id = f"{name}/{number % 15}"
            await (there.retract(id) if number % 4 == 3 else there.publish(number, id=id))
            await asyncio.sleep(0)

    async def follow() -> list[Change]:
        seen, cursor = [live], live.cursor
        subscription = news.subscribe(cursor=cursor)
        while seen[-1].id != "the end":
            asking = asyncio.ensure_future(anext(subscription))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                asking.cancel()
            try:
                seen.append(await asking)
            except asyncio.CancelledError:
                if chance.random() < 0.5:
                    continue  # the next one to ask gets what would have come
                await subscription.aclose()
                subscription = news.subscribe(cursor=cursor)
            cursor = seen[-1].cursor
        return seen[1:]

    async with asyncio.timeout(3 * SOON_S):
        followers = [asyncio.create_task(follow()) for _ in range(5)]
        await asyncio.gather(*(publish(f"p{number}") for number in range(10)))
        await news.publish(0, id="the end")
        followed = await asyncio.gather(*followers)

    log = [each for each in await log_of(store, news) if each[0] > live.seq]
    last = next(at for at, (_, _, id) in enumerate(log) if id == "the end")
    assert len(log) > 150
    assert [short(seen) for seen in followed] == [log[: last + 1]] * 5


async def test_subscriptions_begun_during_publishing_build_the_feed(feeds: Feeds) -> None:
    """KB9: the first items and the changes behind them fit together, whenever a subscription begins."""
    board = await feeds.sorted("board")
    await board.publish_many(range(1_500))
    subscriptions = []

    async def follow() -> dict[str, object]:
        subscription = board.subscribe()
        subscriptions.append(subscription)
        there: dict[str, object] = {}
        while True:
            change = await anext(subscription)
            if change.event == "retracted":
                del there[change.id]
            elif change.event != "live":
                assert change.event == "edited" or change.id not in there
                there[change.id] = change.item
            if change.id == "the end":
                return there

    async with asyncio.timeout(SOON_S):
        followers = []
        for number in range(30):
            followers.append(asyncio.create_task(follow()))
            await board.edit(f"{number + 1}", "edited")
            await board.retract(f"{number + 100}")
            await board.append("new")
        await board.append("the end", id="the end")
        built = await asyncio.gather(*followers)

    assert [each == await board.items() for each in built] == [True] * 30


@pytest.mark.parametrize("store", EVERYWHERE, indirect=True)
async def test_a_subscription_too_far_behind_yields_one_gap_and_then_the_items(feeds: Feeds) -> None:
    news = await feeds.feed("news", items_max=3, changes_keep_max=5)
    subscription = news.subscribe()
    cursor = (await take(subscription, 1))[0].cursor
    await subscription.aclose()
    await news.publish_many(range(10), ids=list("abcdefghij"))

    resumed = news.subscribe(cursor=cursor)
    changes = await take_until(resumed, "live")
    await news.publish(1, id="k")
    after = await take(resumed, 2)
    late = news.subscribe(cursor=cursor)
    gap = await take(late, 1)
    await feeds.delete("news")
    await feeds.create("news")
    end = await rest(late)

    assert (summaries(gap), summaries(end)) == (
        ["gap"],
        ["deleted"],
    )  # the new feed of its name is another
    assert summaries(changes) == ["gap", "present h", "present i", "present j", "live"]
    assert [change.cursor is None for change in changes] == [True] * 4 + [False]
    assert summaries(after) == ["published k", "retracted h"]


async def test_a_cursor_from_before_the_store_lost_something_is_a_gap_also_where_others_have_read(feeds: Feeds) -> None:
    """The number is there again, and was written in another epoch."""
    news = await feeds.feed("news")
    follower = news.subscribe()
    await take_until(follower, "live")
    await news.publish_many(range(4), ids=list("abcd"))
    changes = await take(follower, 4)
    birth, epoch, seq = str(changes[1].cursor).split("-")

    lost = [f"{birth}-{int(epoch) + 1}-{seq}", f"{birth}-{epoch}-{int(seq) + 100}"]
    lists = [summaries(await take_until(news.subscribe(cursor=cursor), "live")) for cursor in lost]

    assert lists == [["gap", *(f"present {id}" for id in "abcd"), "live"]] * 2


async def test_a_subscription_that_falls_behind_yields_a_gap(feeds: Feeds) -> None:
    news = await feeds.feed("news", items_max=2, changes_keep_max=3)
    subscription = news.subscribe()
    await take_until(subscription, "live")
    for number in range(3):
        await news.publish_many([number] * 8, ids=[f"{number}/{each}" for each in range(8)])

    changes = await take_until(subscription, "live")

    assert summaries(changes)[-4:] == ["gap", "present 2/6", "present 2/7", "live"]
    assert sum(change.event == "gap" for change in changes) == 1


@pytest.mark.parametrize("store", EVERYWHERE, indirect=True)
async def test_the_last_change_of_a_deleted_feed_has_the_instance_that_deleted_it(feeds: Feeds, others: Feeds) -> None:
    """K2: to those who follow it, and to those who come back; also when there is another one of its name by then."""
    news = await feeds.feed("news")
    follower, away = news.subscribe(), news.subscribe()
    await take_until(follower, "live")
    cursor = (await take(away, 1))[0].cursor
    await away.aclose()

    await news.publish(1, id="a")
    before = await take(follower, 1)
    await others.delete("news")
    ended = await rest(follower)
    back = await rest(news.subscribe(cursor=cursor))
    await (await feeds.feed("news")).publish(2, id="new")
    late = await rest(news.subscribe(cursor=cursor))
    again = news.subscribe()
    fresh = await take(again, 2)
    await feeds.delete("news")
    second = await rest(again)

    assert summaries(before) == ["published a"]
    assert [(change.event, change.instance, change.cursor) for change in ended] == [("deleted", "elsewhere", None)]
    assert summaries(back) == summaries(late) == ["deleted"]
    assert {change.instance for change in (*back, *late)} == {"elsewhere"}
    assert summaries(fresh) == ["present new", "live"]
    assert [(change.event, change.instance) for change in second] == [("deleted", "here")]
    assert await follower.batch() == []


async def test_a_slow_subscriber_delays_no_other_and_misses_nothing(faulty: FaultyStore) -> None:
    """What subscribers share is bounded; a subscription that fell out of it reads by itself, page by page."""
    news = await Feeds(faulty).feed("news")
    slow, fast = news.subscribe(), news.subscribe()
    await take_until(slow, "live")
    await take_until(fast, "live")
    count = HUB_CHANGES_MAX + 2_000
    ids = [f"{number}" for number in range(count)]

    seen: list[Change] = []
    for start in range(0, count, 500):
        await news.publish_many(ids[start : start + 500], ids=ids[start : start + 500])
        seen += await take(fast, 500)
    shared = faulty.calls["feeds.changes"]
    late = await take(slow, count)

    assert slow._hub is not None
    assert slow._hub._window._changes <= HUB_CHANGES_MAX
    assert [change.id for change in seen] == [change.id for change in late] == ids
    assert 2 <= faulty.calls["feeds.changes"] - shared <= 8
    assert seen[-1] is late[-1]


async def test_a_batch_has_the_buffered_changes(feeds: Feeds) -> None:
    news = await feeds.feed("news")
    subscription = news.subscribe()
    first = await subscription.batch()
    await news.publish_many(range(2_300))

    async with asyncio.timeout(SOON_S):
        sizes: list[int] = []
        while sum(sizes) < 2_300:
            sizes.append(len(await subscription.batch()))

    assert summaries(first) == ["live"]
    assert max(sizes) == 1_000
    assert len(sizes) <= 6


async def test_a_heartbeat_comes_when_there_was_no_change_for_so_long(feeds: Feeds) -> None:
    """It carries the cursor, and is no change; without one nothing comes."""
    news = await feeds.feed("news")
    subscription = news.subscribe(heartbeat="30ms")
    live = (await take_until(subscription, "live"))[-1]
    beats = await take(subscription, 2)
    await news.publish(1, id="a")
    change = (await take_until(subscription, "published"))[-1]

    resumed = await take(news.subscribe(cursor=beats[-1].cursor), 1)

    assert [(beat.event, beat.cursor) for beat in beats] == [("heartbeat", live.cursor)] * 2
    assert (change.id, short(resumed)) == ("a", short([change]))


async def test_a_heartbeat_faster_than_the_store_delays_no_change(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    [live] = await take(news.subscribe(), 1)
    await news.publish(1, id="a")
    hold = faulty.hold("feeds.changes")
    subscription = news.subscribe(cursor=live.cursor, heartbeat="1ms")

    beats = await take(subscription, 3)
    calls = faulty.calls["feeds.changes"]
    hold.release()
    [change] = [each for each in await take_until(subscription, "published") if each.event == "published"]

    assert summaries(beats) == ["heartbeat"] * 3
    assert change.id == "a"
    assert calls == 1  # the subscription reads on as soon as the change is there


async def test_a_change_can_be_pickled(feeds: Feeds) -> None:
    news = await feeds.feed("news")
    subscription = news.subscribe()
    await take_until(subscription, "live")
    await news.publish({"a": [1]}, id="a")
    [change] = await take(subscription, 1)

    carried = pickle.loads(pickle.dumps(change))  # noqa: S301 - our own

    assert (carried.item, carried.cursor, repr(carried)) == ({"a": [1]}, change.cursor, repr(change))


async def test_a_subscription_to_the_directory_goes_on_when_the_directory_was_dropped(
    feeds: Feeds, store: Store
) -> None:
    """A directory without feeds and changes is dropped, and the next feed begins another one."""
    directory = feeds.subscribe()
    await feeds.create("news")
    await take_until(directory, "live")
    await feeds.delete("news")
    [deleted] = await take(directory, 1)
    state = await store.feeds.describe(directory._feed)
    assert state is not None
    await store.feeds.sweep(directory._feed, now_ms=state.changed_at_ms + 10 * 24 * 3_600_000)

    await feeds.create("board")
    changes = await take_until(directory, "live")

    assert deleted.id == "news"
    assert summaries(changes) in (["gap", "present board", "live"], ["gap", "live"])
