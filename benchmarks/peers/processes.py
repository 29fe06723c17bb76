"""Runs a system's program as a process: talks to it in lines, with a limit on its time."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.catalog import Peer
from benchmarks.peers.environments import last_line

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
GOODBYE_S = 5.0


class Failed(Exception):
    """A system did not do what was asked; one sentence for its place in the tables."""


class Process:
    """One role of a program, while it runs."""

    def __init__(self, child: "subprocess.Popen[str]", log: IO[str], end: float) -> None:
        self._child = child
        self._log = log
        self._end = end
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def line(self, what: str) -> str:
        """The next line of its report, within its time."""
        try:
            found = self._lines.get(timeout=max(self._end - time.monotonic(), 0.01))
        except queue.Empty:
            raise Failed(f"{what} took too long") from None
        if found is None:
            self._log.seek(0)
            raise Failed(f"{what} ended with an error: {last_line(self._log.read())}")
        return found

    def figures(self, what: str) -> dict[str, Any]:
        """The next figures of its report."""
        while not (line := self.line(what)).startswith("{"):
            pass
        found: dict[str, Any] = json.loads(line)
        return found

    def go(self) -> None:
        """Let it go on."""
        assert self._child.stdin is not None
        self._child.stdin.write("go\n")
        self._child.stdin.flush()

    def finish(self) -> None:
        """Tell it that nothing more will come."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()

    def forget(self) -> None:
        """Let go of the pipe of one that has ended."""
        self._reader.join(GOODBYE_S)
        assert self._child.stdout is not None
        self._child.stdout.close()

    def last_figures(self, what: str) -> dict[str, Any]:
        """What a worker has seen until now; it ends."""
        self._end = time.monotonic() + GOODBYE_S
        self.finish()
        return self.figures(what)


def command(peer: Peer, home: Path | None) -> list[str]:
    """The words before a role."""
    if peer.language == "JavaScript":
        return ["node", str(PROGRAMS / f"{peer.program}.mjs")]
    python = sys.executable if home is None else str(home / "bin/python")
    return [python, "-m", "benchmarks.peers.programs", peer.program]


@contextmanager
def process(peer: Peer, home: Path | None, url: str, role: list[str], end: float) -> Iterator[Process]:
    """A role of the system's program, ended with the block."""
    paths = [str(ROOT)] if home else [str(ROOT), str(ROOT / "src")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON"))}
    env = {**clean, "PEER_URL": url + peer.url_query, "PYTHONPATH": os.pathsep.join(paths)}
    if peer.capacity is not None:
        env["PEER_CAPACITY"] = str(peer.capacity)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        tempfile.TemporaryDirectory() as empty,
    ):
        child = subprocess.Popen(
            [*command(peer, home), *role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=home if peer.language == "JavaScript" else empty,
            env=env,
            start_new_session=True,
        )
        running = Process(child, log, end)
        try:
            yield running
        finally:
            running.finish()
            with suppress(subprocess.TimeoutExpired):
                child.wait(GOODBYE_S)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # also what it has forked
            child.wait()
            running.forget()


def call(peer: Peer, home: Path | None, url: str, role: list[str], end: float) -> dict[str, Any]:
    """The figures of a role that ends by itself."""
    with process(peer, home, url, role, end) as running:
        return running.figures(role[0])
