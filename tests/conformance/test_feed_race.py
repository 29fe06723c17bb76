"""Races on feeds: several processes write to the same feeds of one store, and one of them is killed."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.feed import Changed, FeedName, Publication
from headrace.stores.contract.store import Store
from tests.support.feed_fold import Follower
from tests.support.feed_races import CREATED, TAKEN_AT_ONCE, Taker, publish_and_arrange, publish_until_told
from tests.support.forkserver import CONTEXT
from tests.support.races import PATIENCE_S, together

NEWS, BOARD, INBOX = FeedName("news", "acme"), FeedName("board", "acme"), FeedName("inbox", "acme")
PROCESSES = 3
TAKERS = 4
ITEMS = 2_000


async def log_of(store: Store, feed: FeedName) -> list[Changed]:
    """All changes that are kept."""
    page = await store.feeds.changes(feed)
    found = list(page.rows)
    while page.more:
        page = await store.feeds.changes(feed, page.cursor)
        found += page.rows
    return found


async def test_concurrent_changes_of_several_processes_have_one_order(store: Store, shared_url: str) -> None:
    """K4, K14-K20, KB9: one creator; a log without gaps that has every publication once, in the order of its publisher,
    and folds to the items in their order."""
    await store.feeds.create(NEWS, instance="test")
    await store.feeds.create(BOARD, "sorted", instance="test")

    answers: list[dict[str, Any]] = await asyncio.to_thread(together, PROCESSES, shared_url, NEWS, publish_and_arrange)

    created = [name for each in answers for name in each["created"]]
    assert sorted(created) == [f"feed-{number}" for number in range(CREATED)]
    log = await log_of(store, NEWS)
    by_publisher: dict[str, list[str]] = defaultdict(list)
    for change in log[1:]:
        assert change.instance == f"process-{change.id.partition('-')[0]}"
        by_publisher[change.instance].append(change.id)
    assert sorted(by_publisher.values()) == sorted(each["published"] for each in answers)
    arranged = sum((each["arranged"] for each in answers), Counter[str]())
    logged = Counter(change.event for change in await log_of(store, BOARD))
    assert (logged["published"], logged["moved"]) == (arranged["published"], arranged["moved"])
    assert min(logged["published"], logged["moved"], arranged["unknown_neighbour"]) > 0
    for feed in (NEWS, BOARD, NEWS.directory):
        await Follower(feed).look(store, 0)


async def test_a_publication_during_a_deletion_is_refused_or_in_the_old_feed(store: Store, shared_url: str) -> None:
    """K2, KB10: what was taken is in the log of one feed; what was refused is in none."""
    await store.feeds.create(NEWS, instance="test")

    answers: list[dict[str, list[str]]] = await asyncio.to_thread(
        together, PROCESSES, shared_url, NEWS, publish_until_told
    )

    log = await log_of(store, NEWS)
    assert [change.event for change in log[:2]] == ["created", "published"]
    assert [change.seq for change in log] == list(range(1, len(log) + 1))
    for answer in answers:
        number = answer["taken"][0].partition("-")[0]
        found = [change.id for change in log[1:] if change.instance == f"process-{number}"]
        # Those of the feeds before are gone with them, so what is left is the end of what was taken.
        assert found == answer["taken"][len(answer["taken"]) - len(found) :]
    assert sum(len(answer["refused"]) for answer in answers) > 0
    directory = Counter(change.event for change in await log_of(store, NEWS.directory))
    assert directory == {"created": 6, "deleted": 5}
    for feed in (NEWS, NEWS.directory):
        await Follower(feed).look(store, 0)


@pytest.fixture
def takers() -> Iterator[list[Taker]]:
    """Takers that are gone when the test is over, however it ends."""
    running: list[Taker] = []
    yield running
    for taker in running:
        taker.kill()


async def test_every_item_is_handed_to_one_of_several_takers_although_one_is_killed(
    store: Store, shared_url: str, tmp_path: Path, takers: list[Taker]
) -> None:
    """K18, KB1: no item is handed out twice, and only items of the killed consumer are lost."""
    ids = [f"item-{number:04}" for number in range(ITEMS)]
    await store.feeds.create(INBOX, "queue", instance="test")
    for start in range(0, ITEMS, 1_000):
        publications = [Publication(b"4", id) for id in ids[start : start + 1_000]]
        await store.items.publish(INBOX, publications, instance="test")

    start_together = CONTEXT.Barrier(TAKERS)
    takers += [
        Taker(tmp_path, shared_url, INBOX, f"taker-{number}", start_together, stays=number == 0)
        for number in range(TAKERS)
    ]
    async with asyncio.timeout(PATIENCE_S):
        while len(takers[0].taken()) < 4 * TAKEN_AT_ONCE:  # noqa: ASYNC110 - another process cannot set an event of ours
            await asyncio.sleep(0.002)
    killed = takers[0].kill()
    ended = [await asyncio.to_thread(taker.join) for taker in takers[1:]]

    assert (killed, ended) == (-9, [0] * (TAKERS - 1))
    taken = Counter(id for taker in takers for id in taker.taken())
    assert taken.most_common(1)[0][1] == 1
    assert taken.keys() <= set(ids)
    assert ITEMS - len(taken) <= TAKEN_AT_ONCE
    for taker in takers:
        assert taker.taken() == sorted(taker.taken())
    state = await store.feeds.describe(INBOX)
    assert state is not None
    assert (state.items, state.total) == (0, ITEMS)
