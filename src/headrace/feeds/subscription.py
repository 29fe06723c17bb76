"""Subscribes to a feed: its items, then each change, or the changes after a cursor."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client.codec import Codec
from headrace.client.tasks import retry_forever
from headrace.feeds.change import Change, live
from headrace.feeds.hub import Hub, LogPage, hub_of
from headrace.model.errors import Refused
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.limits import CHANGES_PER_BATCH_MAX, FEED_LOOK_MS
from headrace.model.results import Changes
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store
from headrace.stores.shared.waiters import retrieve_error

T = TypeVar("T")


class ChangeStream(ABC):
    """Changes in order: `async for change in stream`, by one task at a time.

    A cancelled wait loses nothing: the next call returns the change. Close it (`async with`, or
    `aclose`) when done; a dropped one is cleaned up after a while.
    """

    def __init__(
        self, store: Store, feed: str, cursor: str | None, *, heartbeat: Duration | None, excluded_instance: str | None
    ) -> None:
        self._store = store
        self._name = feed
        self._cursor = cursor
        self._heartbeat_s = None if heartbeat is None else max(duration_ms("heartbeat", heartbeat), 1) / 1_000
        self._excluded_instance = excluded_instance
        self._last_change_at: float | None = None
        self._changes: Sequence[Change] = ()
        self._index = 0
        self._is_over = False
        self._call: tuple[Hashable, asyncio.Task[Any]] | None = None

    @property
    def cursor(self) -> str | None:
        """The text to resume after the last returned change; None while the first items come."""
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
                elif not await self._fill_before_heartbeat(self._heartbeat_s):
                    change = Change(self._name, "heartbeat", cursor=self._cursor)
                    break
            except asyncio.CancelledError:
                if self._was_closed():
                    raise StopAsyncIteration from None
                raise
            change = self._next()
        if self._heartbeat_s is not None:
            self._last_change_at = asyncio.get_running_loop().time()
        return change

    async def batch(self) -> list[Change]:
        """The buffered changes, at least one and at most 1,000; waits for the first. Empty at the end of a deleted
        feed."""
        try:
            changes = [await anext(self)]
        except StopAsyncIteration:
            return []
        while len(changes) < CHANGES_PER_BATCH_MAX:
            change = self._next()
            if change is not None:
                changes.append(change)
            elif self._is_over or not self._take_ready():
                break
        return changes

    async def aclose(self) -> None:
        """Stop; later reads are at the end."""
        self._changes, self._index, self._is_over = (), 0, True
        self._cancel_call()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def move_to(self, store: Store) -> None:
        """Continue at the same position, on the running event loop and its store."""
        self._store = store

    async def _shared(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of a call to the store. If the wait is cancelled, as by a heartbeat, the call continues, and the
        next wait with the same key joins it."""
        loop = asyncio.get_running_loop()
        if self._call is None or self._call[0] != key or self._call[1].get_loop() is not loop:
            self._cancel_call()
            self._call = key, loop.create_task(make())
            self._call[1].add_done_callback(retrieve_error)
        task: asyncio.Task[T] = self._call[1]
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._call = None

    def _cancel_call(self) -> None:
        if self._call is not None and self._call[1].get_loop() is asyncio.get_running_loop():
            self._call[1].cancel()
        self._call = None

    @abstractmethod
    async def _fill(self) -> None:
        """Wait for changes and `_take` them; may return without any. Changes nothing if cancelled."""

    def _was_closed(self) -> bool:
        """Whether the wait ended because another task closed this stream, and not by a cancel of this task."""
        task = asyncio.current_task()
        return self._is_over and task is not None and not task.cancelling()

    def _take_ready(self) -> bool:
        """Take the next changes without waiting; returns whether there were any."""
        return False

    def _take(self, changes: Sequence[Change], index: int = 0) -> None:
        self._changes, self._index = changes, index

    def _next(self) -> Change | None:
        changes = self._changes
        while self._index < len(changes):
            change = changes[self._index]
            self._index += 1
            self._cursor = change.cursor
            if self._excluded_instance is None or change.instance != self._excluded_instance:
                return change
        return None

    async def _fill_before_heartbeat(self, heartbeat_s: float) -> bool:
        """Wait for changes; returns False if it is time for a heartbeat."""
        if self._last_change_at is None:
            self._last_change_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._last_change_at + heartbeat_s):
                await self._fill()
        except TimeoutError:
            return False
        return True


class Subscription(ChangeStream):
    """Yields the changes of a feed: in order, without a gap, nothing twice.

    Without a cursor the items come first: a `present` for each in order, then `live`. With the cursor of an earlier
    change come the changes since. A subscriber that is too far behind, or whose store lost changes, gets `gap` and then
    the items. After a deletion, `deleted` is the last change.

        async with feed.subscribe(cursor=saved) as subscription:
            async for change in subscription:
                ...
                save(change.cursor)

    Thousands on one event loop share one reader of the log. Store outages are waited for.
    """

    def __init__(
        self,
        store: Store,
        feed: FeedName,
        codec: Codec,
        *,
        cursor: str | None = None,
        heartbeat: Duration | None = None,
        excluded_instance: str | None = None,
        type: Any = Any,
    ) -> None:
        super().__init__(store, feed.name, cursor, heartbeat=heartbeat, excluded_instance=excluded_instance)
        self._feed = feed
        self._codec = codec
        self._type = type
        self._position = None if cursor is None else FeedCursor.parse(cursor)
        """The cursor after the taken changes; None before the items were taken."""
        self._birth = None if self._position is None else self._position.birth
        self._is_at_end = False
        """Whether the log ended at the position, so that the hub may start there."""
        self._is_missing = False
        self._hub: Hub | None = None

    async def aclose(self) -> None:
        await super().aclose()
        self._leave()

    def move_to(self, store: Store) -> None:
        if store is not self._store:
            self._hub = None  # it belongs to the previous event loop
        super().move_to(store)

    def __repr__(self) -> str:
        return f"<Subscription to {str(self._feed)!r} at {self.cursor}>"

    def _leave(self) -> None:
        if self._hub is not None and self._hub.is_usable:
            self._hub.leave(self)
        self._hub = None

    def _join_hub(self) -> Hub:
        if self._hub is None or not self._hub.is_usable:
            self._hub = hub_of(self._store, self._feed)
            self._hub.subscribers.add(self)
        return self._hub

    def _take_ready(self) -> bool:
        if self._position is None or self._hub is None:
            return False
        page = self._hub.page_behind(self._position)
        if page is not None:
            self._take_page(page)
        return page is not None

    async def _fill(self) -> None:
        hub = self._join_hub()
        if self._position is not None:
            while not self._take_ready():
                if hub.end != self._position:
                    await self._catch_up(hub, self._position)
                    return
                await hub.wait()
                if hub.is_over:
                    return  # the next call joins another
        elif self._is_missing:
            self._position = await hub.birth()
            self._is_missing = False
        else:
            await self._begin(hub)

    async def _begin(self, hub: Hub) -> None:
        """Take the items."""
        present = await hub.present()
        as_of = present.as_of
        if as_of is None and self._feed.is_directory:
            self._is_missing = True
            self._take([live(self._feed, None)])
        elif as_of is None and self._birth is None:
            raise Refused("unknown_feed", f"there is no feed {str(self._feed)!r}; create it first")
        elif as_of is None or (self._birth not in (None, as_of.birth) and not self._feed.is_directory):
            await self._finish(hub)
        else:
            self._take(present.changes(self._codec, self._type))
            self._position, self._birth, self._is_at_end = as_of, as_of.birth, True

    async def _catch_up(self, hub: Hub, position: FeedCursor) -> None:
        """Continue at a position where the hub is not: it stopped here, is behind, has not started, or is far ahead."""
        if hub.lost is not None and hub.lost[0] == position:
            await self._start_over(hub, hub.lost[1])
        elif hub.end is None and self._is_at_end:
            hub.follow(position)
        elif hub.end is not None and self._is_at_end and _is_behind(hub.end, position):
            self._is_at_end = False  # if the hub never gets here, the store lost changes: check again
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FEED_LOOK_MS / 1_000):
                    await hub.wait()
        else:
            await self._read(hub, position)

    async def _read(self, hub: Hub, position: FeedCursor) -> None:
        read = partial(retry_forever, lambda: self._store.feeds.changes(self._feed, position))
        answer: Changes = await self._shared(position, read)
        if answer.status != "kept":
            await self._start_over(hub, answer.status)
        elif answer.rows:
            assert answer.cursor is not None  # there are rows
            self._take_page(LogPage(self._feed, position, answer.rows, answer.cursor))
            self._is_at_end = not answer.more
        else:
            self._is_at_end = True

    def _take_page(self, page: LogPage) -> None:
        assert self._position is not None  # the position is after this page
        self._take(page.changes(self._codec, self._type), self._position.seq - page.after.seq)
        self._position, self._is_at_end = page.end, True

    async def _start_over(self, hub: Hub, status: str) -> None:
        """Start over with the items, after a gap of the log."""
        if status == "gone" and not self._feed.is_directory:
            await self._finish(hub)
            return
        self._position, self._is_at_end = None, False
        self._take([Change(self._name, "gap")])

    async def _finish(self, hub: Hub) -> None:
        """Yield `deleted` with its instance, and end."""
        assert self._birth is not None  # the feed existed
        found = await hub.deletion(self._birth)
        instance, at_ms = (None, 0) if found is None else (found.instance, found.at_ms)
        self._take([Change(self._name, "deleted", instance=instance, at_ms=at_ms)])
        self._is_over = True
        self._leave()


def _is_behind(end: FeedCursor, position: FeedCursor) -> bool:
    return end.birth != position.birth or end.seq < position.seq
