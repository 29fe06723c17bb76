"""Looks at feeds, shared: however many wait for however many feeds, one statement at a time asks for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from headrace.model.feed import FeedCursor, FeedName
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.signals import has_changed
from headrace.stores.postgres.transaction import PostgresTx

T = TypeVar("T")
Asked = tuple[FeedName, FeedCursor | None]


class Read(Protocol):
    """Runs a function that only looks."""

    def __call__(self, look: Callable[[Tx], T], /) -> Awaitable[T]: ...


class Looks:
    """Who asks while a look is under way is answered by the next one: it must see everything that was there before."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._asked: dict[Asked, None] = {}
        self._next: asyncio.Task[dict[Asked, bool]] | None = None
        self._under_way: asyncio.Task[dict[Asked, bool]] | None = None

    async def has_changed(self, feed: FeedName, after: FeedCursor | None) -> bool:
        """Whether there is something for a reader at `after`."""
        asked = (feed, after)
        self._asked[asked] = None
        if self._next is None:
            self._next = asyncio.create_task(self._look(self._under_way))
            self._next.add_done_callback(_seen)
        look = self._next
        await asyncio.wait([look])  # who is cancelled leaves the look to the others
        return look.result()[asked]

    async def _look(self, earlier: asyncio.Task[dict[Asked, bool]] | None) -> dict[Asked, bool]:
        if earlier is not None:
            await asyncio.wait([earlier])
        asked, self._asked = list(self._asked), {}
        self._under_way, self._next = self._next, None
        return await self._read(lambda tx: _answers(tx, asked))


def _seen(look: asyncio.Task[dict[Asked, bool]]) -> None:
    """A look that has failed when nobody waits for it any more is nobody's concern."""
    if not look.cancelled():
        look.exception()


def _answers(tx: Tx, asked: list[Asked]) -> dict[Asked, bool]:
    assert isinstance(tx, PostgresTx)
    tx.feeds.read(list(dict.fromkeys(feed for feed, _ in asked)))
    return {(feed, after): has_changed(tx, feed, after) for feed, after in asked}
