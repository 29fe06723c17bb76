"""Runs short writes on the event loop's own thread, as long as nothing there can make the loop wait.

A hop to the lane's thread and back costs 0.1 ms, most of it the handover of the interpreter lock: more than a single
enqueue itself. What could wait stays on the lane:

- the lock of another writer: here nothing waits for it, the call goes to the lane at once;
- the disk: under `fast` a commit only appends to the log. Folding the log into the file waits for the disk, and so
  does the first write after that, which begins the log anew. Both are done by the lane, in good time;
- anything else, such as a disk that is too busy to take writes: after a call that took long the lane has all of them
  for a while.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from headrace.stores.sqlite.connection import CHECKPOINT_PAGES, set_waits
from headrace.stores.sqlite.connection_thread import ConnectionThread, Occupied

T = TypeVar("T")
ROWS_MAX = 500
"""A larger batch goes to the lane: some 5 ms of work, as long as Python lets one thread run before another."""
BYTES_MAX = 128 * 1024
"""A batch with more bytes goes to the lane."""
CALL_PAGES = 6
"""Pages that a call of one job adds to the log."""
ROWS_PER_PAGE = 4
"""Rows, of all tables and indexes, are some 1,000 bytes a job and call."""
BYTES_PER_PAGE = 4_096
FOLD_AFTER_PAGES = 2_000
"""About so many pages on the lane has its turn, and folds the log if it has got long."""
LOOP_CHECKPOINT_PAGES = 4 * CHECKPOINT_PAGES
"""Where the estimates are so wrong that the log gets this long, the loop folds it, for it must not grow for ever."""
SLOW_SECONDS = 0.1
"""A call that took longer had to wait for something."""
REST = 10
"""So many times as long all writes go to the lane then: the loop is held up for a tenth of the time at most."""


class Mode(Enum):
    """What a write may do besides writing."""

    FOLD = (True, CHECKPOINT_PAGES)
    """Wait for other writers, and fold the log if it is long."""
    APPEND = (True, LOOP_CHECKPOINT_PAGES)
    """Wait for other writers, and for the disk where the log begins anew."""
    LOOP = (False, LOOP_CHECKPOINT_PAGES)
    """Wait for nothing."""


class LoopWriter:
    """Decides which write runs where, and sets the lane's connection for it."""

    def __init__(self, lane: ConnectionThread, profile: str, timer: Callable[[], float] | None = None) -> None:
        self._lane = lane
        self._is_fast = profile == "fast"
        self._timer = timer or (lambda: asyncio.get_running_loop().time())
        self._set: tuple[sqlite3.Connection, Mode] | None = None
        self._pages = 0
        self._may_begin_anew = True
        self._rests_until = 0.0
        self._is_resting = False

    def lane_mode(self, is_short: bool) -> Mode:
        """How the lane is to run a write."""
        if is_short and self._may_begin_anew and not self._is_resting:
            # The lane has written, and may have folded the log: this write may begin it anew, the next may not.
            self._may_begin_anew = False
            return Mode.APPEND
        self._may_begin_anew = True
        self._pages = 0
        return Mode.FOLD

    def set_mode(self, connection: sqlite3.Connection, mode: Mode) -> None:
        """Set the lane's connection for a write; in the thread that is about to write."""
        if self._set != (connection, mode):
            set_waits(connection, *mode.value)
            self._set = (connection, mode)

    @property
    def is_on_loop(self) -> bool:
        """Whether the write under way must not wait."""
        return self._set is not None and self._set[1] is Mode.LOOP

    def is_short(self, rows: int, size: int) -> bool:
        """Whether a write of so many rows and bytes could run on the loop."""
        return self._is_fast and rows <= ROWS_MAX and size <= BYTES_MAX

    def count(self, rows: int, size: int) -> None:
        """Remember about how far the log has grown."""
        self._pages += CALL_PAGES + rows // ROWS_PER_PAGE + size // BYTES_PER_PAGE

    def write(self, act: Callable[[sqlite3.Connection], T], rows: int, size: int) -> T:
        """Run a short write here and now; raises Occupied, having done nothing, where it has to go to the lane."""
        began = self._timer()
        self._is_resting = began < self._rests_until
        if self._is_resting or self._may_begin_anew or self._pages >= FOLD_AFTER_PAGES:
            raise Occupied
        self.count(rows, size)
        try:
            return self._lane.run_here(act)
        finally:
            ended = self._timer()
            if ended - began > SLOW_SECONDS:
                self._rests_until = ended + REST * (ended - began)
