"""Item queues: items are put, and each is handed out once, oldest first unless it was put in front."""

import asyncio

from headrace.model.feed import FIRST, LAST, Item, ItemPosition, Publication
from headrace.model.results import Published
from headrace.stores.open import open_store
from tests.support.feed_play import FeedPlay, refused


async def test_items_come_out_in_the_order_in_which_they_were_put(feed: FeedPlay) -> None:
    """K17, K18, KB16: first in, first out, with what was put and when."""
    await feed.create("queue")
    for number, id in enumerate("cab"):
        await feed.publish(id, id.encode())
        assert (await feed.state()).items == number + 1
        feed.advance(3)

    taken = [await feed.store.items.take(feed.name, now_ms=feed.now_ms) for _ in range(3)]

    assert [*taken] == [[Item(id, id.encode(), feed.now_ms - 9 + 3 * number)] for number, id in enumerate("cab")]
    assert await feed.ids() == []


async def test_items_put_first_are_taken_next_the_last_of_them_first(feed: FeedPlay) -> None:
    """K17, KB16: high priority goes past everything that waits."""
    await feed.create("queue")
    await feed.put("a", "b")

    await feed.put("x", "y", position=FIRST)
    await feed.put("c", position=LAST)
    await feed.put("z", position=FIRST)

    assert await feed.ids() == ["z", "y", "x", "a", "b", "c"]
    assert [await feed.take() for _ in range(6)] == [["z"], ["y"], ["x"], ["a"], ["b"], ["c"]]


async def test_every_put_counts_towards_the_total(feed: FeedPlay) -> None:
    """K17, KB17: in front as well; what was taken still counts."""
    await feed.create("queue")

    await feed.put("a", "b")
    await feed.put("c", position=FIRST)
    await feed.take(2)

    state = await feed.state()
    assert (state.total, state.items) == (3, 1)


async def test_the_log_of_an_item_queue_has_no_items(feed: FeedPlay) -> None:
    """K17: no event for items; changes of the queue itself are logged."""
    await feed.create("queue")
    await feed.put("a", "b", "c")
    await feed.take()
    await feed.retract("b")
    await feed.configure(items_max=9)
    await feed.put("d", position=FIRST)

    assert await feed.events() == ["created", "configured"]
    assert (await feed.state()).cursor.seq == 2


async def test_several_items_are_taken_at_once_up_to_the_limit(feed: FeedPlay) -> None:
    """K18: in their order, and no more than there are."""
    await feed.create("queue")
    await feed.put(*"abcde")

    taken = [await feed.take(2), await feed.take(1_000), await feed.take(5)]

    assert taken == [["a", "b"], ["c", "d", "e"], []]


async def test_taking_ends_once_four_mebibytes_are_in_hand(feed: FeedPlay) -> None:
    await feed.create("queue")
    for number in range(17):
        await feed.publish(f"{number:02}", bytes(256 * 1024))

    taken = [len(await feed.take(1_000)), len(await feed.take(1_000))]

    assert taken == [16, 1]


async def test_taking_from_an_empty_queue_is_an_answer(feed: FeedPlay) -> None:
    """K18, KB16: an empty queue is fine, before the first item and after the last."""
    await feed.create("queue")

    before = await feed.take()
    await feed.put("a")
    await feed.take()
    after = await feed.take(10)

    assert (before, after, (await feed.state()).items) == ([], [], 0)


async def test_nothing_of_an_item_stays_in_the_queue_that_has_handed_it_out(feed: FeedPlay) -> None:
    """KB1: taking is one step, so there is no item that is neither in the queue nor taken."""
    await feed.create("queue")
    await feed.put("a", "b")

    [taken] = await feed.take()

    assert taken == "a"
    assert (await feed.item("a"), await feed.ids(), (await feed.state()).items) == (None, ["b"], 1)
    assert await feed.retract("a") == ["not_found"]
    assert (await feed.publish("a")).status == "published"


async def test_every_item_goes_to_one_of_many_concurrent_callers(feed: FeedPlay) -> None:
    """K18, KB1: none twice and none lost, while others still put."""
    await feed.create("queue")
    ids = [f"{number:03}" for number in range(60)]
    await feed.put(*ids[:30])

    async def drain() -> list[str]:
        taken: list[str] = []
        while found := await feed.take(2):
            taken += found
        return taken

    drained = asyncio.gather(*[drain() for _ in range(6)])
    for id in ids[30:]:
        await feed.put(id)
    found = [id for each in await drained for id in each] + await feed.take(1_000)

    assert sorted(found) == ids
    assert (await feed.state()).items == 0


async def test_every_item_is_handed_to_one_of_two_handles_of_the_store(feed: FeedPlay, shared_url: str) -> None:
    """K18, KB1: also when they are opened apart."""
    await feed.create("queue")
    ids = [f"{number:03}" for number in range(100)]
    await feed.put(*ids)
    store = await open_store(shared_url)
    other = FeedPlay(store)

    taken = await asyncio.gather(*[each.take(3) for _ in range(20) for each in (feed, other)])
    await store.close()

    assert sorted(id for each in taken for id in each) == ids
    for each in taken:
        assert each == sorted(each)


async def test_an_id_that_is_in_line_is_not_put_twice(feed: FeedPlay) -> None:
    """It is free again once it was taken or retracted."""
    await feed.create("queue")
    await feed.publish("a", b"first")

    again = await feed.publish("a", b"second", FIRST)
    item = await feed.item("a")
    await feed.take()
    after = await feed.publish("a", b"third")

    assert (again, after) == (Published("a", "known"), Published("a", "published"))
    assert (item and item.item, (await feed.state()).total) == (b"first", 2)


async def test_a_full_queue_refuses_more_until_something_is_taken(feed: FeedPlay) -> None:
    """It loses nothing by itself: neither what waits nor what comes."""
    await feed.create("queue", items_max=2)

    statuses = await feed.put("a", "b", "c")
    in_front = await feed.put("d", position=FIRST)
    await feed.take()
    later = await feed.put("c")

    assert (statuses, in_front, later) == (["published", "published", "full"], ["full"], ["published"])
    assert await feed.ids() == ["b", "c"]


async def test_items_of_an_item_queue_can_be_listed_and_retracted(feed: FeedPlay) -> None:
    """K19: the ids in the order in which they will be taken."""
    await feed.create("queue")
    await feed.put("a", "b", "c")
    await feed.put("x", position=FIRST)

    statuses = await feed.retract("b", "nobody")
    pages = await feed.pages(limit=2)

    assert statuses == ["retracted", "not_found"]
    assert [[each.id for each in page.rows] for page in pages] == [["x", "a"], ["c"]]
    assert await feed.item("a") == Item("a", b"1", feed.now_ms)
    assert await feed.take(10) == ["x", "a", "c"]


async def test_an_item_queue_edits_and_moves_nothing_and_only_it_hands_out(feed: FeedPlay) -> None:
    """K18, KB16: what cannot be is refused before anything is stored."""
    await feed.create("queue")
    await feed.put("a")
    before = await feed.snapshot()
    others = FeedPlay(feed.store, name="feed"), FeedPlay(feed.store, name="board")
    reasons = [
        await refused(feed.edit("a")),
        await refused(feed.move("a", FIRST)),
        await refused(feed.publish("b", position=ItemPosition("before", "a"))),
        await refused(feed.publish_all(Publication(b"1", "b"), Publication(b"1", "c", ItemPosition("after", "a")))),
    ]
    after = await feed.snapshot()

    await others[0].create("feed")
    await others[1].create("sorted")
    for other in others:
        await other.publish("a")
        reasons.append(await refused(other.take()))

    assert reasons == ["wrong_type"] * 6
    assert after == before
    assert [await other.ids() for other in others] == [["a"], ["a"]]
