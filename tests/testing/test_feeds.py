"""Feeds in the testing kit: on the kit's store and by its clock."""

import asyncio

import pytest

from headrace import App, StoreUnavailable
from headrace.testing import using

SOON_S = 20


async def test_the_feeds_of_an_app_are_in_the_store_of_the_kit() -> None:
    """Awaited and blocking, and gone behind the block."""
    app = App("memory://")
    async with using(app) as kit:
        news = await (await app.feeds()).feed("news")
        inbox = app.blocking_feeds.item_queue("inbox")  # on another loop and thread
        kit.store.fail("items.publish")
        with pytest.raises(StoreUnavailable, match="as the test has asked"):
            inbox.put("lost")
        inbox.put("blocking")

        assert await (await (await app.feeds()).item_queue("inbox")).get("20s") == "blocking"
        assert news.name == "news"

    assert await (await app.feeds()).list() == []


async def test_moving_the_clock_evicts_old_items_and_subscribers_get_the_change() -> None:
    app = App("memory://")
    async with using(app) as kit, asyncio.timeout(SOON_S):
        news = await (await app.feeds()).feed("news", items_keep_ms=60_000)
        quiet = await (await app.feeds()).feed("quiet", items_keep_ms=60_000)
        await quiet.publish(1)
        await news.publish(1, id="old")
        async with news.subscribe() as subscription:
            first = [await anext(subscription), await anext(subscription)]
            kit.clock.advance("30s")
            await news.publish(2, id="new")
            published = await anext(subscription)
            waiting = asyncio.ensure_future(anext(subscription))
            await kit.store.called("signals.changed", 2)
            kit.clock.advance("31s")
            retracted = await waiting

        assert [change.event for change in first] == ["present", "live"]
        assert (published.id, published.at_ms - first[0].at_ms) == ("new", 30_000)
        assert (retracted.event, retracted.id, retracted.reason) == ("retracted", "old", "age")
        assert await news.ids() == ["new"]
        assert (await quiet.ids(), kit.store.calls["feeds.sweep"], await quiet.count()) == ([], 0, 0)
        kit.clock.advance("30s")
        assert (await news.ids(), await news.has("new"), await news.count()) == ([], False, 0)
