"""Publishers and a subscriber as processes of their own, for the run that kills the subscriber and resumes it."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from headrace.feeds.change import Change
from headrace.feeds.feed import Feed, SortedFeed
from headrace.feeds.feeds import Feeds
from headrace.feeds.subscription import ChangeStream, Subscription
from headrace.model.feed import FeedCursor, FeedName
from headrace.stores.open import open_store

TENANT = "proof"
NEWS, BOARD = FeedName("news", TENANT), FeedName("board", TENANT)
GAP = "gap"


def publish(url: str, number: int, tasks: int, pace_s: float, stop: Path) -> None:
    """A process of publishers: each publishes to both feeds, in an order of its own, until there is a file `stop`."""
    asyncio.run(_publish(url, number, tasks, pace_s, stop))


async def _publish(url: str, number: int, tasks: int, pace_s: float, stop: Path) -> None:
    store = await open_store(url)
    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            feeds = Feeds(store, tenant=TENANT, instance=f"publisher-{number}.{task}")
            group.create_task(_publish_in_order(feeds, pace_s, stop))
    await store.close()


async def _publish_in_order(feeds: Feeds, pace_s: float, stop: Path) -> None:
    news, board = await feeds.feed(NEWS.name), await feeds.sorted(BOARD.name)
    number = 0
    while not stop.exists():  # noqa: ASYNC240 - a file is what another process can see
        await asyncio.sleep(pace_s)
        number += 1
        await news.publish(number, id=f"{feeds.instance}-{number}")
        await _arrange(board, number)
    (stop.parent / f"{feeds.instance}.count").write_text(str(number))


async def _arrange(board: SortedFeed, number: int) -> None:
    """Something of every kind, so that nothing is left of it."""
    id = await board.append(number)
    if number % 4 == 0:
        other = await board.before(id, number)
        await board.move(id, first=True)
        await board.retract(other)
    elif number % 4 == 1:
        await board.edit(id, number)
    await board.retract(id)


class Notes:
    """What a subscriber has seen of a feed, a line for each change with the cursor behind it: written whole or not at
    all, and kept whatever becomes of the process."""

    def __init__(self, folder: Path, feed: FeedName) -> None:
        self.path = folder / f"{feed.name}.seen"

    def lines(self) -> list[list[str]]:
        """Cursor, event, id and instance of each; a line that a kill cut off was not seen."""
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def last_seq(self) -> int:
        """The highest number of a change among those noted last; 0 when there is none."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - 10_000))
            lines = [line.split() for line in file.read().decode().split("\n")[1:-1]]
        return max((FeedCursor.parse(line[0]).seq for line in lines if line[1] != GAP), default=0)

    def open(self) -> tuple[int, str | None]:
        """The file to go on with, and the cursor to go on from."""
        lines = self.lines()
        cursor = next((line[0] for line in reversed(lines) if line[1] != GAP), None)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.truncate(file, sum(len(" ".join(line)) + 1 for line in lines))
        return file, cursor


def line_of(change: Change) -> str | None:
    """How a change is noted; one without a cursor leaves nothing to go on from, unless it is a gap."""
    if change.cursor is None and change.event != GAP:
        return None
    return f"{change.cursor} {change.event} {change.id or '-'} {change.instance or '-'}\n"


def subscribe(url: str, folder: Path, fault: str | None) -> None:
    """A process that follows both feeds from where its notes end, until it is killed."""
    if fault is not None:
        FAULTS[fault]()
    asyncio.run(_subscribe(url, folder))


async def _subscribe(url: str, folder: Path) -> None:
    logging.disable(logging.WARNING)
    store = await open_store(url)
    feeds = Feeds(store, tenant=TENANT)
    async with asyncio.TaskGroup() as group:
        for feed in (await feeds.feed(NEWS.name), await feeds.sorted(BOARD.name)):
            group.create_task(_follow(feed, Notes(folder, feed.feed)))


async def _follow(feed: Feed | SortedFeed, notes: Notes) -> None:
    file, cursor = notes.open()
    async for change in feed.subscribe(cursor=cursor):
        if (line := line_of(change)) is not None:
            os.write(file, line.encode())


# Faults that the check must find.


def skip_one() -> None:
    """A subscription loses the first of several changes that it reads at once."""
    _change_what_is_taken(lambda changes: changes[1:])


def turn_two_round() -> None:
    """A subscription yields two changes in the wrong order."""
    _change_what_is_taken(lambda changes: [changes[1], changes[0], *changes[2:]])


def _change_what_is_taken(change: Any) -> None:
    old = ChangeStream._take

    def take(self: ChangeStream, changes: Sequence[Change], index: int = 0) -> None:
        left = changes[index:]
        is_broken = len(left) > 1 and left[0].event not in ("present", "live")
        old(self, change(left) if is_broken else left)

    ChangeStream._take = take  # type: ignore[method-assign]


def resume_early() -> None:
    """A subscription starts one change before its cursor."""
    old = Subscription.__init__

    def init(self: Subscription, *args: Any, **given: Any) -> None:
        old(self, *args, **given)
        if self._position is not None:
            self._position = replace(self._position, seq=self._position.seq - 1)

    Subscription.__init__ = init  # type: ignore[method-assign]


FAULTS = {fault.__name__: fault for fault in (skip_one, turn_two_round, resume_early)}
