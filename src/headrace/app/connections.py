"""Opens an app's store: one client for each event loop, and stores for workers."""

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
    """One client per event loop, opened at the first use, closed with its loop at the latest.

    A store in memory is shared by all loops and never closed: it holds the jobs.
    """

    def __init__(self, url: Callable[[], str], new_client: Callable[[Store], Client]) -> None:
        self._url = url
        self._new_client = new_client
        self._openings: dict[asyncio.AbstractEventLoop, asyncio.Task[Client]] = {}
        self._open_clients: dict[asyncio.AbstractEventLoop, AsyncGenerator[Client, None]] = {}
        self._memory: Store | None = None

    async def client(self) -> Client:
        """The client of the running loop; opened once, even if many tasks need it at the same time."""
        loop = asyncio.get_running_loop()
        opening = self._openings.get(loop)
        if opening is None or _failed(opening):
            self._forget_closed()
            # In an empty context: tasks that the store starts outlive the first request and its context variables.
            opening = loop.create_task(self._open(loop), name="headrace-open", context=contextvars.Context())
            self._openings[loop] = opening
        # Shielded: other tasks wait for the same opening, and must not be cancelled with this one.
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def close(self) -> None:
        """Close the client of the running loop, if it has one; the next call opens another."""
        loop = asyncio.get_running_loop()
        opening = self._openings.pop(loop, None)
        if opening is not None:
            await asyncio.wait([opening])
            if (open_client := self._open_clients.pop(loop, None)) is not None:
                await open_client.aclose()

    @property
    def reopen(self) -> Callable[[], Awaitable[Store]] | None:
        """Opens a second connection to the same store; None for a store in memory."""
        url = self._url()
        return None if is_memory(url) else partial(open_store, url)

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Store]:
        """A separate store, closed after the block; the shared store when it is in memory."""
        store = await self._store()
        try:
            yield store
        finally:
            await self._close_store(store)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Client:
        open_client = self._keep_open()
        client = await anext(open_client)
        self._open_clients[loop] = open_client
        return client

    async def _keep_open(self) -> "AsyncGenerator[Client, None]":
        # A generator, because an event loop closes open generators before it ends: an app that was never closed leaves
        # no connection behind. It uses no other generator: the loop closes all of them at once.
        store = await self._store()
        try:
            yield self._new_client(store)
        finally:
            await self._close_store(store)

    async def _store(self) -> Store:
        url = self._url()
        if not is_memory(url):
            return await open_store(url)
        if self._memory is None:
            self._memory = await open_store(url)
        return self._memory

    async def _close_store(self, store: Store) -> None:
        if store is not self._memory:
            await store.close()

    def _forget_closed(self) -> None:
        for loop in [loop for loop in list(self._openings) if loop.is_closed()]:
            self._openings.pop(loop, None)
            self._open_clients.pop(loop, None)


def _failed(opening: "asyncio.Task[Client]") -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


class BorrowedStore:
    """Stands in for `Connections` while a store is lent to the app: a store for every event loop, never closed."""

    reopen = None
    """A borrowed store has no second connection."""

    def __init__(self, store: Store, maker: JobMaker, new_client: Callable[[Store], Client]) -> None:
        self.maker = maker
        self.blocking: BlockingClient = BorrowedBlockingClient(store, maker, new_client)
        self._store = store
        self._new_client = new_client
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    async def client(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._new_client(self._store)
        return self._clients[loop]

    async def close(self) -> None:
        """Forget the client of the running loop."""
        self._clients.pop(asyncio.get_running_loop(), None)

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Store]:
        """The store, which stays open."""
        yield self._store


class BorrowedBlockingClient(BlockingClient):
    """A blocking client on a borrowed store; it neither opens nor closes the store."""

    def __init__(self, store: Store, maker: JobMaker, new_client: Callable[[Store], Client]) -> None:
        super().__init__("lent:", tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec)
        self.maker = maker
        self._store = store
        self._new_client = new_client

    def __reduce__(self) -> NoReturn:
        raise Refused(
            "not_here", "a client of a store that was lent to an app stays in this process; send from here, or by URL"
        )

    async def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            self._opened = loop, self._new_client(self._store)
        return self._opened[1]

    async def _close(self) -> None:
        self._opened = None
