"""The hub of a queue's events: one reader of the journals for all subscribers of an event loop."""

import asyncio
from random import Random

import pytest

from headrace import Client, Feeds, Queue, Store
from headrace.feeds import log_hub, queue_hub
from headrace.feeds.queue_events import QueueSubscription
from headrace.testing import FaultyStore
from tests.feeds.changes import SOON_S, summaries, take, take_until

SUBSCRIBERS = 300


def hubs() -> int:
    """Those of the running event loop."""
    return sum(key[0] is asyncio.get_running_loop() for key in log_hub._HUBS)


async def send(store: Store, queue: Queue, *ids: str) -> None:
    """Enqueue jobs, each by a call and so an entry of its own."""
    client = Client(store)
    for id in ids:
        await client.enqueue("send", id=id, queue=queue)


async def close(*subscriptions: QueueSubscription) -> None:
    """Close subscriptions."""
    for each in subscriptions:
        await each.aclose()


async def test_hundreds_of_subscribers_cost_the_store_as_much_as_one(faulty: FaultyStore) -> None:
    """And they share the changes themselves."""
    queue = Queue("mail", shards=3)
    subscriptions = [Feeds(faulty).queue_events(queue).subscribe() for _ in range(SUBSCRIBERS)]
    faulty.calls.clear()

    async with asyncio.timeout(SOON_S):
        starts = await asyncio.gather(*(anext(each) for each in subscriptions))
        waiting = [asyncio.ensure_future(anext(each)) for each in subscriptions]
        await faulty.called("journal.all_bounds")
        started = faulty.calls.total()
        await send(faulty, queue, "a")
        changes = await asyncio.gather(*waiting)
    reads = faulty.calls["journal.all_bounds"] + faulty.calls["journal.read"]
    there = hubs()
    await close(*subscriptions)

    assert {change.event for change in starts} == {"live"}
    assert {id(change) for change in changes} == {id(changes[0])}
    assert summaries(changes[:1]) == ["enqueued a"]
    assert started <= 40
    assert reads <= 80
    assert (there, hubs()) == (1, 0)


async def test_the_last_subscriber_that_leaves_stops_the_reader(faulty: FaultyStore) -> None:
    one, two = (Feeds(faulty).queue_events("mail").subscribe() for _ in range(2))
    for each in (one, two):
        await take_until(each, "live")
    waiting = asyncio.ensure_future(anext(one))
    await faulty.called("journal.all_bounds")
    await faulty.called("journal.all_bounds")

    await two.aclose()
    there = hubs()
    await one.aclose()
    await asyncio.gather(waiting, return_exceptions=True)
    readers = [task for task in asyncio.all_tasks() if task.get_name() == "headrace-feed"]
    if readers:
        await asyncio.wait(readers, timeout=SOON_S)

    assert (there, hubs()) == (1, 0)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "headrace-feed"] == []


async def test_events_before_a_subscription_are_not_shown_although_the_reader_is_behind(faulty: FaultyStore) -> None:
    queue = Queue("mail")
    first = Feeds(faulty).queue_events(queue).subscribe()
    await take_until(first, "live")
    waiting = asyncio.ensure_future(anext(first))
    await asyncio.sleep(0)
    await send(faulty, queue, "before")

    second = Feeds(faulty).queue_events(queue).subscribe()
    start = await take(second, 1)
    await send(faulty, queue, "after")
    changes = await take(second, 1)

    assert summaries([*start, *changes]) == ["live", "enqueued after"]
    assert summaries([await waiting]) == ["enqueued before"]
    await close(first, second)


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_subscriber_at_any_event_joins_the_reader_without_a_gap(faulty: FaultyStore, shards: int) -> None:
    queue = Queue("mail", shards=shards)
    events = Feeds(faulty).queue_events(queue)
    leader = events.subscribe()
    await take_until(leader, "live")
    await send(faulty, queue, *(f"old-{number}" for number in range(10)))
    changes = await take(leader, 10)

    followers = [events.subscribe(cursor=change.cursor) for change in changes]
    seen = [summaries(await take(each, 9 - at)) for at, each in enumerate(followers)]
    await send(faulty, queue, "new")
    news = await asyncio.gather(*(take(each, 1) for each in (leader, *followers)))
    there = hubs()
    await close(leader, *followers)

    expected = summaries(changes)
    assert [sorted(each) for each in seen] == [sorted(expected[at + 1 :]) for at in range(10)]
    assert {summaries(each)[0] for each in news} == {"enqueued new"}
    assert there == 1


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_slow_subscriber_misses_nothing_when_the_reader_keeps_little(
    faulty: FaultyStore, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reader no longer keeps is read again, by the slow one alone."""
    monkeypatch.setattr(queue_hub, "HUB_CHANGES_MAX", 5)
    queue = Queue("mail", shards=shards)
    fast, slow = (Feeds(faulty).queue_events(queue).subscribe() for _ in range(2))
    for each in (fast, slow):
        await take_until(each, "live")

    for number in range(60):
        await send(faulty, queue, f"{number}")
        await take(fast, 1)
    [hub] = [each for key, each in log_hub._HUBS.items() if key[0] is asyncio.get_running_loop()]
    changes = await take(slow, 60)
    await send(faulty, queue, "new")
    news = [await take(fast, 1), await take(slow, 1)]

    assert isinstance(hub, queue_hub.QueueHub)
    assert len(hub._places) <= 12
    assert sorted(summaries(changes)) == sorted(f"enqueued {number}" for number in range(60))
    for shard in queue.all_shards():
        own = [change.seq for change in changes if queue.shard_of(change.id) == shard]
        assert own == sorted(own)
    assert [summaries(each) for each in news] == [["enqueued new"]] * 2
    assert news[0][0] is news[1][0]
    await close(fast, slow)


async def test_subscribers_that_come_and_go_at_random_see_every_event_once(faulty: FaultyStore) -> None:
    """Whatever they read themselves and whatever the reader gave them."""
    random = Random(7)
    queue = Queue("mail", shards=3)
    events = Feeds(faulty).queue_events(queue)
    cursors: list[str | None] = [(await take(events.subscribe(), 1))[0].cursor] * 8
    seen: list[list[str]] = [[] for _ in cursors]
    total = 0
    for _ in range(30):
        fresh = [f"{total + number}" for number in range(random.randint(0, 6))]
        total += len(fresh)
        await send(faulty, queue, *fresh)
        for at in random.sample(range(len(cursors)), 3):
            subscription = events.subscribe(cursor=cursors[at])
            count = random.randint(0, total - len(seen[at]))
            changes = await take(subscription, count)
            seen[at] += [change.id for change in changes]
            cursors[at] = changes[-1].cursor if changes else cursors[at]
            if random.random() < 0.5:
                await subscription.aclose()
    for at, cursor in enumerate(cursors):
        changes = await take(events.subscribe(cursor=cursor), total - len(seen[at]))
        seen[at] += [change.id for change in changes]

    assert [sorted(each, key=int) for each in seen] == [[f"{number}" for number in range(total)]] * len(cursors)
