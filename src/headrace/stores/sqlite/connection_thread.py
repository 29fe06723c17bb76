"""A lane: one thread that owns one connection and runs calls on it, one after the other."""

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
_Job = tuple[Callable[[sqlite3.Connection], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Occupied(Exception):
    """A call cannot run outside the lane's thread now; nothing was done."""


class ConnectionThread:
    """Keeps SQLite's waiting (locks, fsync) out of the event loop. The thread and its connection come with the first
    call, and come anew in a forked process: neither may be carried over a fork."""

    def __init__(self, name: str, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._name = name
        self._open = open_connection
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._in_use = threading.Lock()
        self._pid = 0
        self._closed = False

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` on the lane's connection and return what it returns."""
        if self._closed:
            raise StoreUnavailable("the SQLite store was closed; open a new one")
        if self._thread is None or self._pid != os.getpid():
            self._start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._queue.put((act, loop, answer))
        return await answer

    def run_here(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in the calling thread on the lane's connection, while the lane has nothing to do."""
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

    def _work(self, todo: "queue.SimpleQueue[_Job | None]", in_use: threading.Lock) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while (job := todo.get()) is not None:
                act, loop, answer = job
                try:
                    with in_use:
                        if connection is None:
                            connection = self._connection = self._open()
                        result = act(connection)
                except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the caller
                    _tell(loop, answer, answer.set_exception, error)
                else:
                    _tell(loop, answer, answer.set_result, result)
        finally:
            if connection is not None:
                with in_use:
                    self._connection = None
                    connection.close()

    async def close(self) -> None:
        """Finish what was asked, then let go of the connection."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None and self._pid == os.getpid():
            self._queue.put(None)
            thread = self._thread
            await asyncio.get_running_loop().run_in_executor(None, thread.join)


def _tell(
    loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Any]", say: Callable[[Any], None], what: object
) -> None:
    def deliver() -> None:
        if not answer.done():
            say(what)

    # The caller's loop may be gone; then nobody waits for the answer.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(deliver)
