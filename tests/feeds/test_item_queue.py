"""Item queues: first in, first out, each item to exactly one get, whichever is cancelled."""

import asyncio
import random

import pytest

from headrace import Feeds, OutcomeUnknown, Refused, Store
from headrace.testing import FaultyStore
from tests.feeds.changes import EVERYWHERE, SOON_S


async def test_items_come_out_as_they_were_put_in_and_high_ones_first(feeds: Feeds) -> None:
    """K17, K18, K19, KB16: also nothing, put as an item."""
    inbox = await feeds.item_queue("inbox")

    ids = [await inbox.put("a"), await inbox.put(None), *await inbox.put_many([{"c": 3}, 4])]
    high = [await inbox.put("high", high=True), await inbox.put("higher", high=True)]

    assert await inbox.ids() == [*reversed(high), *ids]
    assert [await inbox.get() for _ in range(6)] == ["higher", "high", "a", None, {"c": 3}, 4]
    assert (await inbox.count(), await inbox.total(), await inbox.ids()) == (0, 6, [])


async def test_a_get_that_finds_nothing_in_time_says_so(feeds: Feeds) -> None:
    """K18, KB16: with 0, get checks once."""
    inbox = await feeds.item_queue("inbox")

    for timeout in (0, "20ms"):
        with pytest.raises(TimeoutError, match="no item came into 'default/inbox' in time; wait longer"):
            await inbox.get(timeout)
    await inbox.put(1)

    assert await inbox.get(0) == 1


async def test_a_get_waits_for_an_item_of_another_instance(feeds: Feeds, others: Feeds) -> None:
    """K18: in the order in which they came."""
    inbox = await feeds.item_queue("inbox")
    waiting = [asyncio.ensure_future(inbox.get("20s")) for _ in range(3)]
    await asyncio.sleep(0)

    await (await others.item_queue("inbox")).put_many("abc")

    assert await asyncio.gather(*waiting) == ["a", "b", "c"]


@pytest.mark.parametrize("store", EVERYWHERE, indirect=True)
async def test_each_item_is_got_once_although_gets_are_cancelled_at_random(store: Store) -> None:
    """K18, KB1: nothing is lost, nothing is handed out twice; from two instances and stores at once."""
    chance = random.Random(3)
    queues = [await Feeds(store, instance=name).item_queue("inbox") for name in ("one", "two")]
    got: list[int] = []
    left = 200

    async def get(number: int) -> None:
        nonlocal left
        while left:
            asking = asyncio.ensure_future(queues[number % 2].get(chance.choice([0, "5ms", None])))
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            if chance.random() < 0.5 or not left:
                asking.cancel()
            done, _ = await asyncio.wait([asking], timeout=0.05)
            if not done:
                asking.cancel()
            try:
                got.append(await asking)
                left -= 1
            except (asyncio.CancelledError, TimeoutError):
                pass

    async def put() -> None:
        for start in range(0, 200, 4):
            await queues[0].put_many(range(start, start + 4))
            await asyncio.sleep(0)

    async with asyncio.timeout(2 * SOON_S):
        await asyncio.gather(put(), *(get(number) for number in range(10)))
        await queues[0].settled()

    assert sorted(got) == list(range(200))
    assert await queues[0].count() == 0


async def test_an_item_taken_for_a_cancelled_get_goes_back_to_the_front(faulty: FaultyStore) -> None:
    """KB1: under its id, before those that were behind it."""
    inbox = await Feeds(faulty).item_queue("inbox")
    ids = await inbox.put_many("abcd")
    hold = faulty.hold("take")
    waiting = [asyncio.ensure_future(inbox.get()) for _ in range(3)]

    await hold.reached()
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    hold.release()
    await inbox.settled()

    assert await inbox.ids() == ids
    assert [await inbox.get(0) for _ in range(4)] == list("abcd")


async def test_an_item_taken_for_a_cancelled_get_goes_to_the_next_get(faulty: FaultyStore) -> None:
    inbox = await Feeds(faulty).item_queue("inbox")
    await inbox.put("a")
    hold = faulty.hold("take")
    gone, waits = asyncio.ensure_future(inbox.get()), asyncio.ensure_future(inbox.get())

    await hold.reached()
    gone.cancel()
    hold.release()

    async with asyncio.timeout(SOON_S):
        assert await waits == "a"
    assert faulty.calls["items.publish"] == 1


async def test_an_item_that_does_not_fit_back_is_kept_for_the_next_one(faulty: FaultyStore) -> None:
    inbox = await Feeds(faulty).item_queue("inbox", items_max=1)
    await inbox.put("a")
    item = await inbox.take(0)
    await inbox.put("c")
    back = asyncio.ensure_future(inbox.give_back(item))
    await faulty.called("items.publish", 3)

    async with asyncio.timeout(SOON_S):
        assert {await inbox.get(), await inbox.get()} == {"a", "c"}
        await back


async def test_a_hundred_waiting_gets_cost_the_store_as_much_as_one(faulty: FaultyStore) -> None:
    inbox = await Feeds(faulty).item_queue("inbox")
    waiting = [asyncio.ensure_future(inbox.get()) for _ in range(100)]
    await faulty.called("signals.changed")
    faulty.calls.clear()

    await inbox.put(1)
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=SOON_S)
    await faulty.called("signals.changed")

    assert (len(done), len(pending)) == (1, 99)
    assert faulty.calls["items.take"] == 1
    for each in pending:
        each.cancel()
    await asyncio.wait(pending)


async def test_a_get_waits_through_an_outage_and_names_it_at_its_timeout(faulty: FaultyStore) -> None:
    feeds = Feeds(faulty)
    inbox, other = await feeds.item_queue("inbox"), await feeds.item_queue("other")
    waiting = asyncio.ensure_future(inbox.get())
    await faulty.called("signals.changed")
    faulty.fail("signals.changed", "take", times=3)

    with faulty.down(), pytest.raises(TimeoutError, match="the store did not answer in time: the store is away"):
        await other.get(0)
    await inbox.put("a")

    async with asyncio.timeout(SOON_S):
        assert await waiting == "a"


async def test_a_lost_answer_fails_the_get_that_may_have_got_an_item(faulty: FaultyStore) -> None:
    inbox = await Feeds(faulty).item_queue("inbox")
    await inbox.put_many("ab")
    faulty.lose("take")

    with pytest.raises(OutcomeUnknown):
        await inbox.get()

    assert await inbox.get(0) == "b"


async def test_a_get_is_refused_when_the_queue_is_deleted_meanwhile(
    faulty: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.feeds.item_queue.FEED_LOOK_MS", 20)
    feeds = Feeds(faulty)
    inbox = await feeds.item_queue("inbox")
    waiting = asyncio.ensure_future(inbox.get())
    await faulty.called("signals.changed")

    await feeds.delete("inbox")

    async with asyncio.timeout(SOON_S):
        with pytest.raises(Refused, match="there is no feed 'default/inbox'"):
            await waiting
