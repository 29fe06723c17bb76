"""The processes of a Spark program: a session of its own, so that all of them can be found and killed together."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.process import as_user, wait_until

EXECUTOR = b"CoarseGrainedExecutorBackend"
"""What the command line of an executor has in it."""


def say(*words: str) -> None:
    """Print a line for the parent process."""
    os.write(1, (" ".join(words) + "\n").encode())


class Tree:
    """A program and everything that it starts: Python, Java, executors and Python workers."""

    def __init__(self, words: list[str], folder: Path, errors: Path, environment: dict[str, str] | None = None) -> None:
        with errors.open("ab") as log:
            self._process = subprocess.Popen(
                [*as_user(None, "KILL"), *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def lines(self) -> Iterator[str]:
        """Its output, line by line, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.decode().rstrip("\n")

    def pids(self) -> list[int]:
        """All that live. Spark's Python workers leave the process group, and nothing leaves the session."""
        return [pid for pid in _all_pids() if _session_of(pid) == self._process.pid]

    def executors(self) -> dict[str, int]:
        """The Java processes that run tasks and nothing else, by the names that the driver has for them."""
        found: dict[str, int] = {}
        for pid in self.pids():
            words = _command_of(pid).split(b"\0")
            if any(EXECUTOR in word for word in words) and b"--executor-id" in words:
                found[words[words.index(b"--executor-id") + 1].decode()] = pid
        return found

    def kill_executor(self, id: str) -> bool:
        """SIGKILL to this executor; whether it was there."""
        pid = self.executors().get(id)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def strike(self) -> bool:
        """SIGKILL to all of them; whether there was any."""
        found = self.pids()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def kill(self) -> list[str]:
        """Kill all processes; returns the unread output."""
        wait_until(lambda: not self.strike(), "the end of killed processes")
        rest, _ = self._process.communicate()
        return rest.decode().splitlines()


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _session_of(pid: int) -> int | None:
    """The session of a process, unless it has ended and only waits to be noticed."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state in "ZX" else int(session)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
