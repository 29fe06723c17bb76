"""A real server as a child of the tests: on a port and in a folder of its own, and gone when the tests are."""

import atexit
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

READY_S = 60.0
"""How long a server may take to answer: a loaded machine needs seconds, and a server that never will must not hang."""
STOP_S = 20.0
"""How long a server may take to go when asked kindly."""
PORTS = range(10_000, 32_000)
"""Below the ports that the system gives to clients: there a client of a stopped server may end up talking to itself."""


class NotReady(Exception):
    """A server did not come up; one sentence and the end of its log."""


def free_port() -> int:
    """A free port of the loopback."""
    for _ in range(1_000):
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NotReady("no free port between 10000 and 32000; end what listens there")


def new_folder(name: str) -> Path:
    """A folder outside the tests' own, which are too deep for a socket and closed to other users."""
    if not _FOLDERS:
        sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-of-{os.getpid()}-"))
    _FOLDERS.append(folder)
    return folder


def sweep() -> None:
    """Remove the folders of tests that were killed: their servers have died with them."""
    for folder in Path(tempfile.gettempdir()).glob("headrace-*-of-*-*"):
        owner = folder.name.partition("-of-")[2].partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def wait_until(ready: Callable[[], bool], what: str, seconds: float = READY_S) -> None:
    """Ask again and again until the answer is yes."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise NotReady(f"{what} took longer than {seconds:.0f} s")
        time.sleep(0.01)


def as_user(user: str | None, death: str) -> list[str]:
    """The words before a command that run it as this user and end it with this signal when its parent dies."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    words = [setpriv, "--pdeathsig", death]
    if user is not None:
        words += ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups"]
    return [*words, "--"]


class Server(ABC):
    """One server process that can be stopped, killed, paused and started again on the same port and folder."""

    name = "server"
    user: str | None = None
    death = "KILL"
    goodbye = signal.SIGTERM

    def __init__(self) -> None:
        self.folder = new_folder(self.name)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        _OPENED.append(self)

    @classmethod
    def of_another(cls, port: int) -> Self:
        """The running server of another process, which alone may stop it: here one can only talk to it."""
        server = cls.__new__(cls)
        server.port = port
        return server

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What to run."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether this very process answers."""

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    def launch(self) -> Self:
        """Start for the first time: if the port was taken meanwhile, use another one."""
        for _ in range(5):
            try:
                return self.start()
            except NotReady:
                if "ddress already in use" not in self.log.read_text(errors="replace"):
                    raise
                self.port = free_port()
        return self.start()

    def start(self) -> Self:
        """Start on the same port and folder and wait until it answers."""
        self.start_soon()
        self.wait_ready()
        return self

    def start_soon(self) -> None:
        """Start on the same port and folder without waiting for an answer."""
        assert self._process is None, f"{self.name} is running already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*as_user(self.user, self.death), *self.command()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is for the tests, which then stop it
            )

    def wait_ready(self) -> None:
        """Wait until it answers."""
        process = self._process
        assert process is not None
        try:
            wait_until(lambda: process.poll() is not None or self.is_ready(), f"{self.name} on port {self.port}")
        except NotReady:
            self.kill()
            raise
        if process.returncode is not None:
            self._process = None
            end = self.log.read_text(errors="replace")[-2_000:]
            raise NotReady(f"{self.name} ended with {process.returncode}; the end of its log:\n{end}")

    def stop(self) -> None:
        """Ask it to go, and see it gone."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(self.goodbye)
        try:
            self._process.wait(STOP_S)
            self._process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it between two instructions, and see it gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Let it hang: it keeps its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a pause."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_OPENED: list[Server] = []
_FOLDERS: list[Path] = []
_STARTER = os.getpid()


@atexit.register
def close_all() -> None:
    """Close every server that was started here; called when the tests end, and once more when the process does."""
    if os.getpid() != _STARTER:  # a forked child has not started them and must not end them
        return
    while _OPENED:
        _OPENED.pop().close()
    while _FOLDERS:
        shutil.rmtree(_FOLDERS.pop(), ignore_errors=True)
