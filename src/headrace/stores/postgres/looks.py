"""Polls feeds for all waiters at once: one statement at a time, however many wait for however many feeds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from headrace.model.feed import FeedCursor, FeedName
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.signals import has_changed
from headrace.stores.postgres.transaction import PostgresTx

T = TypeVar("T")
FeedPosition = tuple[FeedName, FeedCursor | None]


class Read(Protocol):
    """Runs a function that only reads."""

    def __call__(self, poll: Callable[[Tx], T], /) -> Awaitable[T]: ...


class FeedPolls:
    """A caller during a poll is answered by the next one, which sees every change before the call."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._pending: dict[FeedPosition, None] = {}
        self._next: asyncio.Task[dict[FeedPosition, bool]] | None = None
        self._under_way: asyncio.Task[dict[FeedPosition, bool]] | None = None

    async def has_changed(self, feed: FeedName, after: FeedCursor | None) -> bool:
        """Whether a reader at `after` has something to read."""
        pending = (feed, after)
        self._pending[pending] = None
        if self._next is None:
            self._next = asyncio.create_task(self._poll(self._under_way))
            self._next.add_done_callback(_retrieve)
        poll = self._next
        await asyncio.wait([poll])  # a cancelled caller leaves the poll to the others
        return poll.result()[pending]

    async def _poll(self, earlier: asyncio.Task[dict[FeedPosition, bool]] | None) -> dict[FeedPosition, bool]:
        if earlier is not None:
            await asyncio.wait([earlier])
        pending, self._pending = list(self._pending), {}
        self._under_way, self._next = self._next, None
        return await self._read(lambda tx: _check(tx, pending))


def _retrieve(poll: asyncio.Task[dict[FeedPosition, bool]]) -> None:
    """Retrieve the error of a poll, so that one without waiters is not logged."""
    if not poll.cancelled():
        poll.exception()


def _check(tx: Tx, pending: list[FeedPosition]) -> dict[FeedPosition, bool]:
    assert isinstance(tx, PostgresTx)
    tx.feeds.read(list(dict.fromkeys(feed for feed, _ in pending)))
    return {(feed, after): has_changed(tx, feed, after) for feed, after in pending}
