"""Runs the command line as a person or a program would: the real entry point in a process of its own."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.cli.forks import Fork, fork
from tests.support.process import new_folder

T = TypeVar("T")
COMMAND = [sys.executable, "-m", "headrace.cli.main"]
COLUMNS = 100
"""The width of the terminal."""
TERM = {"TERM": "xterm-256color"}
RUN_S = 60.0
"""How long a command may take: a loaded machine needs seconds, and one that never ends must not hang the tests."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
"""What moves a terminal's cursor or changes its colours."""


class Ran(NamedTuple):
    """How a command ended and what it printed; in a terminal `out` holds all, without colours."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout, without blanks at their ends."""
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict), f"--json must print an object; found {self.out}"
        return found


def run(
    *arguments: str,
    url: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    terminal: bool = False,
    width: int = COLUMNS,
    input: str | None = None,  # noqa: A002 - as subprocess.run has it
) -> Ran:
    """Run `headrace` with these arguments until it ends.

    `url` is given as HEADRACE_URL, so that it works for every command; no other HEADRACE_… of the tests' own
    environment is seen. Without `cwd` the folder is an empty one. `input` is what is typed or piped. No command ever
    shows a traceback or the password of its URL.
    """
    folder, variables = cwd or empty_folder(), environment(url, env)
    if env is not None:  # what is imported may depend on it
        ran = _in_process([*COMMAND, *arguments], folder, variables, terminal, input)
    elif terminal:
        ran = _typed(lambda theirs: fork(arguments, folder, {**TERM, **variables}, [theirs] * 3), input or "", width)
    else:
        ran = _piped(arguments, folder, variables, input or "")
    password = _password(url or "")
    assert "Traceback" not in ran.out + ran.err, ran.out + ran.err
    assert password is None or password not in ran.out + ran.err, ran.out + ran.err
    return ran


def _in_process(command: list[str], cwd: Path, env: dict[str, str], terminal: bool, stdin: str | None) -> Ran:
    if terminal:
        return in_terminal(command, cwd, env, stdin or "")
    ended = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


def _piped(arguments: Sequence[str], cwd: Path, env: dict[str, str], stdin: str) -> Ran:
    with TemporaryFile("w+") as typed, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        typed.write(stdin)
        typed.seek(0)
        command = fork(arguments, cwd, env, [each.fileno() for each in (typed, out, err)])
        try:
            code = command.wait(RUN_S)
        finally:
            command.kill()
        out.seek(0)
        err.seek(0)
        return Ran(code, out.read(), err.read())


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:  # a URL that is none may be what the test is about
        return None


@contextmanager
def start(
    *arguments: str, url: str | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run `headrace` with these arguments beside a block; behind it the process is gone, whatever happened."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd or empty_folder(),
        env=environment(url, env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # a test that failed has not ended it, and would wait for it for ever


def with_store(url: str, use: Callable[[Store], Awaitable[T]]) -> T:
    """What `use` returns for the open store: prepares what a command will find, and looks at what it left."""

    async def using() -> T:
        store = await open_store(url)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(using())


@cache
def empty_folder() -> Path:
    """A folder without a project and without files, in which commands run that name no other; leave it empty."""
    return new_folder("cli")


@cache
def compiled_folder() -> Path:
    """Where commands keep what Python compiles, when it must not be beside the sources."""
    return new_folder("compiled")


def environment(url: str | None = None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: that of the tests without what would change what is printed."""
    unwanted = ("HEADRACE_", "_HEADRACE_", "OTEL_")
    named = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"}
    kept = {name: text for name, text in os.environ.items() if not name.startswith(unwanted) and name not in named}
    if kept.pop("PYTHONDONTWRITEBYTECODE", None):
        # A hundred processes would each compile what the first has compiled: a fourth of the time they take.
        kept["PYTHONPYCACHEPREFIX"] = str(compiled_folder())
    return kept | ({"HEADRACE_URL": url} if url is not None else {}) | dict(more or {})


def in_terminal(command: list[str], cwd: Path, env: dict[str, str], typed: str) -> Ran:
    """Run a command in a terminal of its own, where `typed` waits to be read."""

    def start_in(theirs: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, cwd=cwd, env={**TERM, **env}, stdin=theirs, stdout=theirs, stderr=theirs)

    return _typed(start_in, typed)


def _typed(start_in: Callable[[int], "subprocess.Popen[bytes] | Fork"], typed: str, width: int = COLUMNS) -> Ran:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    try:
        process = start_in(theirs)
    finally:
        os.close(theirs)
    try:
        os.write(ours, typed.encode())
        output = _read_all(ours)
        code = process.wait(RUN_S)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return Ran(code, _SEQUENCE.sub("", output.decode()).replace("\r\n", "\n"), "")


def _read_all(terminal: int) -> bytes:
    """Everything that is printed until nobody holds the terminal any more, which Linux tells as an error."""
    found = b""
    with suppress(OSError):
        while select.select([terminal], [], [], RUN_S)[0] and (read := os.read(terminal, 65_536)):
            found += read
    return found
