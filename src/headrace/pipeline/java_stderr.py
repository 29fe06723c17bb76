"""Holds back what Java prints on stderr while Spark starts, so that it is shown only when the start fails."""

import os
import threading
from collections import deque
from typing import IO

LINES_KEPT_MAX = 200
"""Of a start that failed; the cause stands near the end."""
WAIT_SECONDS_MAX = 5.0
"""For a thread that only has to read what is in a pipe already."""


class JavaStderr:
    """The reading end of a process's stderr: closed, it keeps the lines; open, it copies them to our stderr."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        """`writer` is the descriptor to start the process with."""
        self._lines: deque[bytes] = deque(maxlen=LINES_KEPT_MAX)
        self._mark: bytes | None = None
        self._is_open = False
        self._opened = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(os.fdopen(reader, "rb"),), name="spark-stderr", daemon=True
        )
        self._thread.start()

    def close_writer(self) -> None:
        """Let go of the writing end once the process has it, so that the process's end is seen."""
        os.close(self.writer)

    def close(self) -> None:
        """Keep lines from now on."""
        self._lines.clear()
        self._opened.clear()
        self._is_open = False

    def open_after(self, mark: str) -> None:
        """Drop the lines that were kept, and copy those that follow the line ending in `mark`; print the mark next.

        A pipe is read later than it is written: without the mark, the last lines of the start would slip through.
        """
        self._mark = mark.encode()

    def wait_open(self) -> None:
        """Wait until the mark has been read."""
        self._opened.wait(WAIT_SECONDS_MAX)

    def text(self) -> str:
        """The lines that were kept of a process that has ended."""
        self._thread.join(WAIT_SECONDS_MAX)
        return b"".join(self._lines).decode(errors="replace")

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if self._is_open:
                    _copy(line)
                # A child of the process may print half a line before the mark.
                elif self._mark is not None and line.rstrip().endswith(self._mark):
                    self._lines.clear()
                    self._mark = None
                    self._is_open = True
                    self._opened.set()
                else:
                    self._lines.append(line)


def _copy(line: bytes) -> None:
    try:
        os.write(2, line)
    except OSError:
        # Our own stderr is closed, and Java would block on a full pipe if nobody read it.
        return
