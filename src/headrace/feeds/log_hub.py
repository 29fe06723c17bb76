"""Reads a log once for all its subscribers on an event loop: what the hubs of feeds and of job queues share."""

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from headrace.client.tasks import UNANSWERED, feed_backoff
from headrace.stores.contract.store import Store

Position = TypeVar("Position")
HubType = TypeVar("HubType", bound="LogHub[Any]")
Key = tuple[asyncio.AbstractEventLoop, int, Hashable]
_HUBS: dict[Key, "LogHub[Any]"] = {}


def shared_hub(store: Store, log: Hashable, make: Callable[[Key], HubType]) -> HubType:
    """The hub of a log on the running event loop."""
    loop = asyncio.get_running_loop()
    key = loop, id(store), log
    hub: Any = _HUBS.get(key)
    if hub is None:
        _forget_dropped(loop)
        hub = _HUBS[key] = make(key)
    found: HubType = hub
    return found


def _forget_dropped(loop: asyncio.AbstractEventLoop) -> None:
    for key, hub in list(_HUBS.items()):
        if key[0].is_closed():
            _HUBS.pop(key, None)
        elif key[0] is loop and not hub.subscribers:
            hub.stop()


class LogHub(ABC, Generic[Position]):
    """Follows a log for all subscribers of an event loop, each of which keeps its own position.

    It starts at the position of the first subscriber that has reached the end. Its window has the latest changes; a
    subscriber further behind, or elsewhere, reads by itself. So a slow subscriber delays no other, and no buffer grows.
    """

    def __init__(self, key: Key) -> None:
        self.loop = key[0]
        self.end: Position | None = None
        """The position up to which it has read; None while it does not read."""
        self.is_over = False
        self.error: Exception | None = None
        """The unexpected error that ended it."""
        self.subscribers: WeakSet[object] = WeakSet()
        self._key = key
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it may be used on the running event loop."""
        return not self.is_over and self.loop is asyncio.get_running_loop()

    def follow(self, position: Position) -> None:
        """Start to read at a position where the log ended a moment ago, unless it is reading."""
        if self.end is None:
            self.end = position
            # In its own context: it outlives the first request.
            self._reader = self.loop.create_task(self._read(), name="headrace-feed", context=contextvars.Context())

    async def wait(self) -> None:
        """Wait until the hub has read something or cannot continue; raises the error that ended it."""
        # Not an asyncio.Event: a thousand subscribers would each pay for it.
        waiter = self.loop.create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        except BaseException:
            self._waiters.pop(waiter, None)
            raise
        if self.error is not None:
            raise self.error

    def leave(self, subscriber: object) -> None:
        """Remove a subscriber; the last one stops the hub."""
        self.subscribers.discard(subscriber)
        if not self.subscribers:
            self.stop()

    def stop(self) -> None:
        """Stop reading, and remove this hub."""
        if self._reader is not None:
            self._reader.cancel()
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._drop_window()
        if _HUBS.get(self._key) is self:
            del _HUBS[self._key]
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _read(self) -> None:
        backoff = feed_backoff()
        try:
            while self.subscribers:
                try:
                    is_in_vain = await self._advance()
                    if self.end is None:
                        return  # the next subscriber starts it at another position
                except UNANSWERED:
                    await backoff.pause()
                else:
                    if is_in_vain:
                        await backoff.pause()  # woken without a change: avoid a busy loop
                    else:
                        backoff.reset()
            self._end()  # all subscribers were garbage-collected without being closed
        except Exception as error:  # noqa: BLE001 - raised by the subscribers
            self.error = error
            self._end()
        except BaseException:
            self._end()
            raise

    @abstractmethod
    async def _advance(self) -> bool:
        """Wait for changes and read them into the window; whether it was woken in vain."""

    @abstractmethod
    def _drop_window(self) -> None:
        """Drop the changes that were read."""
