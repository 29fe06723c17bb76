"""Starts commands as forks of a process that has imported what they use: each is a process of its own, without the
fifth of a second in which Python starts and imports. What a command imports by itself is the matter of test_startup."""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.support.process import new_folder

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "cli", "client", "feeds", "model", "stores", "worker")
"""Whose modules a fork finds imported: not those of the pipeline, which bring Spark."""
ORDER_BYTES_MAX = 150_000
"""A socket takes little more in one message."""


class Fork:
    """A command that runs."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line
        """Tells its exit code."""
        self._code: int | None = None

    def wait(self, seconds: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self._code is None:
            self._line.settimeout(seconds)
            self._code = int(self._line.recv(16))
            self._line.close()
        return self._code

    def kill(self) -> None:
        """End it if it runs still."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def fork(words: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[int]) -> Fork:
    """Run `headrace` with these words, and with these descriptors as stdin, stdout and stderr."""
    order = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
    assert len(order) <= ORDER_BYTES_MAX, "too long for a fork; give the command a file"
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(_forker(os.getpid()))
    socket.send_fds(line, [order], list(files))
    return Fork(int(line.recv(16)), line)


@cache
def _forker(_: int) -> str:
    """Where the one forker of this process listens; it ends when this process does, whose end of a pipe it watches."""
    path = str(new_folder("forks") / "socket")
    command = [sys.executable, "-m", "tests.cli.forks", path]
    env = {name: text for name, text in os.environ.items() if not name.startswith(("HEADRACE_", "OTEL_", "PYTEST"))}
    forker = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _KEPT.append(forker)
    assert forker.stdout is not None
    assert forker.stdout.readline() == b"ready\n"
    return path


_KEPT: "list[subprocess.Popen[bytes]]" = []


def serve(path: str) -> None:
    """Fork a command for each that asks, until stdin ends; returns in the process of a command, which is to run it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has told an exit code need not be waited for
        while listening in select.select([sys.stdin, listening], [], [])[0]:
            line, _ = listening.accept()
            with line:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listening.close()
                    return _attend(line)
    os._exit(0)


def _attend(line: socket.socket) -> None:
    """Start the command of one who asks, and tell him how it ended; returns in the command's own process."""
    text, files, _, _ = socket.recv_fds(line, ORDER_BYTES_MAX, 3)
    order = json.loads(text)
    pid = os.fork()
    if pid == 0:
        line.close()
        _become(order["words"], order["cwd"], order["env"], files)
        return
    for file in files:
        os.close(file)
    line.send(str(pid).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    line.send(str(code).encode())
    os._exit(0)


def _become(words: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    """Be as a Python that was just started for these words."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv = ["headrace", *words]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        before = getattr(sys, name)
        lines = number == 2 or (number == 1 and os.isatty(1))
        after = open(number, mode, 1 if lines else -1, before.encoding, before.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, after)
        setattr(sys, f"__{name}__", after)


def main() -> None:
    """Import everything, then serve; what returns is a command."""
    for room in ROOMS:
        package = importlib.import_module(f"headrace.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"headrace.{room}."):
            if not module.name.endswith(("__main__", ".main")):
                importlib.import_module(module.name)
    assert "pyspark" not in sys.modules, "a command would find Spark imported; import it only where it is used"
    gc.collect()
    gc.freeze()
    serve(sys.argv[1])
    del sys.modules["headrace.cli.main"]  # it is run as a program now
    runpy.run_module("headrace.cli.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
