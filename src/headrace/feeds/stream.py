"""A stream of changes: one after the other, or batch by batch, with heartbeats in between."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Hashable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.feeds.change import Change
from headrace.feeds.flights import seen
from headrace.model.limits import TOLD_PER_BATCH_MAX
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store

T = TypeVar("T")


class Stream(ABC):
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
            self._asking[1].add_done_callback(seen)
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
