"""An open store that is lent to an app: it takes the place of the one at the URL, and outlives its users."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn
from weakref import WeakKeyDictionary

from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.options import JobMaker
from headrace.model.errors import Refused
from headrace.stores.contract.store import Store


class Lent:
    """What an app uses while a store is lent to it. The store may be asked on every event loop, and is not closed."""

    reopen = None
    """A lent store cannot be opened once more."""

    def __init__(self, store: Store, maker: JobMaker, client_of: Callable[[Store], Client]) -> None:
        self.maker = maker
        self.blocking: BlockingClient = LentBlocking(store, maker, client_of)
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


class LentBlocking(BlockingClient):
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
