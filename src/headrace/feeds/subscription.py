"""A subscription: what is there in a feed, then what changes, from any cursor on."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client.codec import Codec
from headrace.client.retry import retry_forever
from headrace.feeds.change import Change, live
from headrace.feeds.hub import Hub, LogPage, hub_of
from headrace.model.errors import Refused
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.limits import FEED_LOOK_MS, TOLD_PER_BATCH_MAX
from headrace.model.results import Changes
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store
from headrace.stores.shared.singleflight import retrieve_error

T = TypeVar("T")


class ChangeStream(ABC):
    """Changes in order: `async for change in stream`. One task at a time may ask.

    Whoever is cancelled while it waits has missed nothing: the next call gets the change that would have come. Close it
    (`async with`, or `aclose`) when done; one that is dropped is found out after a while.
    """

    def __init__(
        self, store: Store, feed: str, cursor: str | None, *, heartbeat: Duration | None, left_out: str | None
    ) -> None:
        self._store = store
        self._name = feed
        self._cursor = cursor
        self._heartbeat_s = None if heartbeat is None else max(duration_ms("heartbeat", heartbeat), 1) / 1_000
        self._left_out = left_out
        self._told_at: float | None = None
        self._changes: Sequence[Change] = ()
        self._at = 0
        self._is_over = False
        self._asking: tuple[Hashable, asyncio.Task[Any]] | None = None

    @property
    def cursor(self) -> str | None:
        """The text to resume behind the last change that was handed out; None while the first items are told."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        change = self._next()
        while change is None:
            if self._is_over:
                raise StopAsyncIteration
            try:
                if self._heartbeat_s is None:
                    await self._fill()
                elif not await self._filled(self._heartbeat_s):
                    change = Change(self._name, "heartbeat", cursor=self._cursor)
                    break
            except asyncio.CancelledError:
                if self._was_closed():
                    raise StopAsyncIteration from None
                raise
            change = self._next()
        if self._heartbeat_s is not None:
            self._told_at = asyncio.get_running_loop().time()
        return change

    async def batch(self) -> list[Change]:
        """All changes that are at hand, at least one and at most 1,000; waits for the first. Empty at the end of a feed
        that was deleted, where `async for` would end."""
        try:
            changes = [await anext(self)]
        except StopAsyncIteration:
            return []
        while len(changes) < TOLD_PER_BATCH_MAX:
            change = self._next()
            if change is not None:
                changes.append(change)
            elif self._is_over or not self._at_hand():
                break
        return changes

    async def aclose(self) -> None:
        """Stop; whoever asks afterwards is at the end."""
        self._changes, self._at, self._is_over = (), 0, True
        self._break_off()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def move_to(self, store: Store) -> None:
        """Go on from the same place, on the running event loop and its store."""
        self._store = store

    async def _unbroken(self, key: Hashable, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a look at the store finds; cancelled, as by a heartbeat, it goes on, and is joined for the same key."""
        loop = asyncio.get_running_loop()
        if self._asking is None or self._asking[0] != key or self._asking[1].get_loop() is not loop:
            self._break_off()
            self._asking = key, loop.create_task(look())
            self._asking[1].add_done_callback(retrieve_error)
        task: asyncio.Task[T] = self._asking[1]
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._asking = None

    def _break_off(self) -> None:
        if self._asking is not None and self._asking[1].get_loop() is asyncio.get_running_loop():
            self._asking[1].cancel()
        self._asking = None

    @abstractmethod
    async def _fill(self) -> None:
        """Wait for changes and `_take` them; may return without any. Cancelled, it has changed nothing."""

    def _was_closed(self) -> bool:
        """Whether what was waited for ended because somebody else closed this, and nobody cancelled who waits."""
        task = asyncio.current_task()
        return self._is_over and task is not None and not task.cancelling()

    def _at_hand(self) -> bool:
        """Take what is there without waiting; whether anything was."""
        return False

    def _take(self, changes: Sequence[Change], at: int = 0) -> None:
        self._changes, self._at = changes, at

    def _next(self) -> Change | None:
        changes = self._changes
        while self._at < len(changes):
            change = changes[self._at]
            self._at += 1
            self._cursor = change.cursor
            if self._left_out is None or change.instance != self._left_out:
                return change
        return None

    async def _filled(self, heartbeat_s: float) -> bool:
        """Wait for changes; False when it is time for a heartbeat."""
        if self._told_at is None:
            self._told_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._told_at + heartbeat_s):
                await self._fill()
        except TimeoutError:
            return False
        return True


class Subscription(ChangeStream):
    """Tells what changes in a feed: in order, without a gap, nothing twice.

    Without a cursor it first tells what is there: a `present` for every item in order, then `live`. With the cursor of
    an earlier change it tells what has changed since. One that is too far behind, or whose store lost something, is
    told `gap`, and then what is there. When the feed is deleted, `deleted` is the last change, and the end.

        async with feed.subscribe(cursor=saved) as subscription:
            async for change in subscription:
                ...
                save(change.cursor)

    Thousands on one event loop share one reader of the log. A store that is away is waited for.
    """

    def __init__(
        self,
        store: Store,
        feed: FeedName,
        codec: Codec,
        *,
        cursor: str | None = None,
        heartbeat: Duration | None = None,
        left_out: str | None = None,
        type: Any = Any,
    ) -> None:
        super().__init__(store, feed.name, cursor, heartbeat=heartbeat, left_out=left_out)
        self._feed = feed
        self._codec = codec
        self._type = type
        self._position = None if cursor is None else FeedCursor.parse(cursor)
        """Behind the changes that were taken; None before the items that are there were."""
        self._birth = None if self._position is None else self._position.birth
        self._is_at_end = False
        """Whether the log was seen to end at the position, so that the hub may go on from there."""
        self._is_unborn = False
        self._hub: Hub | None = None

    async def aclose(self) -> None:
        await super().aclose()
        self._leave()

    def move_to(self, store: Store) -> None:
        if store is not self._store:
            self._hub = None  # it went with the event loop
        super().move_to(store)

    def __repr__(self) -> str:
        return f"<Subscription to {str(self._feed)!r} at {self.cursor}>"

    def _leave(self) -> None:
        if self._hub is not None and self._hub.is_here:
            self._hub.leave(self)
        self._hub = None

    def _joined(self) -> Hub:
        if self._hub is None or not self._hub.is_here:
            self._hub = hub_of(self._store, self._feed)
            self._hub.subscribers.add(self)
        return self._hub

    def _at_hand(self) -> bool:
        if self._position is None or self._hub is None:
            return False
        page = self._hub.page_behind(self._position)
        if page is not None:
            self._take_page(page)
        return page is not None

    async def _fill(self) -> None:
        hub = self._joined()
        if self._position is not None:
            while not self._at_hand():
                if hub.end != self._position:
                    await self._catch_up(hub, self._position)
                    return
                await self._moved(hub)
                if hub.is_over:
                    return  # and join another
        elif self._is_unborn:
            self._position = await hub.birth()
            self._is_unborn = False
        else:
            await self._begin(hub)

    async def _moved(self, hub: Hub) -> None:
        waiter = hub.waiter()
        try:
            await waiter
        except BaseException:
            hub.forget(waiter)
            raise
        if hub.error is not None:
            raise hub.error

    async def _begin(self, hub: Hub) -> None:
        """Take what is there."""
        present = await hub.present()
        as_of = present.as_of
        if as_of is None and self._feed.is_directory:
            self._is_unborn = True
            self._take([live(self._feed, None)])
        elif as_of is None and self._birth is None:
            raise Refused("unknown_feed", f"there is no feed {str(self._feed)!r}; create it first")
        elif as_of is None or (self._birth not in (None, as_of.birth) and not self._feed.is_directory):
            await self._finish(hub)
        else:
            self._take(present.changes(self._codec, self._type))
            self._position, self._birth, self._is_at_end = as_of, as_of.birth, True

    async def _catch_up(self, hub: Hub, position: FeedCursor) -> None:
        """Go on where the hub is not: it has lost its way here, is behind, has not begun, or is far ahead."""
        if hub.lost is not None and hub.lost[0] == position:
            await self._go_on(hub, hub.lost[1])
        elif hub.end is None and self._is_at_end:
            hub.follow(position)
        elif hub.end is not None and self._is_at_end and _is_behind(hub.end, position):
            self._is_at_end = False  # should the hub never come here, the store has lost something: look again
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FEED_LOOK_MS / 1_000):
                    await self._moved(hub)
        else:
            await self._read(hub, position)

    async def _read(self, hub: Hub, position: FeedCursor) -> None:
        look = partial(retry_forever, lambda: self._store.feeds.changes(self._feed, position))
        answer: Changes = await self._unbroken(position, look)
        if answer.status != "kept":
            await self._go_on(hub, answer.status)
        elif answer.rows:
            assert answer.cursor is not None  # there are rows
            self._take_page(LogPage(self._feed, position, answer.rows, answer.cursor))
            self._is_at_end = not answer.more
        else:
            self._is_at_end = True

    def _take_page(self, page: LogPage) -> None:
        assert self._position is not None  # the page is behind it
        self._take(page.changes(self._codec, self._type), self._position.seq - page.after.seq)
        self._position, self._is_at_end = page.end, True

    async def _go_on(self, hub: Hub, status: str) -> None:
        """Go on where the log does not."""
        if status == "gone" and not self._feed.is_directory:
            await self._finish(hub)
            return
        self._position, self._is_at_end = None, False
        self._take([Change(self._name, "gap")])

    async def _finish(self, hub: Hub) -> None:
        """The feed is gone: tell by whom, and end."""
        assert self._birth is not None  # it was there
        found = await hub.deletion(self._birth)
        instance, at_ms = (None, 0) if found is None else (found.instance, found.at_ms)
        self._take([Change(self._name, "deleted", instance=instance, at_ms=at_ms)])
        self._is_over = True
        self._leave()


def _is_behind(end: FeedCursor, position: FeedCursor) -> bool:
    return end.birth != position.birth or end.seq < position.seq
