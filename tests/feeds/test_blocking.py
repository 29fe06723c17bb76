"""Feeds without an event loop: the same verbs, from threads, over forks and through pickles."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace import (
    BadConfig,
    BlockingClient,
    BlockingFeed,
    BlockingFeeds,
    BlockingItemQueue,
    BlockingSortedFeed,
    BlockingSubscription,
    Feed,
    Feeds,
    ItemQueue,
    Refused,
    SortedFeed,
    StoreUnavailable,
    Subscription,
)
from headrace.client.background import BACKGROUND
from tests.feeds.changes import summaries
from tests.support.stores import sqlite_url

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty file."""
    return sqlite_url(tmp_path)


@pytest.fixture
def feeds(url: str) -> Iterator[BlockingFeeds]:
    """The feeds in that file."""
    with BlockingFeeds(url, instance="here") as feeds:
        yield feeds
    BACKGROUND.stop()


def run_program(program: str, url: str) -> None:
    """Run a program in a process of its own; it ends well and writes nothing."""
    command = [sys.executable, "-W", "error", "-m", "tests.feeds.programs", program, url]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_methods_of_all_feeds_work_without_an_event_loop(feeds: BlockingFeeds) -> None:
    """K4, K6, K10, K11, K12, K14, K15, K17, K18."""
    news, board, inbox = feeds.feed("news", items_max=5), feeds.sorted("board"), feeds.item_queue("inbox")

    id = news.publish({"a": 1})
    news.publish_many([1, 2], ids=["x", "y"])
    news.edit("x", "edited")
    one, two = board.append("one"), board.prepend("two")
    three, four = board.before(one, "three"), board.after(one, "four")
    moved = board.move(one, first=True), board.move(one, first=True)
    board.edit(two, "TWO")
    many = board.publish_many("ab")
    inbox.put_many([1, 2])
    inbox.put("high", high=True)

    assert (news.ids(), news.item(id), news.has("x"), news.count(), news.total()) == (
        [id, "y", "x"],
        {"a": 1},
        True,
        3,
        4,
    )
    assert (news.retract("x"), news.retract("x"), news.items()) == (True, False, {id: {"a": 1}, "y": 2})
    assert (board.ids(), moved) == ([one, two, three, four, *many], (True, False))
    assert board.items()[two] == "TWO"
    assert [inbox.get(), inbox.get("1s"), inbox.get(0)] == ["high", 1, 2]
    with pytest.raises(TimeoutError, match="no item came into 'default/inbox' in time"):
        inbox.get(0.01)
    assert [(each.name, each.type) for each in feeds.list()] == [
        ("board", "sorted"),
        ("inbox", "queue"),
        ("news", "feed"),
    ]
    assert feeds.configure("news", items_max=6).items_max == news.config().items_max == 6
    assert feeds.describe("nobody") is None
    with pytest.raises(Refused):
        feeds.create("news")
    feeds.delete("news")
    assert [each.name for each in feeds.list()] == ["board", "inbox"]


def test_a_subscription_is_iterated_by_a_thread_and_resumed(feeds: BlockingFeeds, url: str) -> None:
    """KB9: items, changes and the end; one fetch for many changes."""
    news = feeds.feed("news")
    news.publish_many(range(3), ids=list("abc"))
    with ThreadPoolExecutor(1) as threads, news.subscribe(heartbeat="20s") as subscription:
        first = [next(subscription) for _ in range(4)]
        waiting = threads.submit(next, subscription)
        with BlockingFeeds(url) as others:
            others.feed("news").publish_many(range(20), ids=[f"{number}" for number in range(20)])
        changes = [waiting.result(), *subscription.batch()]
        while len(changes) < 20:
            changes += subscription.batch()
        cursor = subscription.cursor
        feeds.delete("news")
        end = list(subscription)

    assert summaries(first) == ["present a", "present b", "present c", "live"]
    assert summaries(changes) == [f"published {number}" for number in range(20)]
    assert cursor == changes[-1].cursor
    assert summaries(end) == ["deleted"]
    assert (summaries(news.subscribe(cursor=changes[18].cursor).batch()), subscription.batch()) == (["deleted"], [])


def test_the_directory_and_the_events_of_a_queue_are_followed_as_well(feeds: BlockingFeeds, url: str) -> None:
    """K31, KB14; own=False leaves out the changes of this instance."""
    with feeds.subscribe(own=False) as directory, feeds.queue_events("mail").subscribe() as events:
        assert (summaries(directory.batch()), summaries(events.batch())) == (["live"], ["live"])

        feeds.create("mine")
        with BlockingFeeds(url) as others, BlockingClient(url) as client:
            others.create("theirs")
            client.enqueue("send", id="a", queue="mail")

        assert summaries([next(directory)]) == ["created theirs"]
        assert summaries([next(events)]) == ["enqueued a"]


def test_feeds_and_subscriptions_are_pickled_and_go_on_where_they_were(url: str) -> None:
    with BlockingFeeds(url) as feeds:
        news = feeds.feed("news")
        subscription = news.subscribe()
        next(subscription)
        news.publish_many([1, 2], ids=["a", "b"])
        next(subscription)

        there, carried = pickle.loads(pickle.dumps((news, subscription)))  # noqa: S301 - our own

        assert there.ids() == ["a", "b"]
        assert summaries([next(carried), next(subscription)]) == ["published b", "published b"]
        carried.close()
        there._feeds.close()
    with pytest.raises(StoreUnavailable, match="this client was closed"):
        news.ids()
    BACKGROUND.stop()


def test_blocking_feeds_have_the_methods_of_feeds() -> None:
    def methods(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")} - {"close", "aclose", "async_type"}

    assert methods(BlockingFeeds) - {"run"} == methods(Feeds) - {"from_context"}
    assert methods(BlockingFeed) == methods(Feed)
    assert methods(BlockingSortedFeed) == methods(SortedFeed)
    assert methods(BlockingItemQueue) == methods(ItemQueue) - {"take", "give_back", "settled"}
    assert methods(BlockingSubscription) == methods(Subscription) - {"move_to"}


def test_a_store_in_memory_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(BadConfig, match="lives on one event loop"):
        BlockingFeeds("memory://")


@pytest.mark.parametrize("program", ["forks", "interrupt_waits"])
def test_waits_go_on_after_a_fork_and_after_ctrl_c(program: str, url: str) -> None:
    """KB1, KB9: nothing is lost and nothing comes twice, from a subscription and from an item queue."""
    run_program(program, url)
