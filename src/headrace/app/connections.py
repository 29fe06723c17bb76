"""Opens an app's store: a client for each event loop that asks, and stores for workers."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakKeyDictionary

from headrace.app.discovery import is_memory
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.options import JobMaker
from headrace.model.errors import Refused
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


class BorrowedStore:
    """What an app uses while a store is lent to it. The store may be asked on every event loop, and is not closed."""

    reopen = None
    """A lent store cannot be opened once more."""

    def __init__(self, store: Store, maker: JobMaker, client_of: Callable[[Store], Client]) -> None:
        self.maker = maker
        self.blocking: BlockingClient = BorrowedBlockingClient(store, maker, client_of)
        self._store = store
        self._client_of = client_of
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    async def client(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._client_of(self._store)
        return self._clients[loop]

    async def close(self) -> None:
        """Forget the client of the running loop."""
        self._clients.pop(asyncio.get_running_loop(), None)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """The store, which stays open."""
        yield self._store


class BorrowedBlockingClient(BlockingClient):
    """A blocking client on a store that somebody else has opened, and will close."""

    def __init__(self, store: Store, maker: JobMaker, client_of: Callable[[Store], Client]) -> None:
        super().__init__("lent:", tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec)
        self.maker = maker
        self._store = store
        self._client_of = client_of

    def __reduce__(self) -> NoReturn:
        raise Refused(
            "not_here", "a client of a store that was lent to an app stays in this process; send from here, or by URL"
        )

    async def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            self._opened = loop, self._client_of(self._store)
        return self._opened[1]

    async def _close(self) -> None:
        self._opened = None
