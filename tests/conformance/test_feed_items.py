"""Feeds in order of publication: published, edited, evicted by count and age, retracted and read."""

from headrace.model.feed import Item, Publication
from headrace.model.results import Published
from tests.support.feed_play import FeedPlay

# Publishing.


async def test_items_stand_in_the_order_in_which_they_were_published(feed: FeedPlay) -> None:
    """K6, K10: oldest first, with what was published and when."""
    await feed.create()

    answer = await feed.publish("b", b"first")
    feed.advance(7)
    await feed.publish("a", b"second")

    assert answer == Published("b", "published")
    assert await feed.items() == {"b": b"first", "a": b"second"}
    assert await feed.item("a") == Item("a", b"second", feed.now_ms)
    assert await feed.item("b") == Item("b", b"first", feed.now_ms - 7)


async def test_every_publication_is_logged_with_its_item_and_instance(feed: FeedPlay) -> None:
    """K6, K7, K30: the change carries id and item as they are, in fields of their own."""
    await feed.create()
    start = await feed.end()

    await feed.publish("a", b"x")
    feed.instance = "another"
    await feed.publish("a", b"y")

    changes = await feed.changes(start)
    assert [(each.event, each.id, each.item, each.instance) for each in changes] == [
        ("published", "a", b"x", "me"),
        ("edited", "a", b"y", "another"),
    ]
    assert [(each.position, each.reason) for each in changes] == [(None, None)] * 2


async def test_a_known_id_is_edited_and_goes_last(feed: FeedPlay) -> None:
    """K7: the item is replaced; there is one of it."""
    await feed.create()
    await feed.put("a", "b", "c")
    feed.advance(5)

    answer = await feed.publish("a", b"new")

    assert answer == Published("a", "edited")
    assert await feed.ids() == ["b", "c", "a"]
    assert await feed.item("a") == Item("a", b"new", feed.now_ms)
    assert (await feed.state()).items == 3


async def test_an_edit_replaces_a_known_item_and_creates_no_new_one(feed: FeedPlay) -> None:
    await feed.create()
    await feed.put("a", "b")
    start = await feed.end()

    statuses = [await feed.edit("a", b"new"), await feed.edit("nobody", b"new")]

    assert statuses == ["edited", "unknown"]
    assert await feed.items() == {"b": b"1", "a": b"new"}
    assert await feed.events(start) == ["edited a"]


async def test_a_batch_happens_in_order(feed: FeedPlay) -> None:
    """The same id twice is published, then edited; all of it is one step of the log."""
    await feed.create()

    answers = await feed.publish_all(
        Publication(b"1", "a"), Publication(b"2", "b"), Publication(b"3", "a"), Publication(b"4", "c", edit=True)
    )

    assert [answer.status for answer in answers] == ["published", "published", "edited", "unknown"]
    assert await feed.items() == {"b": b"2", "a": b"3"}
    assert await feed.events() == ["created", "published a", "published b", "edited a"]


async def test_the_total_counts_publications_and_edits_and_never_sinks(feed: FeedPlay) -> None:
    """K6: what was ever published, whatever became of it; what was refused does not count."""
    await feed.create(items_max=2)

    await feed.put("a", "b", "c", "b")
    await feed.edit("c")
    await feed.edit("nobody")
    await feed.retract("b", "c")

    state = await feed.state()
    assert (state.items, state.total) == (0, 5)


async def test_order_is_that_of_publication_within_one_second_and_when_the_clock_goes_back(feed: FeedPlay) -> None:
    """KB13: instants are milliseconds, and order does not hang on them at all."""
    await feed.create()

    for id, ms in (("z", 0), ("y", 1), ("x", 0), ("w", -5_000), ("v", 998)):
        feed.advance(ms)
        await feed.publish(id)

    assert await feed.ids() == ["z", "y", "x", "w", "v"]
    at_ms = [each.at_ms for each in await feed.changes()][1:]
    start_ms = at_ms[0]
    assert [each - start_ms for each in at_ms] == [0, 1, 1, 1, 1]


# Bounds.


async def test_the_oldest_items_beyond_the_bound_are_evicted_and_logged(feed: FeedPlay) -> None:
    """K8: never the item that is being published."""
    await feed.create(items_max=2)
    await feed.put("a", "b")
    start = await feed.end()

    await feed.publish("c")

    assert await feed.ids() == ["b", "c"]
    changes = await feed.changes(start)
    assert [(each.event, each.id, each.reason, each.instance) for each in changes] == [
        ("published", "c", None, "me"),
        ("retracted", "a", "count", "me"),
    ]
    assert (await feed.state()).items == 2


async def test_a_feed_of_one_item_holds_the_one_that_was_published_last(feed: FeedPlay) -> None:
    """K8: the bound of one does not evict what has just come."""
    await feed.create(items_max=1)

    await feed.publish("a")
    await feed.publish("b")

    assert await feed.ids() == ["b"]


async def test_a_known_id_at_capacity_evicts_nothing(feed: FeedPlay) -> None:
    """KB7: an edit adds no item, so none has to go."""
    await feed.create(items_max=3)
    await feed.put("a", "b", "c")
    start = await feed.end()

    await feed.publish("a", b"new")
    await feed.edit("b", b"new")

    assert await feed.ids() == ["c", "a", "b"]
    assert await feed.events(start) == ["edited a", "edited b"]


async def test_a_batch_evicts_once_all_of_it_is_published(feed: FeedPlay) -> None:
    """K8: also what came with the batch itself, if that is more than the feed holds."""
    await feed.create(items_max=2)
    await feed.publish("old")
    start = await feed.end()

    statuses = await feed.put("a", "old", "b", "c")

    assert statuses == ["published", "edited", "published", "published"]
    assert await feed.ids() == ["b", "c"]
    assert await feed.events(start) == [
        *["published a", "edited old", "published b", "published c"],
        *["retracted a", "retracted old"],
    ]


async def test_a_lower_bound_evicts_with_the_next_publication_and_not_with_an_edit(feed: FeedPlay) -> None:
    """K8, KB7: configuring alone takes nothing away."""
    await feed.create()
    await feed.put("a", "b", "c", "d")

    await feed.configure(items_max=2)
    await feed.edit("a")
    before = await feed.ids()
    await feed.publish("e")

    assert before == ["b", "c", "d", "a"]
    assert await feed.ids() == ["a", "e"]


async def test_a_lower_bound_evicts_with_sweeps_in_bounded_steps(feed: FeedPlay) -> None:
    """Two thousand at once at most, logged with the instance of the sweep."""
    await feed.create()
    for start in range(0, 3_000, 1_000):
        await feed.put(*[str(number) for number in range(start, start + 1_000)])
    await feed.configure(items_max=2)
    end = await feed.end()

    swept = [await feed.sweep() for _ in range(3)]

    assert swept == [2_000, 998, 0]
    assert await feed.ids() == ["2998", "2999"]
    changes = await feed.changes(end)
    assert [each.id for each in changes] == [str(number) for number in range(2_998)]
    assert {(each.event, each.reason, each.instance) for each in changes} == {("retracted", "count", "sweep")}


async def test_items_over_their_age_are_not_shown_whether_they_were_swept_or_not(feed: FeedPlay) -> None:
    await feed.create(items_keep_ms=1_000)
    await feed.put("a", "b", "c")
    feed.advance(1)
    await feed.publish("d")

    feed.advance(999)
    shown = await feed.ids(), await feed.item("c"), [len(page.rows) for page in await feed.pages(limit=1)]
    whole = (await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)).rows

    assert shown == (["d"], None, [1])
    assert [each.id for each in whole] == ["d"]
    assert (await feed.state()).items == 4


async def test_items_over_their_age_do_not_come_back_with_a_clock_that_goes_back(feed: FeedPlay) -> None:
    """The feed has seen a later instant already; an edit has not swept them yet."""
    await feed.create(items_keep_ms=1_000)
    await feed.put("a", "b")
    feed.advance(1_000)
    await feed.edit("b")

    feed.advance(-500)
    whole = (await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)).rows

    assert (await feed.ids(), await feed.item("a"), [each.id for each in whole]) == (["b"], None, ["b"])


async def test_items_over_their_age_are_evicted_by_a_sweep_and_by_a_publication(feed: FeedPlay) -> None:
    """An edit makes an item young again, and evicts nothing itself."""
    await feed.create(items_keep_ms=1_000)
    await feed.put("a", "b")
    feed.advance(500)
    await feed.put("c", "a")
    start = await feed.end()

    feed.advance(500)
    swept = [await feed.sweep(), await feed.sweep()]
    feed.advance(500)
    await feed.publish("d")

    assert swept == [1, 0]
    assert await feed.ids() == ["d"]
    changes = await feed.changes(start)
    assert [(each.event, each.id, each.reason, each.instance) for each in changes] == [
        ("retracted", "b", "age", "sweep"),
        ("published", "d", None, "me"),
        ("retracted", "c", "age", "me"),
        ("retracted", "a", "age", "me"),
    ]


async def test_an_item_that_is_over_both_bounds_is_evicted_once_by_count_first(feed: FeedPlay) -> None:
    await feed.create(items_max=2, items_keep_ms=1_000)
    await feed.put("a", "b")
    start = await feed.end()

    feed.advance(1_000)
    await feed.publish("c")

    changes = await feed.changes(start)
    assert [(each.id, each.reason) for each in changes] == [("c", None), ("a", "count"), ("b", "age")]
    assert (await feed.state()).items == 1


async def test_items_without_an_age_stay(feed: FeedPlay) -> None:
    await feed.create()
    await feed.publish("a")

    feed.advance(366 * 24 * 3_600_000)
    await feed.sweep()
    await feed.publish("b")

    assert await feed.ids() == ["a", "b"]


# Retracting.


async def test_a_retracted_item_is_gone_and_logged_once(feed: FeedPlay) -> None:
    """K9: an unknown item is an answer and changes nothing."""
    await feed.create()
    await feed.put("a", "b", "c")
    start = await feed.end()

    statuses = await feed.retract("b", "nobody", "b", "a")

    assert statuses == ["retracted", "not_found", "not_found", "retracted"]
    assert (await feed.ids(), await feed.item("b")) == (["c"], None)
    changes = await feed.changes(start)
    assert [(each.event, each.id, each.item, each.reason, each.instance) for each in changes] == [
        ("retracted", "b", b"", None, "me"),
        ("retracted", "a", b"", None, "me"),
    ]
    assert (await feed.state()).items == 1


async def test_a_retracted_id_may_be_published_again_as_a_new_item(feed: FeedPlay) -> None:
    await feed.create()
    await feed.put("a", "b")
    await feed.retract("a")

    answer = await feed.publish("a", b"again")

    assert answer.status == "published"
    assert await feed.items() == {"b": b"1", "a": b"again"}


# Reading.


async def test_items_are_found_in_the_order_of_their_ids_and_unknown_ones_are_none(feed: FeedPlay) -> None:
    """K10: also the same one twice."""
    await feed.create()
    await feed.put("a", "b", "c")

    found = await feed.store.items.find(feed.name, ["c", "nobody", "a", "c"], now_ms=feed.now_ms)

    assert [each and each.id for each in found] == ["c", None, "a", "c"]


async def test_the_pages_of_a_list_show_every_item_once_in_order(feed: FeedPlay) -> None:
    """K10: whatever the size of a page; pages of an unchanged feed belong together."""
    await feed.create()
    ids = [f"item-{number}" for number in range(6)]
    await feed.put(*ids)

    for limit in (1, 2, 5, 6, 1_000):
        pages = await feed.pages(limit)
        assert [each.id for page in pages for each in page.rows] == ids
        assert all(1 <= len(page.rows) <= limit for page in pages)
        assert {page.as_of for page in pages} == {await feed.end()}


async def test_a_page_of_a_list_ends_once_it_holds_four_mebibytes(feed: FeedPlay) -> None:
    """The item that goes beyond is the last one of its page, so no page is ever empty."""
    await feed.create()
    for number in range(17):
        await feed.publish(f"{number:02}", bytes(256 * 1024))

    pages = await feed.pages()
    whole = await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)

    assert [len(page.rows) for page in pages] == [16, 1]
    assert [each.id for each in whole.rows] == [f"{number:02}" for number in range(17)]
    assert (whole.as_of, whole.cursor) == (await feed.end(), None)


async def test_a_list_goes_on_where_it_was_when_items_come_and_go(feed: FeedPlay) -> None:
    """An item that does not move is listed once; `as_of` shows that the feed has changed."""
    await feed.create()
    await feed.put("a", "b", "c", "d", "e")

    first = await feed.store.items.list(feed.name, limit=2, now_ms=feed.now_ms)
    await feed.retract("b", "c")
    await feed.put("d", "f")
    second = await feed.store.items.list(feed.name, cursor=first.cursor, now_ms=feed.now_ms)

    assert [each.id for each in first.rows] == ["a", "b"]
    assert [each.id for each in second.rows] == ["e", "d", "f"]
    assert first.as_of != second.as_of == await feed.end()
    assert second.cursor is None


async def test_thousands_of_items_are_listed_and_taken_as_a_whole(feed: FeedPlay) -> None:
    """K10: all of them in order, in pages and at one instant."""
    await feed.create()
    ids = [f"{number:04}" for number in range(2_500)]
    for start in range(0, 2_500, 1_000):
        await feed.put(*ids[start : start + 1_000])

    whole = await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)

    assert await feed.ids() == ids
    assert [each.id for each in whole.rows] == ids


async def test_a_list_goes_on_where_it_was_when_the_item_shown_last_is_edited(feed: FeedPlay) -> None:
    """K10: an item that stays where it is is listed exactly once, although the last one shown went to the end."""
    await feed.create()
    await feed.put("a", "b", "c", "d")

    first = await feed.store.items.list(feed.name, limit=2, now_ms=feed.now_ms)
    await feed.edit("b")
    second = await feed.store.items.list(feed.name, cursor=first.cursor, now_ms=feed.now_ms)

    assert [each.id for each in second.rows] == ["c", "d", "b"]
