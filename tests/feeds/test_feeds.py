"""Feeds of a tenant are opened, created, configured, deleted, listed and followed."""

import asyncio

import pytest

from headrace import Feed, Feeds, ItemQueue, Refused, SortedFeed, Store
from tests.feeds.changes import SOON_S, summaries, take, take_until


async def test_opening_a_feed_creates_it_when_missing_and_applies_settings(feeds: Feeds) -> None:
    """K4, K3: opened with other settings it is reconfigured, with the same or none it is left alone."""
    news = await feeds.feed("news", items_max=5)

    again, lower = await feeds.feed("news", items_max=5), await feeds.feed("news")
    first = await news.config()
    await feeds.feed("news", items_max=3, changes_keep_max=7)
    second = await news.config()

    assert isinstance(news, Feed)
    assert (again.name, lower.name) == ("news", "news")
    assert (first.type, first.items_max, first.version) == ("feed", 5, 0)
    assert (second.items_max, second.changes_keep_max, second.version) == (3, 7, 1)


async def test_many_tasks_may_open_the_same_feed_at_once(feeds: Feeds, others: Feeds) -> None:
    """K4."""
    opened = await asyncio.gather(*(each.sorted("board") for each in (feeds, others) for _ in range(5)))

    assert {type(each) for each in opened} == {SortedFeed}
    assert [listing.name for listing in await feeds.list()] == ["board"]


async def test_opening_a_feed_as_another_type_is_refused(feeds: Feeds) -> None:
    await feeds.item_queue("inbox")

    with pytest.raises(Refused, match="'default/inbox' was to be of type 'sorted' and is of type 'queue'") as refused:
        await feeds.sorted("inbox")

    assert refused.value.reason == "wrong_type"
    assert isinstance(await feeds.item_queue("inbox"), ItemQueue)


async def test_a_feed_is_created_once_deleted_once_and_listed_in_between(feeds: Feeds) -> None:
    """K1, K2, K4: a second creation is refused, and so is the deletion of what is not there."""
    config = await feeds.create("news", "sorted", items_max=9)
    await feeds.create("inbox", "queue")
    with pytest.raises(Refused) as exists:
        await feeds.create("news")
    listed = await feeds.list()
    state = await feeds.describe("news")
    await feeds.delete("news")
    with pytest.raises(Refused) as unknown:
        await feeds.delete("news")

    assert (exists.value.reason, unknown.value.reason) == ("feed_exists", "unknown_feed")
    assert [(each.name, each.type) for each in listed] == [("inbox", "queue"), ("news", "sorted")]
    assert state is not None
    assert (listed[1].config, state.config) == (config, config)
    assert await feeds.describe("news") is None
    assert [each.name for each in await feeds.list()] == ["inbox"]


async def test_configure_with_a_version_is_refused_when_the_feed_was_changed_since(feeds: Feeds) -> None:
    """K3."""
    await feeds.create("news")
    await feeds.configure("news", items_max=5, version=0)

    with pytest.raises(Refused) as refused:
        await feeds.configure("news", items_max=6, version=0)

    assert refused.value.reason == "version_changed"


async def test_calls_of_a_deleted_feed_are_refused(feeds: Feeds) -> None:
    news, inbox = await feeds.feed("news"), await feeds.item_queue("inbox")
    await feeds.delete("news")
    await feeds.delete("inbox")

    for call in (news.publish(1), news.ids(), news.count(), anext(news.subscribe()), inbox.get(), inbox.put(1)):
        with pytest.raises(Refused) as refused:
            await call
        assert refused.value.reason == "unknown_feed"
    assert await news.item("a") is None


async def test_tenants_do_not_see_each_others_feeds(store: Store) -> None:
    acme, globex = Feeds(store, tenant="acme"), Feeds(store, tenant="globex")
    await (await acme.feed("news")).publish("acme's", id="a")
    there = await globex.feed("news")

    assert await there.items() == {}
    assert [each.name for each in await globex.list()] == ["news"]
    await globex.delete("news")
    assert [each.name for each in await acme.list()] == ["news"]


async def test_the_directory_yields_created_configured_and_deleted_feeds(feeds: Feeds, others: Feeds) -> None:
    """K1, K2, K3, K31: with the name, the configuration and the instance; also before there is any feed at all."""
    async with feeds.subscribe() as subscription:
        nothing = await take(subscription, 1)
        await others.create("news", items_max=5)
        await feeds.configure("news", items_max=6)
        await others.delete("news")
        changes = await take(subscription, 3)
        cursor = subscription.cursor
    await feeds.create("board", "sorted")
    resumed = await take(feeds.subscribe(cursor=cursor), 1)
    fresh = await take(feeds.subscribe(), 2)

    assert summaries(nothing) == ["live"]
    assert summaries(changes) == ["created news", "configured news", "deleted news"]
    assert [change.instance for change in changes] == ["elsewhere", "here", "elsewhere"]
    assert [change.item and change.item.items_max for change in changes] == [5, 6, None]
    assert (summaries(resumed), resumed[0].item.type) == (["created board"], "sorted")
    assert (summaries(fresh), fresh[0].item) == (["present board", "live"], resumed[0].item)


async def test_a_subscription_may_leave_out_changes_of_its_own_instance(feeds: Feeds, others: Feeds) -> None:
    """K5: in the directory and in a feed, and the place behind what was left out is kept."""
    news = await feeds.feed("news")
    there = await others.feed("news")
    directory, subscription = feeds.subscribe(own=False), news.subscribe(own=False, heartbeat="30ms")
    await take_until(directory, "live")
    await take_until(subscription, "live")

    await feeds.create("mine")
    await news.publish(1, id="mine")
    await others.create("theirs")
    await there.publish(2, id="theirs")
    await news.publish(3, id="mine too")

    created, published = await take(directory, 1), (await take_until(subscription, "published"))[-1]
    state = await feeds.describe("news")
    assert state is not None
    async with asyncio.timeout(SOON_S):
        while subscription.cursor != str(state.cursor):
            assert (await anext(subscription)).event == "heartbeat"
    assert (summaries(created), published.id) == (["created theirs"], "theirs")


def test_the_default_instance_is_host_process_and_random_characters(faulty: Store) -> None:
    one, two = Feeds(faulty).instance, Feeds(faulty).instance

    assert one != two
    assert one.rpartition(":")[0] == two.rpartition(":")[0]
    with pytest.raises(Refused):
        Feeds(faulty, instance="x" * 200)
