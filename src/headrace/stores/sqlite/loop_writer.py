"""Runs short writes on the event loop's own thread, as long as they cannot make the loop wait.

A hop to the writer's thread and back costs 0.1 ms, most of it the handover of the interpreter lock: more than a single
enqueue itself. Writes that could wait stay on the writer's thread:

- for the lock of another writer: on the loop a write that meets a lock gives up and goes to the thread;
- for the disk: under `fast` a commit only appends to the write-ahead log. A checkpoint waits for the disk, and so does
  the first write after it, which restarts the log. The thread does both, before the log gets long;
- for anything else, such as a disk too busy to take writes: after a slow call on the loop, all writes go to the thread
  for a while.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from headrace.stores.sqlite.connection import CHECKPOINT_PAGES, configure_writes
from headrace.stores.sqlite.connection_thread import ConnectionThread, Occupied

T = TypeVar("T")
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
    """Decides in which thread a write runs, and configures the connection for it."""

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
