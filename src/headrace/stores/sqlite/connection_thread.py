"""Runs the calls on a SQLite connection one after the other, in its own thread."""

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from headrace.model.errors import StoreUnavailable
from headrace.stores.sqlite.connection import CHECKPOINT_PAGES, configure_writes

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


ROWS_MAX = 500
"""A larger batch goes to the thread: some 5 ms of work, as long as Python lets one thread run before another."""
BYTES_MAX = 128 * 1024
"""A batch with more bytes goes to the thread."""
CALL_PAGES = 6
"""Pages that a call with one job adds to the log."""
ROWS_PER_PAGE = 4
"""Rows, of all tables and indexes, are some 1,000 bytes a job and call."""
BYTES_PER_PAGE = 4_096
CHECKPOINT_AFTER_PAGES = 2_000
"""After about this many pages a write goes to the thread, which checkpoints a long log."""
LOOP_CHECKPOINT_PAGES = 4 * CHECKPOINT_PAGES
"""Should the estimates be so wrong that the log gets this long, the loop checkpoints it: it must not grow for ever."""
SLOW_SECONDS = 0.1
"""A call that took longer had to wait."""
REST = 10
"""After a slow call all writes go to the thread for this many times its duration: the loop loses a tenth of the time at
most."""


class Mode(Enum):
    """Whether a write waits for other writers, and the length of the log at which its commit checkpoints."""

    CHECKPOINT = (True, CHECKPOINT_PAGES)
    """Wait for other writers, and checkpoint a long log."""
    APPEND = (True, LOOP_CHECKPOINT_PAGES)
    """Wait for other writers, and for the disk where the log restarts."""
    LOOP = (False, LOOP_CHECKPOINT_PAGES)
    """Never wait."""


class LoopWriter:
    """Decides in which thread a write runs: on the event loop's own as long as it cannot make the loop wait.

    A hop to the writer's thread and back costs 0.1 ms, most of it the handover of the interpreter lock: more than a
    single enqueue itself. Writes that could wait stay on the writer's thread:

    - for the lock of another writer: on the loop a write that meets a lock gives up and goes to the thread;
    - for the disk: under `fast` a commit only appends to the write-ahead log. A checkpoint waits for the disk, and so
      does the first write after it, which restarts the log. The thread does both, before the log gets long;
    - for anything else, such as a disk too busy to take writes: after a slow call on the loop, all writes go to the
      thread for a while.
    """

    def __init__(self, thread: ConnectionThread, profile: str, timer: Callable[[], float] | None = None) -> None:
        self._thread = thread
        self._is_fast = profile == "fast"
        self._timer = timer or (lambda: asyncio.get_running_loop().time())
        self._current: tuple[sqlite3.Connection, Mode] | None = None
        self._pages = 0
        self._log_may_restart = True
        self._rest_until = 0.0
        self._is_resting = False

    def thread_mode(self, is_short: bool) -> Mode:
        """The mode of a write that runs on the thread."""
        if is_short and self._log_may_restart and not self._is_resting:
            # The thread has written and may have made a checkpoint: this write may restart the log, the next may not.
            self._log_may_restart = False
            return Mode.APPEND
        self._log_may_restart = True
        self._pages = 0
        return Mode.CHECKPOINT

    def set_mode(self, connection: sqlite3.Connection, mode: Mode) -> None:
        """Configure the connection for a write, in the writing thread."""
        if self._current != (connection, mode):
            configure_writes(connection, *mode.value)
            self._current = (connection, mode)

    @property
    def is_on_loop(self) -> bool:
        """Whether the current write must not wait."""
        return self._current is not None and self._current[1] is Mode.LOOP

    def is_short(self, rows: int, size: int) -> bool:
        """Whether a write of this many rows and bytes could run on the loop."""
        return self._is_fast and rows <= ROWS_MAX and size <= BYTES_MAX

    def count(self, rows: int, size: int) -> None:
        """Estimate how far the log has grown."""
        self._pages += CALL_PAGES + rows // ROWS_PER_PAGE + size // BYTES_PER_PAGE

    def write(self, act: Callable[[sqlite3.Connection], T], rows: int, size: int) -> T:
        """Run a short write on the loop; raises Occupied, having done nothing, when it has to go to the thread."""
        began = self._timer()
        self._is_resting = began < self._rest_until
        if self._is_resting or self._log_may_restart or self._pages >= CHECKPOINT_AFTER_PAGES:
            raise Occupied
        self.count(rows, size)
        try:
            return self._thread.run_here(act)
        finally:
            ended = self._timer()
            if ended - began > SLOW_SECONDS:
                self._rest_until = ended + REST * (ended - began)
