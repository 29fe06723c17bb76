"""Sorted feeds: items stand where they were put, at an end or beside another, and can be moved."""

from headrace.model.feed import FIRST, LAST, Item, ItemPosition, Move, Publication
from headrace.model.limits import RANK_CHARS_MAX
from headrace.model.results import Published
from tests.support.feed_play import FeedPlay, refused


def before(id: str) -> ItemPosition:
    """The position before an item."""
    return ItemPosition("before", id)


def after(id: str) -> ItemPosition:
    """The position behind an item."""
    return ItemPosition("after", id)


# Places.


async def test_items_go_to_the_end_the_beginning_or_next_to_another(feed: FeedPlay) -> None:
    """K11, K12, K14: each is logged as published, with its position."""
    await feed.create("sorted")
    positions = {
        "m": LAST,
        "z": LAST,
        "a": FIRST,
        "l": before("m"),
        "n": after("m"),
        "zz": after("z"),
        "aa": before("a"),
    }

    for id, position in positions.items():
        assert await feed.publish(id, id.encode(), position) == Published(id, "published")

    assert await feed.ids() == ["aa", "a", "l", "m", "n", "z", "zz"]
    changes = (await feed.changes())[1:]
    assert {each.id: each.position for each in changes} == positions
    assert [(each.event, each.item) for each in changes] == [("published", id.encode()) for id in positions]
    assert (await feed.state()).total == 7


async def test_the_first_item_may_go_to_either_end(feed: FeedPlay) -> None:
    """K12: an empty feed has both."""
    for name, position in (("one", FIRST), ("two", LAST)):
        board = FeedPlay(feed.store, name=name)
        await board.create("sorted")
        await board.publish("a", position=position)
        assert await board.ids() == ["a"]


async def test_items_without_an_id_get_the_next_number(feed: FeedPlay) -> None:
    """K11: across calls and inside one, at whatever position; a retracted number is not drawn again."""
    await feed.create("sorted")

    first = await feed.publish(None, b"x")
    batch = await feed.publish_all(
        Publication(b"y"), Publication(b"z", position=FIRST), Publication(b"w", position=before("2"))
    )
    await feed.retract("4")
    last = await feed.publish(None)

    assert [answer.id for answer in (first, *batch, last)] == ["1", "2", "3", "4", "5"]
    assert await feed.items() == {"3": b"z", "1": b"x", "2": b"y", "5": b"1"}
    assert await feed.events() == [
        "created",
        "published 1",
        "published 2",
        "published 3",
        "published 4",
        "retracted 4",
        "published 5",
    ]


async def test_a_number_used_as_an_id_is_never_drawn_for_another_item(feed: FeedPlay) -> None:
    """K11: also an explicit id far ahead; other texts do not count."""
    await feed.create("sorted")

    await feed.put("007", "a", "-3", "1.5", "٣", "2")
    drawn = [(await feed.publish(None)).id]
    await feed.put("9", "5")
    drawn.append((await feed.publish(None)).id)
    await feed.put(str(10**15), str(2**53))
    drawn.append((await feed.publish(None)).id)

    assert drawn == ["3", "10", "11"]
    assert (await feed.state()).items == len(await feed.ids()) == 13


async def test_without_numbers_left_none_is_drawn_and_explicit_ids_still_work(feed: FeedPlay) -> None:
    await feed.create("sorted")
    await feed.put(str(10**15 - 2))

    drawn = [await feed.publish(None) for _ in range(2)]
    await feed.put("explicit")

    assert [(each.id, each.status) for each in drawn] == [(str(10**15 - 1), "published"), (None, "full")]
    assert await feed.ids() == [str(10**15 - 2), str(10**15 - 1), "explicit"]


async def test_next_to_an_unknown_item_nothing_is_published_and_no_number_is_drawn(feed: FeedPlay) -> None:
    """K14, KB11: the answer names no id, since there is none."""
    await feed.create("sorted")
    await feed.publish(None)
    unchanged = await feed.snapshot()

    answers = [
        await feed.publish(None, position=before("nobody")),
        await feed.publish(None, position=after("nobody")),
        await feed.publish("a", position=before("nobody")),
        await feed.publish("1", b"new", after("nobody")),
        await feed.publish("a", position=before("a")),
    ]
    changed = await feed.snapshot()
    drawn = await feed.publish(None)

    assert answers == [Published(id, "unknown_neighbour") for id in (None, None, "a", "1", "a")]
    assert changed == unchanged
    assert drawn.id == "2"


async def test_a_batch_may_put_items_next_to_its_own_items(feed: FeedPlay) -> None:
    """In order: later items of the batch do not exist yet."""
    await feed.create("sorted")

    answers = await feed.publish_all(
        Publication(b"1", "b", after("a")),
        Publication(b"1", "a"),
        Publication(b"1", "b", before("a")),
        Publication(b"1", "c", after("b")),
    )

    assert [answer.status for answer in answers] == ["unknown_neighbour", "published", "published", "published"]
    assert await feed.ids() == ["b", "c", "a"]


async def test_a_full_sorted_feed_refuses_more_and_takes_it_when_something_leaves(feed: FeedPlay) -> None:
    """K16, KB11: it evicts nothing by itself; an edit needs no room, and a refusal burns no number."""
    await feed.create("sorted", items_max=2)

    statuses = await feed.put("a", "b", "c", "a")
    refused_one = await feed.publish(None)
    await feed.retract("b")
    drawn = await feed.publish(None)

    assert statuses == ["published", "published", "full", "edited"]
    assert refused_one == Published(None, "full")
    assert drawn == Published("1", "published")
    assert await feed.ids() == ["a", "1"]


# Editing.


async def test_an_edit_replaces_the_item_and_keeps_its_position(feed: FeedPlay) -> None:
    """K13: it counts as a publication; an unknown one is refused."""
    await feed.create("sorted")
    await feed.put("a", "b", "c")
    start = await feed.end()
    feed.advance(5)

    statuses = [await feed.edit("b", b"new"), await feed.edit("nobody", b"new")]

    assert statuses == ["edited", "unknown"]
    assert await feed.items() == {"a": b"1", "b": b"new", "c": b"1"}
    assert await feed.item("b") == Item("b", b"new", feed.now_ms)
    [change] = await feed.changes(start)
    assert (change.event, change.id, change.item, change.position) == ("edited", "b", b"new", None)
    state = await feed.state()
    assert (state.items, state.total) == (3, 4)


async def test_publishing_a_known_id_edits_it_and_moves_it_to_the_position(feed: FeedPlay) -> None:
    """`moved` follows `edited`, unless the item is at that position already."""
    await feed.create("sorted")
    await feed.put("a", "b", "c")
    start = await feed.end()

    first = await feed.publish("c", b"2", FIRST)
    again = await feed.publish("c", b"3", before("a"))
    beside_itself = await feed.publish("c", b"4", after("c"))

    assert {answer.status for answer in (first, again, beside_itself)} == {"edited"}
    assert await feed.items() == {"c": b"4", "a": b"1", "b": b"1"}
    changes = await feed.changes(start)
    assert [(each.event, each.item, each.position) for each in changes] == [
        ("edited", b"2", None),
        ("moved", b"2", FIRST),
        ("edited", b"3", None),
        ("edited", b"4", None),
    ]
    assert (await feed.state()).total == 6


# Moving.


async def test_an_item_moves_to_either_end_and_next_to_another(feed: FeedPlay) -> None:
    """K15: nothing else changes; the change carries item and position."""
    await feed.create("sorted")
    await feed.put("a", "b", "c", "d")
    start, at_ms = await feed.end(), feed.now_ms
    steps = [("c", FIRST, "cabd"), ("a", LAST, "cbda"), ("a", before("b"), "cabd"), ("c", after("b"), "abcd")]

    feed.advance(5)
    for id, position, order in steps:
        assert await feed.move(id, position) == "moved"
        assert "".join(await feed.ids()) == order

    changes = await feed.changes(start)
    assert [(each.event, each.id, each.item, each.position) for each in changes] == [
        ("moved", id, b"1", position) for id, position, _ in steps
    ]
    assert await feed.item("c") == Item("c", b"1", at_ms)
    state = await feed.state()
    assert (state.items, state.total) == (4, 4)


async def test_a_move_to_where_the_item_stands_changes_nothing(feed: FeedPlay) -> None:
    """K15, KB8: beside itself an item is where it is, and it is not lost."""
    await feed.create("sorted")
    await feed.put("a", "b", "c")
    unchanged = await feed.snapshot()

    moves = [
        *[("b", before("b")), ("b", after("b")), ("a", before("a")), ("c", after("c"))],
        *[("a", FIRST), ("c", LAST), ("b", before("c")), ("b", after("a")), ("a", before("b")), ("c", after("b"))],
    ]
    statuses = {await feed.move(id, position) for id, position in moves}

    assert statuses == {"unchanged"}
    assert await feed.snapshot() == unchanged


async def test_a_move_of_or_next_to_an_unknown_item_changes_nothing(feed: FeedPlay) -> None:
    """K15: two different answers."""
    await feed.create("sorted")
    await feed.put("a", "b")
    unchanged = await feed.snapshot()

    statuses = [
        await feed.move("nobody", FIRST),
        await feed.move("nobody", before("nobody")),
        await feed.move("a", after("nobody")),
        await feed.move("b", before("nobody")),
    ]

    assert statuses == ["unknown", "unknown", "unknown_neighbour", "unknown_neighbour"]
    assert await feed.snapshot() == unchanged


async def test_moves_of_a_batch_happen_in_order(feed: FeedPlay) -> None:
    await feed.create("sorted")
    await feed.put("a", "b", "c")

    moves = [Move("a", LAST), Move("b", LAST), Move("x", LAST), Move("b", after("a")), Move("c", after("a"))]
    answers = await feed.store.items.move(feed.name, moves, instance="me", now_ms=feed.now_ms)

    assert [answer.status for answer in answers] == ["moved", "moved", "unknown", "unchanged", "moved"]
    assert await feed.ids() == ["a", "c", "b"]


async def test_only_a_sorted_feed_moves_items_and_has_positions(feed: FeedPlay) -> None:
    """K15: refused as a whole, whatever else is in the call."""
    await feed.create("feed")
    await feed.publish("a")
    unchanged = await feed.snapshot()

    reasons = [
        await refused(feed.move("a", FIRST)),
        await refused(feed.publish("b", position=FIRST)),
        await refused(feed.publish_all(Publication(b"1", "b"), Publication(b"1", "c", after("a")))),
        await refused(feed.publish(None)),
    ]

    assert reasons == ["wrong_type", "wrong_type", "wrong_type", "bad_id"]
    assert await feed.snapshot() == unchanged


# Retracting and reading.


async def test_a_retracted_item_leaves_the_order_of_the_others(feed: FeedPlay) -> None:
    """K16: an unknown one is an answer; nothing can be put beside what was retracted."""
    await feed.create("sorted")
    await feed.put("a", "b", "c")

    statuses = await feed.retract("b", "b")

    assert statuses == ["retracted", "not_found"]
    assert await feed.items() == {"a": b"1", "c": b"1"}
    assert (await feed.publish("x", position=after("b"))).status == "unknown_neighbour"
    assert (await feed.events())[-1] == "retracted b"


async def test_a_sorted_feed_is_read_in_pages_of_its_order(feed: FeedPlay) -> None:
    """K16: ids, items and single ones; a page goes on behind the last item shown."""
    await feed.create("sorted")
    for id in "edcba":
        await feed.publish(id, id.encode(), FIRST)

    pages = await feed.pages(limit=2)

    assert ["".join(each.id for each in page.rows) for page in pages] == ["ab", "cd", "e"]
    assert await feed.items() == {id: id.encode() for id in "abcde"}
    assert await feed.item("c") == Item("c", b"c", feed.now_ms)


# Ranks.


async def test_thousands_of_items_put_at_the_same_position_keep_their_order(feed: FeedPlay) -> None:
    """K14: five thousand just before an item, and five thousand just behind it."""
    await feed.create("sorted")
    await feed.put("a", "x", "z")

    for start in range(0, 5_000, 500):
        await feed.publish_all(
            *[Publication(b"", f"b{number}", before("x")) for number in range(start, start + 500)],
            *[Publication(b"", f"y{number}", after("x")) for number in range(start, start + 500)],
        )

    ids = await feed.ids()
    earlier, later = [f"b{number}" for number in range(5_000)], [f"y{number}" for number in range(5_000)]
    assert ids == ["a", *earlier, "x", *reversed(later), "z"]
    assert (await feed.state()).items == 10_003


async def test_ranks_that_would_grow_long_are_redistributed_in_the_same_order(feed: FeedPlay) -> None:
    """K14, K15: each item goes between the last two, so the room between them is halved every time."""
    await feed.create("sorted")
    await feed.put("first", "left", "right", "last")
    page = await feed.store.items.list(feed.name, limit=2, now_ms=feed.now_ms)
    low, high = ["first", "left"], ["right", "last"]

    for start in range(0, 2_000, 500):
        batch: list[Publication] = []
        for number in range(start, start + 500):
            id = f"{number:04}"
            batch.append(Publication(b"", id, after(low[-1]) if number % 2 else before(high[0])))
            low, high = ([*low, id], high) if number % 2 else (low, [id, *high])
        assert {answer.status for answer in await feed.publish_all(*batch)} == {"published"}

    goes_on = await feed.store.items.list(feed.name, cursor=page.cursor, limit=9, now_ms=feed.now_ms)
    moved = await feed.move("first", after(low[-1]))
    assert [each.id for each in goes_on.rows] == low[2:11]
    assert moved == "moved"
    assert await feed.ids() == [*low[1:], "first", *high]
    changes = await feed.changes()
    assert [each.event for each in changes] == ["created", *["published"] * 2_004, "moved"]
    pages = await feed.pages(limit=100)
    assert {each.at_ms for page in pages for each in page.rows} == {feed.now_ms}
    assert max(len(page.cursor or "") for page in pages) < 2 * RANK_CHARS_MAX, "cursors grow with the ranks in them"
