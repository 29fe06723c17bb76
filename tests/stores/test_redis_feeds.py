"""Promises of feeds on Redis alone: no reader continues past a loss, ranks are those of the model, a full server can be
emptied, and keys reveal no names."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from headrace.model import limits
from headrace.model.errors import StoreUnavailable
from headrace.model.feed import FIRST, LAST, FeedName, ItemPosition, Move, Publication
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.stores.open import open_store
from headrace.stores.redis.keys import feed_key, feed_prefix
from tests.support.feed_play import FeedPlay
from tests.support.process import wait_until
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import admin_of, flush
from tests.support.servers import PASSWORD, USER, redis_server


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def server() -> RedisServer:
    """An empty server that tests may look into."""
    flush([redis_server()])
    return redis_server()


@pytest.fixture
def store(server: RedisServer, runner: asyncio.Runner) -> Iterator[Store]:
    """A store on it."""
    opening = opened(server.url_of(USER, PASSWORD))
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


def members(server: RedisServer, feed: FeedName) -> list[tuple[str, str]]:
    """Rank and id of each item, in the order of the feed."""
    found = server.ask("ZRANGE", feed_prefix(feed) + "o", 0, -1)
    return [tuple(each.decode().split("\0", 1)) for each in found]


# Servers that come back.


async def test_a_reader_goes_on_after_a_restart_that_lost_nothing_and_the_epoch_has_risen() -> None:
    with RedisServer(aof="always").launch() as server:
        async with opened(server.url) as store:
            news = FeedPlay(store)
            await news.create()
            await news.put("a")
            seen = await news.end()

        server.kill()
        server.start()

        async with opened(server.url) as store:
            news = FeedPlay(store)
            idle = await news.page(seen)
            await news.put("b")
            changes = await news.changes(seen)
    assert (idle.status, idle.rows, idle.cursor) == ("kept", [], seen)
    assert [(each.seq, each.id) for each in changes] == [(3, "b")]
    assert changes[0].epoch > seen.epoch == 1


async def test_a_reader_of_changes_lost_in_a_restart_gets_a_gap_even_when_their_numbers_are_used_again() -> None:
    with RedisServer().launch() as server:
        async with opened(server.url) as store:
            news = FeedPlay(store)
            await news.create()
            await news.put("kept")
            before = await news.end()
            server.ask("SAVE")
            await news.put("lost")
            after = await news.end()

        server.kill()
        server.start()

        async with opened(server.url) as store:
            news = FeedPlay(store)
            too_far = await news.page(after)
            await news.put("other")
            again = await news.page(after)
            changes = await news.changes(before)
            ids = await news.ids()
    assert (too_far.status, again.status) == ("gap", "gap")
    assert [(each.seq, each.id) for each in changes] == [(3, "other")]
    assert again.cursor is not None
    assert (again.cursor.epoch, again.cursor.seq) == (changes[0].epoch, after.seq)
    assert again.cursor.epoch > after.epoch
    assert ids == ["kept", "other"]


async def test_feeds_of_a_server_that_keeps_nothing_are_gone_for_their_readers() -> None:
    with RedisServer().launch() as server:
        async with opened(server.url) as store:
            news = FeedPlay(store)
            await news.create()
            seen = await news.end()

        server.kill()
        server.start()

        async with opened(server.url) as store:
            news = FeedPlay(store)
            nothing = await news.page(seen)
            news.advance(1)
            await news.create()
            another = await news.page(seen)
    assert (nothing.status, nothing.cursor) == ("gone", None)
    assert another.status == "gone"


# Ranks.


async def test_ranks_that_functions_draw_are_those_of_the_model(server: RedisServer, store: Store) -> None:
    """K11-K15: over many ways to put items before, after and between others."""
    random, ids = Random(7), [f"id-{number}" for number in range(60)]
    plays = [FeedPlay(each, name="board") for each in (store, MemoryStore())]

    def a_place() -> ItemPosition:
        return random.choice([FIRST, LAST, *[ItemPosition(where, random.choice(ids)) for where in ("before", "after")]])

    for play in plays:
        await play.create("sorted")
    for _ in range(40):
        batch = [Publication(b"", random.choice(ids), a_place()) for _ in range(20)]
        moves = [Move(random.choice(ids), a_place()) for _ in range(20)]
        # Always into the same gap, which uses up its room.
        batch += [
            Publication(b"", position=ItemPosition(random.choice(["before", "after"]), ids[0])) for _ in range(20)
        ]
        answers = [await play.publish_all(*batch) for play in plays]
        moved = [await play.store.items.move(play.name, moves, instance="me", now_ms=play.now_ms) for play in plays]
        assert answers[0] == answers[1]
        assert moved[0] == moved[1]

    _, memory = plays
    rows = memory.store._engine.tx.feed(memory.name)  # type: ignore[attr-defined]  # the ranks are nobody else's business
    assert members(server, plays[0].name) == [(row.rank, row.id) for row in rows.first(10_000)]
    assert max(len(row.rank) for row in rows.first(10_000)) > 8


async def test_ranks_around_a_place_without_room_are_drawn_anew_as_in_the_model(
    server: RedisServer, store: Store
) -> None:
    plays = [FeedPlay(each, name="board") for each in (store, MemoryStore())]

    for play in plays:
        await play.create("sorted")
        await play.put("0", "1")
        for start in (2, 1_000):  # always between the last two
            wedged = [
                Publication(b"", str(number), ItemPosition("before" if number % 2 else "after", str(number - 1)))
                for number in range(start, start + 998)
            ]
            await play.publish_all(*wedged)

    rows = plays[1].store._engine.tx.feed(plays[1].name)  # type: ignore[attr-defined]  # as above
    found = members(server, plays[0].name)
    assert found == [(row.rank, row.id) for row in rows.first(10_000)]
    assert max(len(rank) for rank, _ in found) <= limits.RANK_CHARS_MAX


# What a server can bear.


async def test_a_full_server_refuses_items_and_can_be_read_and_emptied(server: RedisServer, store: Store) -> None:
    news, inbox = FeedPlay(store), FeedPlay(store, name="inbox")
    await news.create(items_keep_ms=1_000)
    await inbox.create("queue")
    await news.put("a", "b", "c")
    await inbox.put("x")

    server.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        for full in (news.put("d"), news.put("a"), FeedPlay(store, name="other").create()):
            with pytest.raises(StoreUnavailable, match="OOM"):
                await full
        shown = await news.ids(), (await news.state()).items, await news.events()
        retracted, taken = await news.retract("a"), await inbox.take()
        news.advance(1_000)
        swept = await news.sweep()
        await inbox.delete()
    finally:
        server.ask("CONFIG", "SET", "maxmemory", 0)

    assert shown == (["a", "b", "c"], 3, ["created", "published a", "published b", "published c"])
    assert (retracted, taken, swept) == (["retracted"], ["x"], 2)
    assert await news.events() == [*shown[2], "retracted a", "retracted b", "retracted c"]
    assert await inbox.directory.ids() == ["news"]


async def test_an_order_that_lost_an_item_hands_out_those_behind_it(server: RedisServer, store: Store) -> None:
    inbox = FeedPlay(store, name="inbox")
    await inbox.create("queue")
    await inbox.put("lost", "kept")
    server.ask("HDEL", feed_prefix(inbox.name) + "i", "lost")

    shown = await inbox.ids()
    taken = [await inbox.take(), await inbox.take(), await inbox.take()]

    assert shown == ["kept"]
    assert taken == [[], ["kept"], []]
    assert (await inbox.state()).items == 0


# Keys.


async def test_keys_of_a_tenant_lie_in_one_slot_and_none_holds_an_id(server: RedisServer, store: Store) -> None:
    for name, type in (("news", "feed"), ("board", "sorted"), ("inbox", "queue")):
        play = FeedPlay(store, name=name)
        await play.create(type)  # type: ignore[arg-type]  # one of the three
        await play.put("id-of-an-item", "{other}:m")

    keys = [key.decode() for key in admin_of(server).scan_iter()]

    assert sorted(keys) == sorted(
        f"hr:{{acme}}:f:{name}:{suffix}"
        for name, suffixes in (("*", "miol"), ("news", "miol"), ("board", "miol"), ("inbox", "miol"))
        for suffix in suffixes
    )
    assert feed_key(FeedName("news", "acme")) in keys


# Waiting.


async def test_waiters_at_one_position_share_one_poll_on_one_connection(server: RedisServer, store: Store) -> None:
    news = FeedPlay(store)
    await news.create()
    end = await news.end()
    before = looks(server)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = [group.create_task(store.signals.changed(news.name, end, 30_000)) for _ in range(1_000)]
        channel = feed_prefix(news.name)
        await asyncio.to_thread(wait_until, lambda: bool(listeners(server, channel)), "a reader that listens")
        heard = listeners(server, channel)
        await news.put("a")

    assert all(task.result() for task in waiting)
    assert heard == 1
    assert looks(server) - before <= 20


def listeners(server: RedisServer, channel: str) -> int:
    """How many connections listen to a channel."""
    return int(server.ask("PUBSUB", "SHARDNUMSUB", channel)[1])


def looks(server: RedisServer) -> int:
    """How many functions that only look were called."""
    stats = server.ask("INFO", "commandstats")
    return int(stats.get("cmdstat_fcall_ro", {"calls": 0})["calls"])
