"""Opens an app's store: a client for each event loop that asks, and stores for workers."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from headrace.app.address import is_memory
from headrace.client.client import Client
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Connections:
    """One client per event loop, opened when it is first asked for and closed with its loop at the latest.

    A store in memory is one store for all loops, one after the other, and is never closed: its jobs are in it.
    """

    def __init__(self, url: Callable[[], str], client_of: Callable[[Store], Client]) -> None:
        self._url = url
        self._client_of = client_of
        self._openings: dict[asyncio.AbstractEventLoop, asyncio.Task[Client]] = {}
        self._holdings: dict[asyncio.AbstractEventLoop, AsyncGenerator[Client, None]] = {}
        self._memory: Store | None = None

    async def client(self) -> Client:
        """The client of the running loop; opened once, also when many tasks ask at the same time."""
        loop = asyncio.get_running_loop()
        opening = self._openings.get(loop)
        if opening is None or _failed(opening):
            self._forget_closed()
            # In a context of its own: what the store starts lives on, and is not about the request that came first.
            opening = loop.create_task(self._open(loop), name="headrace-open", context=contextvars.Context())
            self._openings[loop] = opening
        # Not a part of the asking task: the others that wait for it must not be cancelled with it.
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def close(self) -> None:
        """Close the client of the running loop, if it has one; the next call opens another."""
        loop = asyncio.get_running_loop()
        opening = self._openings.pop(loop, None)
        if opening is not None:
            await asyncio.wait([opening])
            if (holding := self._holdings.pop(loop, None)) is not None:
                await holding.aclose()

    @property
    def reopen(self) -> Callable[[], Awaitable[Store]] | None:
        """Opens the same store once more; None for one in memory, of which there is one."""
        url = self._url()
        return None if is_memory(url) else partial(open_store, url)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """A store of one's own, closed behind the block; the one store when it is in memory."""
        store = await self._store()
        try:
            yield store
        finally:
            await self._let_go(store)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Client:
        holding = self._holding()
        client = await anext(holding)
        self._holdings[loop] = holding
        return client

    async def _holding(self) -> "AsyncGenerator[Client, None]":
        # A generator, because an event loop closes the generators that are still open before it ends: whoever forgets
        # to close the app still leaves no connection behind. It uses no other one: the loop closes all at once.
        store = await self._store()
        try:
            yield self._client_of(store)
        finally:
            await self._let_go(store)

    async def _store(self) -> Store:
        url = self._url()
        if not is_memory(url):
            return await open_store(url)
        if self._memory is None:
            self._memory = await open_store(url)
        return self._memory

    async def _let_go(self, store: Store) -> None:
        if store is not self._memory:
            await store.close()

    def _forget_closed(self) -> None:
        for loop in [loop for loop in list(self._openings) if loop.is_closed()]:
            self._openings.pop(loop, None)
            self._holdings.pop(loop, None)


def _failed(opening: "asyncio.Task[Client]") -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
