"""Follows a feed, a directory or a queue of jobs for `headrace feeds tail`, and knows from where to go on."""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.cli.feeds.cursor_file import CursorFile
from headrace.cli.feeds.options import feed_of
from headrace.cli.feeds.render import Screen
from headrace.cli.options import TENANT
from headrace.cli.queue_lookup import queue_of
from headrace.model.feed import DIRECTORY, FeedName
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from headrace.feeds.change import Change
    from headrace.feeds.subscription import ChangeStream

UNCOUNTED = ("live", "heartbeat")
"""Events that are not about an item: a limit of lines does not count them."""


class Subject(Struct, frozen=True):
    """What is followed: a feed or a queue of jobs."""

    tenant: str
    feed: str | None
    queue: str | None

    @property
    def words(self) -> str:
        """How a person names it to the command."""
        named = f"--queue {self.queue}" if self.feed is None else "--all" if self.feed == DIRECTORY else self.feed
        return named if self.tenant == TENANT else f"{named} --tenant {self.tenant}"


class Start(Struct, frozen=True):
    """From where: behind a cursor, from now on, or from the first that is kept; else with what is there."""

    cursor: str | None
    new: bool
    beginning: bool


class FeedTail:
    """Prints what comes, and keeps the cursor behind the last change that was printed."""

    def __init__(self, screen: Screen, file: CursorFile | None, limit: int | None) -> None:
        self.cursor: str | None = None
        """Behind the last change that was printed; None while there is nothing to go on from."""
        self._screen = screen
        self._file = file
        self._left = limit

    async def run(self, store: Store, subject: Subject, start: Start, for_s: float | None) -> None:
        """Follow until there is no more, the limit or the time is reached, or nobody reads any longer."""
        stream = await _stream(store, subject, start)
        self._keep(stream.cursor)
        scope = asyncio.timeout(for_s)
        try:
            with _until_nobody_reads():
                async with scope, stream:
                    while self._print(await stream.batch()):
                        pass
        except TimeoutError:
            if not scope.expired():
                raise

    def _print(self, changes: "Sequence[Change]") -> bool:
        """Print changes and keep the cursor; whether more is wanted."""
        more, cursor = bool(changes), self.cursor
        for change in changes:
            if change.event == "heartbeat":
                continue
            self._screen.show(change)
            cursor = change.cursor
            if change.event == "deleted" and self._file is not None:
                self._file.forget()  # a feed of the same name that comes later starts anew
            more = change.event != "deleted"
            if self._left is not None and change.event not in UNCOUNTED:
                self._left -= 1
                more = more and self._left > 0
            if not more:
                break
        self._screen.flush()
        self._keep(cursor)
        return more

    def _keep(self, cursor: str | None) -> None:
        self.cursor = cursor
        if self._file is not None and cursor is not None:
            self._file.write(cursor)


async def _stream(store: Store, subject: Subject, start: Start) -> "ChangeStream":
    """What comes; refuses a feed or a queue that is not there."""
    if subject.queue is not None:
        return await _queue_stream(store, subject, start)
    from headrace.client.codec import RAW
    from headrace.feeds.subscription import Subscription

    assert subject.feed is not None  # it is the one or the other
    feed, cursor = FeedName(subject.feed, subject.tenant), start.cursor
    # A directory may be waited for: it comes to be with the first feed.
    state = await store.feeds.describe(feed) if feed.is_directory else await feed_of(store, feed.tenant, feed.name)
    if start.new and state is not None:
        cursor = str(state.cursor)
    return Subscription(store, feed, RAW, cursor=cursor)


async def _queue_stream(store: Store, subject: Subject, start: Start) -> "ChangeStream":
    from headrace.feeds.queue_events import QueueEvents

    assert subject.queue is not None
    queue = await queue_of(store, subject.tenant, subject.queue)
    return QueueEvents(store, queue).subscribe(cursor=start.cursor, beginning=start.beginning)


@contextmanager
def _until_nobody_reads() -> Iterator[None]:
    """Within this block, a reader that closes the pipe ends it at once, not only with the next change."""
    output = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    closed = False

    def end() -> None:
        nonlocal closed
        closed = True
        loop.remove_reader(output)
        if task is not None:
            task.cancel()

    # The writing end of a pipe is never readable, so this tells only that the other end is gone.
    loop.add_reader(output, end)
    try:
        yield
    except asyncio.CancelledError:
        if closed:
            raise BrokenPipeError from None
        raise
    finally:
        with suppress(ValueError):
            loop.remove_reader(output)
