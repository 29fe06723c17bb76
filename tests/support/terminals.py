"""A program in a terminal of its own, to which a test types and whose screen it reads."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
"""What moves a terminal's cursor or changes its colours."""


class Terminal:
    """Runs a program until the block ends. It has the terminal for itself: Ctrl-C reaches all of its processes."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 120, seconds_max: float = 90
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._env = {"TERM": "xterm-256color", **env}
        self._columns = columns
        self._seconds_max = seconds_max
        self._read = b""

    @property
    def output(self) -> str:
        """Everything that was shown so far, without colours."""
        return _SEQUENCE.sub("", self._read.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, self._columns, 0, 0))
        self._process = subprocess.Popen(
            # Which makes the terminal theirs: only then Ctrl-C is a signal.
            ["setsid", "--ctty", *self._command],
            cwd=self._cwd,
            env=self._env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def wait_for(self, text: str) -> None:
        """Read until a text was shown."""
        while text not in self.output:
            assert self._more(), f"the program ended, or was silent, without {text!r}: {self.output[-2_000:]}"

    def type(self, text: str) -> None:
        """Type a text; "\\x03" is Ctrl-C."""
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """Read until the program has ended, and return its exit code."""
        while self._more():
            pass
        return self._process.wait(self._seconds_max)

    def _more(self) -> bool:
        if not select.select([self._ours], [], [], self._seconds_max)[0]:
            return False
        try:
            found = os.read(self._ours, 65_536)
        except OSError:  # nobody holds the other end any more
            return False
        self._read += found
        return bool(found)
