"""Runs the calls on a SQLite connection one after the other, in its own thread."""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.model.errors import StoreUnavailable

T = TypeVar("T")
_Call = tuple[Callable[[sqlite3.Connection], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Occupied(Exception):
    """The connection cannot be used outside its thread now; nothing was done."""


class ConnectionThread:
    """Keeps SQLite's waits (locks, fsync) out of the event loop. The first call starts the thread and opens the
    connection; so does the first call in a forked process, since neither survives a fork."""

    def __init__(self, name: str, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._name = name
        self._open = open_connection
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._in_use = threading.Lock()
        self._pid = 0
        self._closed = False

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` on the connection in its thread and return the result."""
        if self._closed:
            raise StoreUnavailable("the SQLite store was closed; open a new one")
        if self._thread is None or self._pid != os.getpid():
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((act, loop, future))
        return await future

    def run_here(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` on the connection in the calling thread; raises Occupied while the connection is in use."""
        if self._closed or self._pid != os.getpid() or not self._queue.empty():
            raise Occupied
        if not self._in_use.acquire(blocking=False):
            raise Occupied
        try:
            if self._connection is None:
                raise Occupied
            return act(self._connection)
        finally:
            self._in_use.release()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._queue, self._in_use, self._connection = queue.SimpleQueue(), threading.Lock(), None
        self._thread = threading.Thread(
            target=self._work, args=(self._queue, self._in_use), name=self._name, daemon=True
        )
        self._thread.start()

    def _work(self, calls: "queue.SimpleQueue[_Call | None]", in_use: threading.Lock) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while (call := calls.get()) is not None:
                act, loop, future = call
                try:
                    with in_use:
                        if connection is None:
                            connection = self._connection = self._open()
                        result = act(connection)
                except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
                    _deliver(loop, future, future.set_exception, error)
                else:
                    _deliver(loop, future, future.set_result, result)
        finally:
            if connection is not None:
                with in_use:
                    self._connection = None
                    connection.close()

    async def close(self) -> None:
        """Finish the calls that were queued, then close the connection."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None and self._pid == os.getpid():
            self._queue.put(None)
            thread = self._thread
            await asyncio.get_running_loop().run_in_executor(None, thread.join)


def _deliver(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", setter: Callable[[Any], None], result: object
) -> None:
    def deliver() -> None:
        if not future.done():
            setter(result)

    # A closed loop has no waiter for the result.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(deliver)
