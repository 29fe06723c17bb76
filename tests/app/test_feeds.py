"""The feeds of an app: with its store, tenant and codec, with an event loop or without."""

import asyncio
import pickle

import pytest

from headrace import RAW, App


async def test_an_app_gives_the_feeds_of_its_tenant_in_its_store(url: str) -> None:
    async with App(url, tenant="acme", codec=RAW) as app:
        news = await (await app.feeds()).feed("news")
        await news.publish(b"raw", id="a")
        here = (await app.feeds()).instance

    async with App(url, tenant="acme", codec=RAW) as other:
        feeds = await other.feeds()
        assert [each.name for each in await feeds.list()] == ["news"]
        assert await (await feeds.feed("news")).items() == {"a": b"raw"}
        assert feeds.instance != here


@pytest.mark.parametrize("any_app", ["sqlite"], indirect=True)
def test_loops_and_threads_of_an_app_are_one_instance_and_leave_out_their_own(any_app: App) -> None:
    """K5."""
    news = any_app.blocking_feeds.feed("news")

    async def publish() -> str:
        async with any_app:
            feeds = await any_app.feeds()
            await (await feeds.feed("news")).publish(1)
            return feeds.instance

    with news.subscribe(own=False) as subscription:
        first = next(subscription)
        instance = asyncio.run(publish())
        carried = pickle.loads(pickle.dumps(any_app.blocking_feeds))  # noqa: S301 - our own
        carried.feed("news").publish(2, id="another's")
        second = next(subscription)

    assert (first.event, second.id) == ("live", "another's")
    assert any_app.blocking_feeds.instance == instance
    assert carried.instance != instance


async def test_the_feeds_of_an_app_in_memory_are_there_for_all_its_tasks() -> None:
    app = App("memory://")
    board = await (await app.feeds()).sorted("board")
    await board.append(1)

    assert await (await (await app.feeds()).sorted("board")).ids() == ["1"]
