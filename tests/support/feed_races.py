"""What several processes do to the same feeds at the same time, and a process that takes items until it is killed."""

import asyncio
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from typing import Any

from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, FeedName, ItemPosition, Move, Publication
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.forkserver import CONTEXT
from tests.support.races import PATIENCE_S, Meet

CREATED = 5
"""Feeds that all processes want to create."""
CALLS = 50
TAKEN_AT_ONCE = 5


async def create_the_same(store: Store, news: FeedName, number: int, _: Meet) -> list[str]:
    """Create the same feeds as the others; returns the names of those that this process was first with."""
    created: list[str] = []
    for each in range(CREATED):
        feed = FeedName(f"feed-{each}", news.tenant)
        try:
            await store.feeds.create(feed, instance=f"process-{number}")
            created.append(feed.name)
        except Refused as refused:
            assert refused.reason == "feed_exists"  # noqa: PT017 - a process reports by its end
    return created


async def publish_and_arrange(store: Store, news: FeedName, number: int, meet: Meet) -> dict[str, Any]:
    """Create feeds, publish to one and arrange the items of another, all at the same time as the others."""
    created = await create_the_same(store, news, number, meet)
    meet()
    published = [f"{number}-{each}" for each in range(3 * CALLS)]
    for start in range(0, len(published), 3):
        publications = [Publication(b"1", id) for id in published[start : start + 3]]
        await store.items.publish(news, publications, instance=f"process-{number}")
    meet()
    return {"created": created, "published": published, "arranged": await _arrange(store, news, number)}


async def _arrange(store: Store, news: FeedName, number: int) -> Counter[str]:
    """Put items next to those of anybody, and move them about; answers how often what became of it."""
    board, random = FeedName("board", news.tenant), Random(number)
    answers: Counter[str] = Counter()
    known = [str(each) for each in range(1, 10)]
    for _ in range(CALLS):
        near = ItemPosition(random.choice(["before", "after"]), random.choice(known))
        put = [Publication(b"2", None, place) for place in (near, random.choice([FIRST, LAST]))]
        drawn = await store.items.publish(board, put, instance=f"process-{number}")
        known += [each.id for each in drawn if each.id is not None]
        answers.update(each.status for each in drawn)
        moves = [Move(random.choice(known), near), Move(random.choice(known), FIRST)]
        answers.update(each.status for each in await store.items.move(board, moves, instance=f"process-{number}"))
    return answers


async def publish_until_told(store: Store, news: FeedName, number: int, meet: Meet) -> dict[str, list[str]]:
    """Publish one by one while the first process deletes the feed and creates it again; returns what was taken and what
    was refused, each in order."""
    answers: dict[str, list[str]] = {"taken": [], "refused": []}
    for each in range(2 * CALLS):
        id = f"{number}-{each:03}"
        if number == 0 and each % 20 == 10:
            await store.feeds.delete(news, instance="process-0")
        if number == 0 and each % 20 == 12:
            await store.feeds.create(news, instance="process-0")
        try:
            await store.items.publish(news, [Publication(b"3", id)], instance=f"process-{number}")
            answers["taken"].append(id)
        except Refused as refused:
            assert refused.reason == "unknown_feed"  # noqa: PT017 - a process reports by its end
            answers["refused"].append(id)
    return answers


class Taker:
    """A process that takes items from an item queue and logs them; on an empty queue it ends, or waits until it is
    killed."""

    def __init__(self, folder: Path, url: str, inbox: FeedName, name: str, start: Barrier, *, stays: bool) -> None:
        self.log = folder / f"{name}.log"
        self.log.touch()
        self._process = CONTEXT.Process(target=_take, args=(url, inbox, self.log, start, stays), daemon=True)
        self._process.start()

    def taken(self) -> list[str]:
        """The lines of its log so far, without a last line that a kill has cut."""
        return [line[:-1] for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> int | None:
        """Kill it at work; returns its exit code."""
        self._process.kill()
        self._process.join(PATIENCE_S)
        return self._process.exitcode

    def join(self) -> int | None:
        """Wait until it has stopped by itself; returns its exit code."""
        self._process.join(PATIENCE_S)
        return self._process.exitcode


def _take(url: str, inbox: FeedName, log: Path, start: Barrier, stays: bool) -> None:
    asyncio.run(_take_all(url, inbox, log, start, stays))


async def _take_all(url: str, inbox: FeedName, log: Path, start: Barrier, stays: bool) -> None:
    store = await open_store(url)
    with log.open("a", buffering=1) as tell:
        start.wait(PATIENCE_S)
        while items := await store.items.take(inbox, TAKEN_AT_ONCE):
            tell.write("".join(f"{item.id}\n" for item in items))
        if stays:
            await asyncio.Event().wait()
    await store.close()
