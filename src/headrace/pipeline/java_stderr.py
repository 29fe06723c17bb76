"""Holds back what Java says on stderr while Spark starts, so that it is shown only when the start fails."""

import os
import threading
from collections import deque
from typing import IO

LINES_KEPT_MAX = 200
"""Of a start that failed; the cause stands near the end."""
WAIT_SECONDS_MAX = 5.0
"""For a thread that only has to read what is in a pipe already."""


class JavaStderr:
    """The reading end of a process's stderr: shut, it keeps the lines; open, it passes them on to our stderr."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        """`writing` is the descriptor to start the process with."""
        self._kept: deque[bytes] = deque(maxlen=LINES_KEPT_MAX)
        self._mark: bytes | None = None
        self._shut = True
        self._opened = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(os.fdopen(reading, "rb"),), name="spark-stderr", daemon=True
        )
        self._thread.start()

    def started(self) -> None:
        """Let go of the writing end once the process has it, so that the process's end is seen."""
        os.close(self.writing)

    def shut(self) -> None:
        """Keep lines from now on."""
        self._kept.clear()
        self._opened.clear()
        self._shut = True

    def open_after(self, mark: str) -> None:
        """Forget what was kept, and pass on what follows the line that ends in `mark`; have the process print it next.

        A pipe is read later than it is written: without the mark, the last words of the start would slip through.
        """
        self._mark = mark.encode()

    def wait_open(self) -> None:
        """Wait until the mark has come by."""
        self._opened.wait(WAIT_SECONDS_MAX)

    def kept(self) -> str:
        """What was held back of a process that has ended."""
        self._thread.join(WAIT_SECONDS_MAX)
        return b"".join(self._kept).decode(errors="replace")

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if not self._shut:
                    _pass_on(line)
                # What the process passes on of others may lack a line's end: half a line may stand before the mark.
                elif self._mark is not None and line.rstrip().endswith(self._mark):
                    self._kept.clear()
                    self._mark = None
                    self._shut = False
                    self._opened.set()
                else:
                    self._kept.append(line)


def _pass_on(line: bytes) -> None:
    try:
        os.write(2, line)
    except OSError:
        # Our own stderr is gone. Java must be read all the same, or it would block on a full pipe.
        return
