"""Odd texts: ids and items may hold anything, come back as they were, and are refused when they are too much."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, FeedCursor, FeedType, ItemPosition, Move, Publication
from headrace.model.limits import BATCH_MAX, ID_CHARS_MAX, ITEM_BYTES_MAX
from tests.support.feed_play import FeedPlay

ODD = {
    "NUL": "a\0b",
    "only NUL": "\0",
    "two NULs": "\0\0",
    "a newline": "a\nb\r\n",
    "blanks": " ",
    "a colon": "a:b:",
    "a slash": "a/b",
    "braces": "{a}",
    "empty braces": "{}",
    "a star": "*",
    "quotes": "'\"\\",
    "percent": "%s%00",
    "a format": "{0}",
    "4 bytes": "🙂\U0001d518",
    "combined": "e\u0301",
    "composed": "\u00e9",
    "right to left": "\u202eabc",
    "the last character": "\U0010ffff",
    "the one before the halves": "\ud7ff",
    "private use": "\ue000\uffff",
    "a number": "7",
    "a long number": "9" * 30,
    "the longest": "i" * ID_CHARS_MAX,
    "the longest of 4 bytes": "🙂" * ID_CHARS_MAX,
}
BYTES = {
    "empty": b"",
    "NUL": b"\0",
    "every byte": bytes(range(256)),
    "no text": b"\xff\xfe\xed\xa0\x80",
    "newlines": b"\r\n\n",
    "JSON": b'{"a": [1, null]}',
    "the largest": b"\x80" * ITEM_BYTES_MAX,
}
Call = Callable[[], Awaitable[object]]


@pytest.mark.parametrize("type", ["feed", "sorted", "queue"])
async def test_ids_of_any_text_survive_in_items_lists_and_positions(feed: FeedPlay, type: FeedType) -> None:
    """K30, KB18: no character separates anything."""
    await feed.create(type)
    ids = list(ODD.values())

    answers = await feed.publish_all(*[Publication(id.encode(), id) for id in ids])
    found = await feed.store.items.find(feed.name, ids, now_ms=feed.now_ms)
    pages = await feed.pages(limit=1)

    assert [answer.id for answer in answers] == ids
    assert {answer.status for answer in answers} == {"published"}
    assert [each and (each.id, each.item) for each in found] == [(id, id.encode()) for id in ids]
    assert [each.id for page in pages for each in page.rows] == ids
    if type == "queue":
        assert await feed.take(1_000) == ids
    else:
        assert await feed.retract(*ids) == ["retracted"] * len(ids)
        assert [each.id for each in await feed.changes()] == ["", *ids, *ids]
    assert (await feed.state()).items == 0


async def test_ids_of_any_text_are_edited_moved_and_used_as_neighbours(feed: FeedPlay) -> None:
    """K14, K15, KB18: also in the positions in the log."""
    await feed.create("sorted")
    await feed.put("x", "w")
    start = await feed.end()

    for name, id in ODD.items():
        await feed.publish(id)
        assert await feed.edit(id, b"\0") == "edited"
        assert await feed.put("beside " + name, position=ItemPosition("after", id)) == ["published"]
        assert await feed.move("x", ItemPosition("before", id)) == "moved"

    changes = await feed.changes(start)
    positions = [each.position for each in changes if each.position is not None]
    assert [each.id for each in changes if each.event == "edited"] == list(ODD.values())
    assert [position.id for position in positions if position.where == "after"] == list(ODD.values())
    assert [position.id for position in positions if position.where == "before"] == list(ODD.values())
    assert len(await feed.ids()) == 2 * len(ODD) + 2


@pytest.mark.parametrize("type", ["feed", "sorted", "queue"])
async def test_items_of_any_bytes_survive_in_items_and_changes(feed: FeedPlay, type: FeedType) -> None:
    """K30, KB18, KB16: nothing at all is an item, too."""
    await feed.create(type)

    for name, item in BYTES.items():
        assert (await feed.publish(name, item)).status == "published"

    assert await feed.items() == BYTES
    if type == "queue":
        assert {each.id: each.item for each in await feed.store.items.take(feed.name, 10)} == BYTES
    else:
        assert {each.id: each.item for each in await feed.changes() if each.event == "published"} == BYTES


async def test_ids_that_differ_in_anything_are_different(feed: FeedPlay) -> None:
    """KB18: none is cut, folded, trimmed or composed."""
    ids = ["a", "A", "a ", " a", "a\0", "\u00e9", "e\u0301", "É", "1", "01", "1.0", "i" * 255, "i" * 256, "*", "%", "_"]
    await feed.create()

    statuses = await feed.put(*ids)
    await feed.retract("a", "i" * 255, "*", "e\u0301")

    assert set(statuses) == {"published"}
    assert await feed.ids() == ["A", "a ", " a", "a\0", "\u00e9", "É", "1", "01", "1.0", "i" * 256, "%", "_"]


async def test_names_of_feeds_that_look_like_parts_of_others_are_different(feed: FeedPlay) -> None:
    """KB18: neither dots nor dashes nor case make them one."""
    names = ["a", "A", "a.b", "a-b", "a_b", "a.", "0", "00", "items", "changes"]
    feeds = [FeedPlay(feed.store, name=name) for name in names]
    for each in feeds:
        await each.create()
        await each.publish(each.name.name)

    await feeds[0].delete()

    assert [await each.ids() for each in feeds] == [[], *[[name] for name in names[1:]]]
    assert await feed.directory.ids() == sorted(names[1:])


# Refusals.


async def refusals(feed: FeedPlay, calls: Mapping[str, Call]) -> set[str]:
    """What the calls are refused with; every one must be, in a sentence, and change nothing."""
    reasons: set[str] = set()
    before = await feed.snapshot()
    feed.advance(1)  # not even the instant of the last change
    for name, call in calls.items():
        with pytest.raises(Refused) as raised:
            pytest.fail(f"{name}: was granted: {await call()}")
        assert len(str(raised.value).split()) > 3, f"{name}: not a sentence: {raised.value}"
        reasons.add(raised.value.reason)
    assert await feed.snapshot() == before
    return reasons


async def test_ids_that_are_none_are_refused_by_every_call_that_takes_ids(feed: FeedPlay) -> None:
    """One bad id refuses the whole call."""
    await feed.create("sorted")
    await feed.put("a", "b")
    bad: list[Any] = ["", "i" * (ID_CHARS_MAX + 1), "\ud800", "a\udfff", 7, b"a"]

    async def publish(id: Any) -> object:
        return await feed.publish_all(Publication(b"1", "new"), Publication(b"1", id))

    async def move(id: Any) -> object:
        moves = [Move("a", LAST), Move(id, FIRST)]
        return await feed.store.items.move(feed.name, moves, instance="me", now_ms=feed.now_ms)

    async def beside(id: Any) -> object:
        return await feed.publish("c", position=ItemPosition("before", id))

    takers: dict[str, Callable[[Any], Awaitable[object]]] = {
        "publish": publish,
        "move": move,
        "beside": beside,
        "retract": lambda id: feed.retract("a", id),
        "find": lambda id: feed.store.items.find(feed.name, ["a", id], now_ms=feed.now_ms),
    }
    calls = {f"{name} {id!r}": partial(take, id) for name, take in takers.items() for id in bad}

    assert await refusals(feed, calls) == {"bad_id"}


async def test_an_invalid_or_too_large_item_is_refused(feed: FeedPlay) -> None:
    """KB16: before anything is stored; also as the last of a batch."""
    await feed.create("queue")
    await feed.publish("a")

    async def publish(item: Any) -> object:
        return await feed.publish_all(Publication(b"1", "new"), Publication(item, "b"))

    items: list[Any] = [bytes(ITEM_BYTES_MAX + 1), None, "text", 7, bytearray(b"1")]

    assert await refusals(feed, {repr(item)[:20]: partial(publish, item) for item in items}) == {
        "item_too_large",
        "bad_item",
    }


async def test_batches_limits_cursors_and_instants_out_of_bounds_are_refused(feed: FeedPlay) -> None:
    await feed.create("sorted")
    await feed.publish("a")
    queue, many = FeedPlay(feed.store, name="queue"), [str(number) for number in range(BATCH_MAX + 1)]
    await queue.create("queue")
    await queue.publish("a")
    items, feeds, name, now_ms = feed.store.items, feed.store.feeds, feed.name, feed.now_ms
    instances: list[Any] = ["", "i" * 129, "a\nb", "\ud800", None, 7]
    calls: dict[str, Call] = {
        "publish many": lambda: feed.put(*many),
        "retract many": lambda: feed.retract(*many),
        "find many": lambda: items.find(name, many, now_ms=now_ms),
        "move many": lambda: items.move(name, [Move("a", FIRST)] * 1_001, instance="me", now_ms=now_ms),
        "take none": lambda: queue.take(0),
        "take many": lambda: queue.take(BATCH_MAX + 1),
        "list none": lambda: items.list(name, limit=0, now_ms=now_ms),
        "list many": lambda: items.list(name, limit=1_001, now_ms=now_ms),
        "changes none": lambda: feeds.changes(name, limit=0),
        "changes many": lambda: feeds.changes(name, limit=1_001),
        "publish then": lambda: items.publish(name, [Publication(b"1", "b")], instance="me", now_ms=-1),
        "retract then": lambda: items.retract(name, ["a"], instance="me", now_ms=2**60),
        "configure then": lambda: feeds.configure(name, {"items_max": 3}, instance="me", now_ms=-1),
        "delete then": lambda: feeds.delete(name, instance="me", now_ms=-1),
        "take then": lambda: items.take(queue.name, now_ms=-1),
        "sweep then": lambda: feeds.sweep(name, now_ms=-1),
        "list then": lambda: items.list(name, now_ms=-1),
        "find then": lambda: items.find(name, ["a"], now_ms=-1),
        "snapshot then": lambda: items.snapshot(name, now_ms=-1),
    }
    for cursor in ("", "x", "ü", "YQ==", "\0", "A" * 20_000):
        calls[f"cursor {cursor[:9]!r}"] = partial(items.list, name, cursor=cursor, now_ms=now_ms)
    for by in instances:
        calls[f"publish by {by!r}"] = partial(items.publish, name, [Publication(b"1", "b")], instance=by, now_ms=now_ms)
        calls[f"retract by {by!r}"] = partial(items.retract, name, ["a"], instance=by, now_ms=now_ms)
        calls[f"move by {by!r}"] = partial(items.move, name, [Move("a", FIRST)], instance=by, now_ms=now_ms)
        calls[f"configure by {by!r}"] = partial(feeds.configure, name, {"items_max": 3}, instance=by, now_ms=now_ms)
        calls[f"delete by {by!r}"] = partial(feeds.delete, name, instance=by, now_ms=now_ms)

    reasons = await refusals(feed, calls)

    assert reasons == {"batch_too_large", "bad_limit", "bad_now_ms", "bad_cursor", "bad_instance"}
    assert await queue.ids() == ["a"]


async def test_an_empty_batch_is_granted_and_changes_nothing(feed: FeedPlay) -> None:
    await feed.create("sorted")
    await feed.publish("a")
    before = await feed.snapshot()

    answers = [
        await feed.publish_all(),
        await feed.retract(),
        list(await feed.store.items.move(feed.name, [], instance="me", now_ms=feed.now_ms)),
        list(await feed.store.items.find(feed.name, [], now_ms=feed.now_ms)),
    ]

    assert answers == [[], [], [], []]
    assert await feed.snapshot() == before


async def test_the_largest_batch_of_the_largest_answers_is_granted(feed: FeedPlay) -> None:
    """A thousand ids of a thousand bytes each, in and out."""
    await feed.create("sorted")
    ids = [f"{number:04}" + "🙂" * 252 for number in range(BATCH_MAX)]

    answers = await feed.put(*ids)
    found = await feed.store.items.find(feed.name, ids, now_ms=feed.now_ms)

    assert answers == ["published"] * BATCH_MAX
    assert all(each is not None for each in found)
    assert await feed.retract(*ids) == ["retracted"] * BATCH_MAX


async def test_cursors_that_no_feed_gave_are_answers_and_not_errors(feed: FeedPlay) -> None:
    """A reader may come with what it read from a file."""
    await feed.create()
    end = await feed.end()

    statuses = {
        cursor: (await feed.page(cursor)).status
        for cursor in (
            FeedCursor("", 0, 0),
            FeedCursor("1.1", 1, 1),
            FeedCursor("x:{}\0", 1, 1),
            FeedCursor(end.birth, 10**15, 10**15),
            FeedCursor(end.birth, 0, end.seq),
        )
    }

    assert list(statuses.values()) == ["gone", "gone", "gone", "gap", "gap"]
