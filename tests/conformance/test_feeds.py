"""Feeds: created, configured, described, listed in their tenant's directory, kept apart by tenant, and deleted."""

import asyncio

import msgspec
import pytest
from msgspec.structs import asdict

from headrace.model.errors import Refused
from headrace.model.feed import DIRECTORY_CONFIG, FEED_SETTABLE, FeedConfig, FeedName, FeedType
from headrace.model.limits import RETENTION_MAX
from headrace.model.results import FeedState, ItemsSnapshot
from tests.support.feed_play import FeedPlay, refused

DAY_MS = 24 * 3_600_000
read_config = msgspec.json.Decoder(FeedConfig).decode


# Creating.


@pytest.mark.parametrize("type", ["feed", "sorted", "queue"])
async def test_a_new_feed_is_empty_and_has_the_documented_defaults(feed: FeedPlay, type: FeedType) -> None:
    """K1: of each type; its log begins with its creation."""
    config = await feed.create(type)

    items_max = 10_000 if type == "feed" else RETENTION_MAX
    assert config == FeedConfig(type, 0, items_max, 0, 10_000, DAY_MS, 64 * 1024 * 1024)
    state = await feed.state()
    [created] = await feed.changes()
    assert state == FeedState(feed.name, config, state.cursor, 0, 0, 1, created.size, feed.now_ms, feed.now_ms)
    assert (created.seq, created.event, created.id, created.instance) == (1, "created", "", "me")
    assert (created.at_ms, read_config(created.item)) == (feed.now_ms, config)
    assert await feed.ids() == []


async def test_create_takes_every_setting_and_keeps_it(feed: FeedPlay) -> None:
    """K3: the creation may have settings, and is version zero."""
    wanted: dict[str, object] = {name: 2_000_000 + number for number, name in enumerate(FEED_SETTABLE)}

    config = await feed.create(**wanted)

    assert asdict(config) == {**wanted, "type": "feed", "version": 0}
    assert (await feed.state()).config == config


async def test_an_existing_feed_cannot_be_created_again(feed: FeedPlay) -> None:
    """K1: a second creation is refused, whatever its type, and changes nothing."""
    await feed.create(items_max=5)
    await feed.publish("a")
    before = await feed.snapshot()

    reasons = [await refused(feed.create("feed")), await refused(feed.create("sorted"))]

    assert reasons == ["feed_exists", "feed_exists"]
    assert await feed.snapshot() == before


async def test_one_of_many_concurrent_creations_of_a_feed_succeeds(feed: FeedPlay) -> None:
    """K1: also when they make the directory of their tenant with it; other names do not get in each other's way."""
    same = [FeedPlay(feed.store, instance=f"{number}") for number in range(4)]
    others = [FeedPlay(feed.store, name=f"feed-{number}") for number in range(4)]

    answers = await asyncio.gather(*[each.create() for each in (*same, *others)], return_exceptions=True)

    refusals = [answer.reason for answer in answers if isinstance(answer, Refused)]
    assert refusals == ["feed_exists"] * 3
    assert [answer for answer in answers if not isinstance(answer, Refused)] == [FeedConfig()] * 5
    assert await feed.directory.ids() == ["feed-0", "feed-1", "feed-2", "feed-3", "news"]
    changes = await feed.directory.changes()
    assert ([each.seq for each in changes], {each.event for each in changes}) == ([1, 2, 3, 4, 5], {"created"})


async def test_an_invalid_feed_is_refused_and_not_created(feed: FeedPlay) -> None:
    """Not even the directory of its tenant."""
    reasons = [
        await refused(feed.create("deck")),  # type: ignore[arg-type]
        await refused(feed.create(colour="blue")),
        await refused(feed.create("sorted", items_keep_ms=1)),
        await refused(feed.create(items_max=0)),
        await refused(feed.store.feeds.create(feed.name, instance="", now_ms=feed.now_ms)),
        await refused(feed.store.feeds.create(feed.name, instance="me", now_ms=-1)),
    ]

    assert reasons == ["bad_type", "bad_config", "bad_config", "bad_items_max", "bad_instance", "bad_now_ms"]
    assert await feed.store.feeds.describe(feed.name) is None
    assert await feed.store.feeds.describe(feed.name.directory) is None


async def test_asking_after_a_feed_does_not_make_it(feed: FeedPlay) -> None:
    found = [await feed.store.feeds.describe(feed.name), await feed.item("a"), await feed.sweep()]
    page = await feed.store.items.list(feed.name, now_ms=feed.now_ms)
    whole = await feed.store.items.snapshot(feed.name, now_ms=feed.now_ms)
    changes = await feed.page()

    assert found == [None, None, 0]
    assert (page, whole) == (ItemsSnapshot([], None), ItemsSnapshot([], None))
    assert (changes.status, changes.rows, changes.cursor, changes.more) == ("gone", [], None, False)
    assert await feed.store.feeds.describe(feed.name.directory) is None


async def test_every_call_that_writes_refuses_an_unknown_feed(feed: FeedPlay) -> None:
    """K2: deleting an unknown feed fails; so does everything else that would change it."""
    await FeedPlay(feed.store, name="other").create("sorted")
    before = await feed.snapshot()

    reasons = [
        await refused(feed.configure(items_max=1)),
        await refused(feed.delete()),
        await refused(feed.publish("a")),
        await refused(feed.retract("a")),
        await refused(feed.take()),
    ]

    assert set(reasons) == {"unknown_feed"}
    assert await feed.snapshot() == before


# Configuring.


async def test_configure_changes_only_its_settings_and_raises_the_version(feed: FeedPlay) -> None:
    """K3: stored, and in the feed's own log with its instance."""
    await feed.create(items_max=7)
    start = await feed.end()

    feed.instance = "other"
    first = await feed.configure(changes_keep_max=9)
    second = await feed.configure(items_max=8)

    assert (first.version, first.items_max, first.changes_keep_max) == (1, 7, 9)
    assert (second.version, second.items_max, second.changes_keep_max) == (2, 8, 9)
    assert (await feed.state()).config == second
    changes = await feed.changes(start)
    assert [(each.event, each.id, each.instance) for each in changes] == [("configured", "", "other")] * 2
    assert [read_config(each.item) for each in changes] == [first, second]


async def test_configure_with_the_version_in_force_is_granted_and_an_older_one_refused(feed: FeedPlay) -> None:
    await feed.create()
    await feed.configure(0, items_max=4)
    before = await feed.snapshot()

    reason = await refused(feed.configure(0, items_max=5))
    after = await feed.snapshot()
    granted = await feed.configure(1, items_max=6)

    assert reason == "version_changed"
    assert after == before
    assert (granted.version, granted.items_max) == (2, 6)


async def test_configure_refuses_unknown_settings_and_bad_values_and_changes_nothing(feed: FeedPlay) -> None:
    """The type is chosen for ever; what is bounded stays within its bounds."""
    await feed.create("sorted", items_max=4)
    before = await feed.snapshot()
    bad: list[dict[str, object]] = [
        {"colour": "blue"},
        {"type": "feed"},
        {"items_max": 0},
        {"items_max": RETENTION_MAX + 1},
        {"items_max": True},
        {"items_keep_ms": 1},
        {"changes_keep_max": 0},
        {"changes_keep_ms": 0},
        {"changes_bytes_max": 1024},
        {"items_max": 9, "colour": "blue"},
    ]

    reasons = [await refused(feed.configure(**changes)) for changes in bad]

    assert len(reasons) == len(bad)
    assert await feed.snapshot() == before


# Deleting.


async def test_a_deleted_feed_is_gone_with_its_items_its_log_and_its_settings(feed: FeedPlay) -> None:
    """K2, KB10: everything of it goes at once."""
    await feed.create("sorted", items_max=5)
    await feed.put("a", "b")
    cursor = await feed.end()

    await feed.delete()

    assert await feed.store.feeds.describe(feed.name) is None
    assert (await feed.ids(), await feed.item("a")) == ([], None)
    assert [(await feed.page(each)).status for each in (None, cursor)] == ["gone", "gone"]
    assert await refused(feed.delete()) == "unknown_feed"


async def test_a_recreated_feed_starts_empty(feed: FeedPlay) -> None:
    """KB10: neither its items, nor its numbers, nor its totals, nor its settings."""
    await feed.create("sorted", items_max=5)
    await feed.publish(None)
    await feed.publish("a")
    old = await feed.state()

    await feed.delete()
    await feed.create("sorted")
    drawn = await feed.publish(None)

    new = await feed.state()
    assert drawn.id == "1"
    assert (new.items, new.total, new.config.items_max) == (1, 1, RETENTION_MAX)
    assert (new.cursor.seq, new.cursor.birth != old.cursor.birth) == (2, True)
    assert await feed.events() == ["created", "published 1"]
    assert await feed.item("a") is None


async def test_a_feed_of_thousands_of_items_is_deleted_completely(feed: FeedPlay) -> None:
    """KB10: however many rows that is."""
    await feed.create()
    for start in range(0, 3_000, 1_000):
        await feed.put(*[str(number) for number in range(start, start + 1_000)])

    await feed.delete()
    await feed.create()

    state = await feed.state()
    assert (state.items, state.total, await feed.ids()) == (0, 0, [])
    assert await feed.events() == ["created"]


# The directory.


async def test_the_directory_lists_the_feeds_of_a_tenant_by_name_with_their_settings(feed: FeedPlay) -> None:
    """K1, K3: feeds are found without knowing a name."""
    configs = {
        name: await FeedPlay(feed.store, name=name).create("queue", items_max=number)
        for number, name in enumerate(["b", "a.1", "B", "a-1", "0", "a"], 1)
    }
    configs["a"] = await FeedPlay(feed.store, name="a").configure(items_max=99)

    listed = await feed.directory.items()

    assert list(listed) == sorted(configs)
    assert {name: read_config(item) for name, item in listed.items()} == configs
    state = await feed.directory.state()
    assert (state.items, state.total, state.feed) == (6, 7, FeedName("*", "acme"))
    assert state.config == DIRECTORY_CONFIG


async def test_the_log_of_the_directory_has_created_changed_and_deleted_feeds(feed: FeedPlay) -> None:
    """K1, K2, K3: with instance and in order; the directory has no changes of items."""
    other = FeedPlay(feed.store, name="other", instance="another")
    created = await feed.create()
    await other.create("queue")
    feed.advance(5)
    configured = await feed.configure(items_max=3)
    await feed.publish("a")
    await other.delete()

    changes = await feed.directory.changes()

    assert [(each.seq, each.event, each.id, each.instance) for each in changes] == [
        (1, "created", "news", "me"),
        (2, "created", "other", "another"),
        (3, "configured", "news", "me"),
        (4, "deleted", "other", "another"),
    ]
    assert [read_config(changes[0].item), read_config(changes[2].item), changes[3].item] == [created, configured, b""]
    assert [each.at_ms - changes[0].at_ms for each in changes] == [0, 0, 5, 5]


async def test_the_directory_can_only_be_read(feed: FeedPlay) -> None:
    await feed.create()
    before = await feed.snapshot()
    directory = feed.directory

    reasons = [
        await refused(directory.create()),
        await refused(directory.configure(items_max=1)),
        await refused(directory.delete()),
        await refused(directory.publish("a")),
        await refused(directory.retract("news")),
        await refused(directory.take()),
    ]

    assert set(reasons) == {"read_only"}
    assert await feed.snapshot() == before


async def test_the_directory_keeps_the_feeds_when_it_is_swept_and_forgets_itself_only_without_any(
    feed: FeedPlay,
) -> None:
    """Changes are dropped after their retention; feeds stay listed."""
    await feed.create()
    feed.advance(DAY_MS)
    told_before = len(await feed.directory.changes())

    swept = await feed.directory.sweep()
    kept = await feed.directory.ids(), await feed.directory.changes()
    await feed.delete()
    await feed.directory.sweep()
    told_after = await feed.directory.events()
    feed.advance(DAY_MS)
    await feed.directory.sweep()

    assert (told_before, swept, kept) == (1, 1, (["news"], []))
    assert told_after == ["deleted news"]
    assert await feed.store.feeds.describe(feed.name.directory) is None


# Tenants.


async def test_feeds_of_one_tenant_are_neither_seen_nor_changed_by_another(feed: FeedPlay) -> None:
    """K1, K2: the same name is another feed, with a directory of its own."""
    other = FeedPlay(feed.store, tenant="other", instance="other")
    await feed.create("sorted")
    await feed.publish("a", b"mine")
    before = await feed.snapshot()

    unseen = await other.ids(), await other.item("a"), await other.directory.ids()
    await other.create("queue")
    await other.publish("a", b"theirs")
    await other.configure(items_max=1)
    after = await feed.snapshot()
    await feed.delete()

    assert unseen == ([], None, [])
    assert after == before
    assert await other.items() == {"a": b"theirs"}
    assert await other.directory.events() == ["created news", "configured news"]


async def test_the_longest_names_are_taken(feed: FeedPlay) -> None:
    longest = FeedPlay(feed.store, name="N" * 120, tenant="t" * 63, instance="i" * 128)

    await longest.create()
    await longest.publish("a")

    assert await longest.directory.ids() == ["N" * 120]
    assert [each.instance for each in await longest.changes()] == ["i" * 128] * 2
