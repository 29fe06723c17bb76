"""Feeds on PostgreSQL: concurrent creation, a crash of the server, the indexes used, and the number of round trips."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.model.errors import OutcomeUnknown, Refused
from headrace.model.feed import FIRST, LAST, FeedCursor, FeedName, FeedType, ItemPosition, Move, Publication
from headrace.model.job import new_job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.engine import feeds as transitions
from headrace.stores.engine.feed_rows import FeedRows
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.connection import connect, settings_of
from headrace.stores.postgres.feed_items import END, START, KnownOrder
from headrace.stores.postgres.notify import POLL_SECONDS
from headrace.stores.postgres.sql import sql
from headrace.stores.postgres.store import PostgresStore
from tests.support.proxy import Proxy
from tests.support.schemas import new_schema, schema_of
from tests.support.servers import postgres_server

NEWS = FeedName("news")
LONG_MS = 60_000


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of the test's own."""
    with new_schema() as url:
        yield url


async def open_feed(url: str, type: FeedType = "feed", **settings: object) -> PostgresStore:
    """A store with an empty feed."""
    store = await PostgresStore.open(settings_of(url))
    await store.feeds.create(NEWS, type, settings, instance="me")
    return store


async def publish(store: PostgresStore, *ids: str, position: ItemPosition = LAST) -> None:
    """Publish items in one call."""
    await store.items.publish(NEWS, [Publication(b"x", id, position) for id in ids], instance="me")


async def end(store: PostgresStore) -> FeedCursor:
    """The end of the log."""
    state = await store.feeds.describe(NEWS)
    assert state is not None
    return state.cursor


def count(url: str, table: str) -> int:
    """How many rows a table holds."""
    [(rows,)] = postgres_server().ask(f"SELECT count(*) FROM {schema_of(url)}.{table}")  # noqa: S608 - our own names
    return int(rows)


# Those who come at the same time.


async def test_of_two_calls_that_create_the_first_feed_of_a_tenant_one_finds_it_there(url: str) -> None:
    """The directory, too, is created by both at once; the slower transaction runs again."""
    stores = [await PostgresStore.open(settings_of(url)) for _ in range(2)]

    for number in range(5):
        feed = FeedName("news", f"tenant-{number}")
        answers = await asyncio.gather(
            *(store.feeds.create(feed, instance="me") for store in stores for _ in range(2)), return_exceptions=True
        )
        refusals = [answer for answer in answers if isinstance(answer, BaseException)]
        changes = await stores[0].feeds.changes(feed.directory)

        assert [type(each) for each in refusals] == [Refused] * 3, answers
        assert [(change.seq, change.event) for change in changes.rows] == [(1, "created")]
    for store in stores:
        await store.close()


async def test_a_configure_beside_the_creation_of_the_first_feed_finds_it_or_not(url: str) -> None:
    """A transaction that has read no directory and then the feed has seen two states, and runs again."""
    store = await PostgresStore.open(settings_of(url))
    created = False

    def act(tx: Tx) -> tuple[FeedRows | None, FeedRows | None]:
        nonlocal created
        directory = tx.feed(NEWS.directory)
        if not created:
            created = True
            asyncio.run_coroutine_threadsafe(store.feeds.create(NEWS, instance="me"), loop).result()
        return directory, tx.feed(NEWS)

    loop = asyncio.get_running_loop()
    seen = await store._engine.write(act)

    assert [rows is not None for rows in seen] == [True, True]
    await store.close()


async def test_a_feed_that_is_waited_for_is_heard_although_its_publisher_ends_at_once(url: str) -> None:
    mine, other = await open_feed(url), await PostgresStore.open(settings_of(url))
    waiter = asyncio.create_task(mine.signals.changed(NEWS, await end(mine), LONG_MS))
    while not mine.signals.asleep:
        await mine.feeds.describe(NEWS)

    await publish(other, "a")
    await other.close()

    assert await asyncio.wait_for(waiter, POLL_SECONDS / 2)
    await mine.close()


async def test_notifications_of_queues_and_feeds_of_the_same_name_differ(url: str) -> None:
    mine, other = await open_feed(url), await PostgresStore.open(settings_of(url))
    waiter = asyncio.create_task(mine.signals.changed(NEWS, await end(mine), LONG_MS))
    while not mine.signals.asleep:
        await mine.feeds.describe(NEWS)
    worker = asyncio.create_task(mine.signals.wait([Queue(NEWS.name)], LONG_MS))
    while mine.signals.asleep < 2:
        await mine.feeds.describe(NEWS)

    await other.jobs.enqueue([new_job(Queue(NEWS.name), "send", fresh_id="a")])
    woken = await asyncio.wait_for(worker, POLL_SECONDS / 2)

    assert woken
    assert not waiter.done()
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await mine.close()
    await other.close()


async def test_a_thousand_waiters_for_feeds_share_their_polls(url: str) -> None:
    store = await open_feed(url)
    after = await end(store)
    looks = 0
    read = store.signals._feed_polls._read

    def counted(look: Callable[[Any], Any]) -> Awaitable[Any]:
        nonlocal looks
        looks += 1
        return read(look)

    store.signals._feed_polls._read = counted
    feeds = [NEWS.directory if number % 2 else NEWS for number in range(1_000)]
    cursors = [None if feed.is_directory else after for feed in feeds]

    answers = await asyncio.gather(*map(store.signals.changed, feeds, cursors, [1] * 1_000))

    assert answers == [feed.is_directory for feed in feeds]
    assert looks < 10
    await store.close()


async def test_what_a_process_remembers_of_a_feed_is_only_a_guess(url: str) -> None:
    """Another one configures it, fills it, and makes it anew as something else."""
    store, other = await open_feed(url), await PostgresStore.open(settings_of(url))
    await publish(store, "a", "b")

    await other.feeds.configure(NEWS, {"items_max": 2}, instance="you")
    await publish(other, "c", "d", "e")
    await publish(store, "f", "a")
    evicted = [item.id for item in (await store.items.list(NEWS)).rows]
    await other.feeds.delete(NEWS, instance="you")
    await other.feeds.create(NEWS, "sorted", {"items_max": 4}, instance="you")
    await publish(other, "x", "y", "z")
    first = await store.items.publish(NEWS, [Publication(b"x", "a", ItemPosition("before", "y"))], instance="me")
    second = await store.items.publish(NEWS, [Publication(b"x", "b")], instance="me")
    made_anew = [item.id for item in (await store.items.list(NEWS)).rows]
    await store.close()
    await other.close()

    assert evicted == ["f", "a"]
    assert [each.status for each in (*first, *second)] == ["published", "full"]
    assert made_anew == ["x", "a", "y", "z"]


# What is lost.


async def test_after_a_lost_tail_only_readers_of_what_was_lost_have_a_gap(url: str) -> None:
    store = await open_feed(url)
    await publish(store, "a")
    kept = await end(store)
    lost = FeedCursor(kept.birth, kept.epoch, kept.seq + 1)
    await store.close()
    postgres_server().ask(f"DELETE FROM {schema_of(url)}.crash_mark")  # noqa: S608 - as the server does after a crash

    store = await PostgresStore.open(settings_of(url))
    await publish(store, "b")
    answers = [await store.feeds.changes(NEWS, after) for after in (kept, lost)]
    health = await store.health()

    assert [answer.status for answer in answers] == ["kept", "gap"]
    assert [(change.seq, change.epoch) for change in answers[0].rows] == [(lost.seq, health.epoch)]
    assert health.epoch > kept.epoch
    await store.close()


async def test_rows_left_by_an_interrupted_deletion_are_erased_in_bounded_steps(url: str) -> None:
    store = await open_feed(url)
    for part in range(2):
        await publish(store, *[f"{part}-{number}" for number in range(BATCH_MAX)])
    await store._engine.write(lambda tx: transitions.delete(tx, NEWS, "me", tx.now_ms()))
    left = count(url, "feed_item") + count(url, "feed_change")

    described = await store.feeds.describe(NEWS)
    await store.feeds.create(NEWS, instance="me")
    swept = [await store.feeds.sweep(NEWS) for _ in range(6)]

    assert described is None
    assert left > 4 * BATCH_MAX
    assert swept == [BATCH_MAX] * 4 + [1, 0], "the feed's own change `created` was the last"
    assert [count(url, table) for table in ("feed_gone", "feed_item", "feed_change")] == [0, 1, 4]
    await store.close()


# What it costs.

IDS = [b"1-1", b"1-2", b"unknown"]
LATER = 3
"""The feed_id of the second feed: the directory has the first."""
INDEXED: dict[str, tuple[tuple[object, ...], str]] = {
    "feed_find": ((["default"], ["news"]), "feed_tenant_name_key"),
    "feed_lock": (("default", "news"), "feed_tenant_name_key"),
    "feed_write": (("{}", "1.1", *range(11), LATER), "feed_pkey"),
    "feed_item_load": ((IDS, LATER), "feed_item_pkey"),
    "feed_item_load_around": ((LATER, IDS), "feed_item_pkey"),
    "feed_item_first": ((LATER, "", 10), "feed_item_rank"),
    "feed_item_last": ((LATER, END, 10), "feed_item_rank"),
    "feed_item_read": ((LATER, "", 1_000, 1_000_000), "feed_item_rank"),
    "feed_item_rank": ((LATER, IDS, ["a", "b", "c"]), "feed_item_pkey"),
    "feed_item_drop": ((LATER, IDS), "feed_item_pkey"),
    "feed_change_read": ((LATER, 10, 1_000, 1_000_000), "feed_change_pkey"),
    "feed_change_oldest": ((LATER, 10, 100), "feed_change_pkey"),
    "feed_change_drop": ((LATER, 10, 20), "feed_change_pkey"),
    "feed_item_erase": ((LATER, 100), "feed_item_pkey"),
    "feed_change_erase": ((LATER, 100), "feed_change_pkey"),
}
"""Statements with arguments, and the index that each must use."""


async def test_every_statement_on_a_large_feed_uses_its_index(url: str) -> None:
    """Also when the statistics were gathered before the feed was there: they say that it holds nothing."""
    store = await PostgresStore.open(settings_of(url))
    for feed in (FeedName("earlier"), NEWS):
        await store.feeds.create(feed, "sorted", instance="me")
        for part in range(2):
            items = [Publication(b"x", f"{part}-{number}") for number in range(BATCH_MAX)]
            await store.items.publish(feed, items, instance="me")
        if feed != NEWS:
            for table in ("feed_item", "feed_change"):
                postgres_server().ask(f"ANALYZE {schema_of(url)}.{table}")
    await store.close()

    plans: dict[str, str] = {}
    with closing(connect(settings_of(url))) as connection:
        for name, (args, _) in INDEXED.items():
            found = connection.execute(b"EXPLAIN " + sql(name), args).fetchall()
            plans[name] = "\n".join(line for (line,) in found)

    for name, (_, index) in INDEXED.items():
        assert f"using {index}" in plans[name], plans[name]
        assert not any(word in plans[name] for word in ("Seq Scan", "Sort", "Hash", "Merge", "Join Filter")), plans[
            name
        ]


FLUSH = b"H\x00\x00\x00\x04"
"""What libpq sends behind a pipeline, and waits for nothing then."""


class Counting(Proxy):
    """Counts round trips of the client; may cut the connection when it commits."""

    turns = 0
    cuts_on_commit = False
    _is_answered = True

    def through(self, url: str) -> str:
        """The URL of a schema, by way of here and on one connection."""
        return url.replace(f":{postgres_server().port}", f":{self.port}") + "&connections=1"

    async def _pass_requests(self, reader: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        await super()._pass_requests(_Noting(reader, self._ask), far)  # type: ignore[arg-type]  # reads alike

    async def _pass_replies(self, far: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super()._pass_replies(_Noting(far, self._answer), writer)  # type: ignore[arg-type]  # reads alike

    def _ask(self, read: bytes) -> None:
        if read == FLUSH:
            return
        self.turns += self._is_answered
        self._is_answered = False
        self.cuts_on_reply |= self.cuts_on_commit and b"COMMIT" in read

    def _answer(self, _: bytes) -> None:
        self._is_answered = True


class _Noting:
    """A reader that records its reads."""

    def __init__(self, reader: asyncio.StreamReader, note: Callable[[bytes], None]) -> None:
        self._reader = reader
        self._note = note

    async def read(self, size: int) -> bytes:
        """What the reader has."""
        read = await self._reader.read(size)
        self._note(read)
        return read


Act = Callable[[PostgresStore, str], Awaitable[object]]
FULL = {"items_max": 10, "changes_keep_max": 10}
BUSY: dict[str, tuple[FeedType, dict[str, int], Act]] = {
    "one item": ("feed", {}, publish),
    "a batch": ("feed", {}, lambda store, id: publish(store, *[f"{id}-{each}" for each in range(50)])),
    "a feed that evicts and drops as much as it takes": ("feed", FULL, publish),
    "beside another": ("sorted", {}, lambda store, id: publish(store, id, position=ItemPosition("before", "1-0"))),
    "to the beginning": ("sorted", {}, lambda store, id: publish(store, id, position=FIRST)),
    "moves": (
        "sorted",
        {},
        lambda store, id: store.items.move(
            NEWS, [Move(f"0-{number}", ItemPosition("after", f"1-{id}")) for number in range(10)], instance="me"
        ),
    ),
    "retract": ("sorted", {}, lambda store, id: store.items.retract(NEWS, [f"0-{id}"], instance="me")),
    "put": ("queue", {}, publish),
}
"""What is done to a feed of which type and settings."""


@pytest.mark.parametrize("what", BUSY)
async def test_a_write_asks_the_server_twice_however_large_it_is(url: str, what: str) -> None:
    """Once to lock the feed, with the clock, the rows that are named and those beside them; once to write."""
    type, settings, act = BUSY[what]
    async with Counting(postgres_server().port) as proxy:
        store = await open_feed(proxy.through(url), type)
        await store.feeds.configure(NEWS, settings, instance="me")
        await publish(store, *[f"{part}-{number}" for part in range(2) for number in range(20)])
        seen: list[int] = []
        for number in range(4):
            while store.signals._sending is not None:
                await store.feeds.describe(NEWS)
            before = proxy.turns
            await act(store, str(number))
            seen.append(proxy.turns - before)
        await store.close()

    assert max(seen) <= 2, seen


async def test_a_publication_whose_answer_is_lost_may_be_committed(url: str) -> None:
    """Writes and the commit are sent together: it is unknown which of them was the last to arrive."""
    async with Counting(postgres_server().port) as proxy:
        store = await open_feed(proxy.through(url))
        while store.signals._sending is not None:
            await store.feeds.describe(NEWS)

        proxy.cuts_on_commit = True
        with pytest.raises(OutcomeUnknown):
            await publish(store, "a")
        proxy.cuts_on_commit = proxy.cuts_on_reply = False
        found = await store.items.find(NEWS, ["a"])
        await store.close()

    assert [item is not None for item in found] == [True]


# What a step knows of the order.


def test_an_order_answers_only_what_it_knows() -> None:
    order = KnownOrder()
    order.add([("b", "B"), ("d", "D")], START)
    order.put("c", "C")
    order.add([("x", "X")], None, END)

    assert order.first(3, START) == ["B", "C", "D"]
    assert order.first(4, START) is None
    assert order.first(1, "c") == ["D"]
    assert order.last(2, "d") == ["C", "B"]
    assert order.last(9, "d") == ["C", "B"]
    assert order.last(1, END) == ["X"]
    assert order.last(2, END) is None

    order.drop("d")
    assert order.first(2, START) == ["B", "C"]
    assert order.first(3, START) is None
    order.drop("x")
    assert order.last(1, END) is None
    order.add([("c", "C")], None, END)
    assert order.first(9, START) == ["B", "C"]
