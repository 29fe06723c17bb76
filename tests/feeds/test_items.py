"""Feeds and sorted feeds: publish, edit, move and retract, and the items afterwards."""

from typing import Any

import pytest
from msgspec import Struct

from headrace import RAW, Feeds, OutcomeUnknown, Refused, Store, StoreUnavailable
from headrace.model.limits import ITEM_BYTES_MAX
from headrace.testing import FaultyStore
from tests.feeds.changes import summaries, take, take_until


class Offer(Struct):
    """An item with a type of its own."""

    name: str
    price: int


async def test_a_feed_keeps_items_in_the_order_of_publication(feeds: Feeds) -> None:
    """K6, K10: under the given id, or a fresh one; counted."""
    news = await feeds.feed("news")

    fresh = await news.publish({"a": 1})
    await news.publish(None, id="b")
    many = await news.publish_many(["c", 4.5])
    named = await news.publish_many([1, 2], ids=["x", "y"])

    ids = [fresh, "b", *many, "x", "y"]
    assert (len(set(ids)), named) == (6, ["x", "y"])
    assert await news.ids() == ids
    assert list((await news.items()).items()) == list(zip(ids, [{"a": 1}, None, "c", 4.5, 1, 2], strict=True))
    assert (await news.item(fresh), await news.item("nobody"), await news.has("b"), await news.has("c")) == (
        {"a": 1},
        None,
        True,
        False,
    )
    assert (await news.count(), await news.total()) == (6, 6)


async def test_a_known_id_is_edited_and_goes_last_and_beyond_the_bound_the_oldest_go(feeds: Feeds) -> None:
    """K7, K8, K9, KB7: an edit evicts nothing; the changes say so in that order."""
    news = await feeds.feed("news", items_max=3)
    subscription = news.subscribe()
    await take_until(subscription, "live")

    await news.publish_many([1, 2, 3], ids=["a", "b", "c"])
    await news.publish("again", id="a")
    before = await news.ids()
    await news.publish(4, id="d")
    retracted = [await news.retract("c"), await news.retract("c")]

    changes = await take(subscription, 7)
    assert before == ["b", "c", "a"]
    assert await news.items() == {"a": "again", "d": 4}
    assert retracted == [True, False]
    assert summaries(changes[3:]) == ["edited a", "published d", "retracted b", "retracted c"]
    assert [change.reason for change in changes[5:]] == ["count", None]
    assert [change.item for change in changes[3:]] == ["again", 4, None, None]


async def test_an_edit_of_a_missing_item_is_refused(feeds: Feeds) -> None:
    """K13: also in a sorted feed, where it keeps its position."""
    news, board = await feeds.feed("news"), await feeds.sorted("board")
    ids = await board.publish_many("abc")

    await board.edit(ids[1], "B")
    for feed in (news, board):
        with pytest.raises(Refused, match="holds no item 'nobody'") as refused:
            await feed.edit("nobody", 1)
        assert refused.value.reason == "unknown_item"

    assert list((await board.items()).values()) == ["a", "B", "c"]


async def test_a_sorted_feed_keeps_the_order_of_puts_and_moves(feeds: Feeds) -> None:
    """K11, K12, K14, K15, K16, KB8, KB11: ids are numbers, a refusal draws none, and the changes name the positions."""
    board = await feeds.sorted("board")
    subscription = board.subscribe()
    await take_until(subscription, "live")

    one, two = await board.append("one"), await board.prepend("two")
    three = await board.before(one, "three")
    with pytest.raises(Refused) as neighbour:
        await board.before("nobody", "lost")
    four = await board.after(two, "four", id="four")
    moved = [
        await board.move(one, first=True),
        await board.move(one, before=one),
        await board.move(two, last=True),
        await board.move(two, after=three),
        await board.move(four, before=two),
    ]

    changes = await take(subscription, 7)
    assert (one, two, three, four) == ("1", "2", "3", "four")
    assert neighbour.value.reason == "unknown_neighbour"
    assert moved == [True, False, True, False, True]
    assert await board.ids() == ["1", "3", "four", "2"]
    assert summaries(changes) == [
        "published 1",
        "published 2",
        "published 3",
        "published four",
        "moved 1",
        "moved 2",
        "moved four",
    ]
    positions = [(change.position.where, change.position.id) for change in changes if change.position is not None]
    assert positions == [
        ("last", None),
        ("first", None),
        ("before", "1"),
        ("after", "2"),
        ("first", None),
        ("last", None),
        ("before", "2"),
    ]


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        ({}, "bad_position"),
        ({"first": True, "last": True}, "bad_position"),
        ({"before": "nobody"}, "unknown_neighbour"),
    ],
)
async def test_a_move_needs_exactly_one_existing_position(feeds: Feeds, position: dict[str, Any], reason: str) -> None:
    """K15."""
    board = await feeds.sorted("board")
    id = await board.append(1)

    with pytest.raises(Refused) as refused:
        await board.move(id, **position)
    with pytest.raises(Refused) as unknown:
        await board.move("nobody", first=True)

    assert (refused.value.reason, unknown.value.reason) == (reason, "unknown_item")


async def test_a_sorted_feed_that_is_full_says_so_and_how_far_it_got(feeds: Feeds) -> None:
    board = await feeds.sorted("board", items_max=2)

    with pytest.raises(Refused, match="2 items were published, then 'default/board' is full") as refused:
        await board.publish_many("abc")

    assert refused.value.reason == "full"
    assert list((await board.items()).values()) == ["a", "b"]


async def test_items_are_read_as_the_requested_type(feeds: Feeds, store: Store) -> None:
    """Also with another codec; an item of another type is refused when it is read, and the next one follows."""
    news = await feeds.feed("news")
    subscription = news.subscribe(type=Offer)
    await take_until(subscription, "live")

    await news.publish(Offer("mill", 7), id="a")
    await news.publish("no offer", id="b")
    await news.publish(Offer("race", 9), id="c")

    changes = await take(subscription, 3)
    raw = await Feeds(store, codec=RAW).feed("news")
    assert (changes[0].item, changes[2].item) == (Offer("mill", 7), Offer("race", 9))
    with pytest.raises(Refused, match="not the expected JSON"):
        _ = changes[1].item
    assert changes[1].raw == b'"no offer"'
    assert await news.item("a", type=Offer) == Offer("mill", 7)
    assert await raw.item("b") == b'"no offer"'


async def test_ids_and_items_of_any_text_come_back_as_they_were(feeds: Feeds) -> None:
    """KB18, K30: NUL, newlines, colons, braces and characters of four bytes."""
    news, odd = await feeds.feed("news"), "\0:{a}\n}:\0 🌊"
    subscription = news.subscribe()
    await take_until(subscription, "live")

    await news.publish(odd, id=odd)
    [change] = await take(subscription, 1)

    assert (change.id, change.item) == (odd, odd)
    assert await news.items() == {odd: odd}
    with pytest.raises(Refused) as refused:
        await news.publish("x" * ITEM_BYTES_MAX)
    assert refused.value.reason == "item_too_large"


async def test_many_items_go_in_few_calls_of_a_bounded_size(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")

    small = await news.publish_many(range(2_500))
    few = faulty.calls["items.publish"]
    await news.publish_many(["x" * 200_000] * 40)

    assert (len(set(small)), few) == (2_500, 3)
    assert faulty.calls["items.publish"] - few == 2
    with pytest.raises(Refused, match="2 items and 1 ids were given"):
        await news.publish_many([1, 2], ids=["a"])


async def test_publish_many_names_the_published_items_when_the_store_fails_midway(faulty: FaultyStore) -> None:
    news = await Feeds(faulty).feed("news")
    ids = [f"{number}" for number in range(1_500)]
    hold = faulty.hold("items.publish")
    hold.release()
    faulty.lose("items.publish")

    with pytest.raises(OutcomeUnknown, match="1,000 items were published") as caught:
        await news.publish_many(ids, ids=ids)
    with faulty.down(), pytest.raises(StoreUnavailable):
        await news.publish_many(ids, ids=ids)

    assert (caught.value.known, caught.value.unknown) == (tuple(ids[:1_000]), tuple(ids[1_000:]))
    await news.publish_many(caught.value.unknown, ids=caught.value.unknown)
    assert await news.ids() == ids
