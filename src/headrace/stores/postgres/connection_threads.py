"""Runs calls in a bounded set of threads, each on a connection of the pool."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from headrace.model.errors import StoreUnavailable
from headrace.stores.postgres.connection import Connection, ConnectionSettings, Pool, connect, pool_of
from headrace.stores.postgres.errors import connect_error, headrace_error

T = TypeVar("T")
CLOSE_SECONDS = 5


class ConnectionThreads:
    """Keeps the waiting for the server out of the event loop. A cancelled call lets its thread finish, so its answer
    never reaches the next call on the connection. The first call opens threads and connections, and so does the first
    one of a forked process: neither survives a fork."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self.on_connect: Callable[[Connection], object] = lambda _: None
        """Called with each new connection before it is used."""
        self._open: tuple[Pool, ThreadPoolExecutor] | None = None
        self._parent_pools: list[object] = []
        self._pid = 0
        self._has_connected = False
        self._closed = False

    async def run(self, act: Callable[[Connection], T]) -> T:
        """Run `act` on a connection of the pool and return what it returns."""
        if self._closed:
            raise StoreUnavailable("the PostgreSQL store was closed; open a new one")
        pool, threads = self._open_pool()
        return await asyncio.get_running_loop().run_in_executor(threads, self._on_connection, pool, act)

    def _open_pool(self) -> tuple[Pool, ThreadPoolExecutor]:
        if self._open is None or self._pid != os.getpid():
            self._parent_pools.append(self._open)  # the parent's: freeing it here would close the parent's connections
            self._pid = os.getpid()
            pool = pool_of(self._settings, self._on_connect)
            pool.open()
            self._open = (pool, ThreadPoolExecutor(self._settings.connections, "headrace-postgres"))
        return self._open

    def _on_connect(self, connection: Connection) -> None:
        self.on_connect(connection)  # the present one: it is set after the pool was made

    def _on_connection(self, pool: Pool, act: Callable[[Connection], T]) -> T:
        try:
            if not self._has_connected:
                # The pool would retry for seconds, and then hide the reason.
                connect(self._settings).close()
                self._has_connected = True
            connection = pool.getconn()
        except psycopg.Error as error:
            address = self._settings.address
            raise (headrace_error if self._has_connected else connect_error)(error, address) from error
        try:
            return act(connection)
        finally:
            pool.putconn(connection)

    async def close(self) -> None:
        """Finish the calls under way, then close the connections."""
        if self._closed:
            return
        self._closed = True
        if self._open is not None and self._pid == os.getpid():
            pool, threads = self._open
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, threads.shutdown)
            await loop.run_in_executor(None, pool.close, CLOSE_SECONDS)
