"""Handlers that run in the processes of the tests."""

import asyncio
import atexit
import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from headrace.client.codec import RAW
from headrace.worker.context import current
from headrace.worker.exceptions import Fail, Release, Retry
from headrace.worker.handlers import handler_of

NOT_A_FUNCTION = 7
COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def nothing() -> None:
    """Do nothing."""


def pid() -> int:
    """Return the process id."""
    return os.getpid()


def session() -> list[int]:
    """Return the process, its group and its session."""
    return [os.getpid(), os.getpgid(0), os.getsid(0)]


def echo(text: str) -> str:
    """Return the argument."""
    return text


def add(one: int, other: int = 10) -> int:
    """Add."""
    return one + other


def promise(result: str | None) -> int:
    """Return the argument, whatever the annotation."""
    return result  # type: ignore[return-value]


def listed(id: str, payload: Any, error: dict[str, str]) -> list[Any]:
    """Return the arguments in order."""
    return [id, payload, error]


async def slowly(text: str) -> str:
    """Return the argument from a coroutine."""
    await asyncio.sleep(0)
    return f"{text} from {type(asyncio.get_running_loop()).__name__}"


def context() -> list[Any]:
    """Return the facts of the context."""
    here = current()
    return [here.job.id, here.attempt, here.fence, here.is_stopping, here.remaining_ms]


async def context_of_a_coroutine() -> str:
    """Return the facts of the context, in a coroutine."""
    return current().job.id


def report(fifo: str | None = None, exitcode: int | None = None) -> None:
    """Report progress twice, then perhaps say so through a named pipe, or die."""
    current().progress(0.25, "a quarter")
    current().progress(1, "all")
    if fifo is not None:
        Path(fifo).write_text("said")
    if exitcode is not None:
        os._exit(exitcode)


def forever() -> NoReturn:
    """Say that it has begun, and never end."""
    current().progress(0, str(os.getpid()))
    while True:
        signal.pause()


def with_a_grandchild(forking: bool = False) -> NoReturn:
    """Start a program, report its process id, and never end."""
    if forking:
        grandchild = os.fork()
        if grandchild == 0:
            signal.pause()
            os._exit(0)
    else:
        grandchild = subprocess.Popen(["sleep", "600"]).pid
    current().progress(0, f"{os.getpid()} {grandchild}")
    while True:
        signal.pause()


def die_and_leave_a_grandchild() -> NoReturn:
    """Fork, so that a child holds the link open, report its process id, and die."""
    grandchild = os.fork()
    if grandchild == 0:
        signal.pause()
        os._exit(0)
    current().progress(0, f"{os.getpid()} {grandchild}")
    os._exit(4)


def hold_the_gil(micros: int) -> None:
    """Say that it has begun, and keep the interpreter to itself for so long."""
    current().progress(0, str(os.getpid()))
    ctypes.PyDLL(None).usleep(micros)


def through_a_pipe(fifo: str) -> str:
    """Say that it has begun, and give back what comes through a named pipe."""
    current().progress(0, str(os.getpid()))
    return Path(fifo).read_text()


def exit_at_once(code: int) -> NoReturn:
    """End the process."""
    os._exit(code)


def kill_oneself(number: int) -> None:
    """Die by a signal."""
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)


def close_everything() -> None:
    """Close all files, the link among them, as badly written daemons do."""
    os.closerange(3, 1_000)


def exit_politely() -> NoReturn:
    """Raise SystemExit."""
    sys.exit(3)


class Unprintable(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


def fail(how: str) -> Any:
    """Raise or return the given value."""
    match how:
        case "value":
            raise ValueError("the value is wrong")
        case "unprintable":
            raise Unprintable
        case "surrogate":
            raise ValueError("broken \udcff text")
        case "long":
            raise ValueError("x" * 1_000_000)
        case "retry":
            raise Retry("busy", delay="30s")
        case "fail":
            raise Fail("no such user")
        case "release":
            raise Release(delay="1m")
        case "return":
            return Retry("later", delay=2)
        case "unencodable":
            return object()
        case "too large":
            return "x" * 300_000
        case "cycle":
            raise ValueError("second") from ValueError("first")
    raise AssertionError(how)


def speak(text: str) -> None:
    """Print to both streams."""
    print(text)
    print(text, file=sys.stderr)


def paint() -> str:
    """Return a context variable, and change it."""
    seen = COLOUR.get()
    COLOUR.set("red")
    return seen


def terminate_a_program() -> int:
    """Start a program and end it with SIGTERM; its code."""
    with subprocess.Popen(["sleep", "600"]) as program:
        program.terminate()
        return program.wait(20)


def leave_a_thread(fifo: str) -> None:
    """Leave a thread behind that reports progress when a named pipe is written to."""
    here = current()

    def later() -> None:
        Path(fifo).read_text()
        here.progress(0.5, "stray")

    contextvars.copy_context()
    threading.Thread(target=later, daemon=True).start()


class Decorated:
    """A function as a decorator leaves it."""

    def __init__(self) -> None:
        self.handler = handler_of("reversed", _reversed, process=True, codec=RAW, style="whole")


def _reversed(data: bytes) -> bytes:
    return data[::-1]


decorated = Decorated()


class Shelf:
    """A place for a function that is not at the top of its module."""

    @staticmethod
    def label() -> str:
        """Return its position."""
        return "on the shelf"


def refuse_to_end() -> int:
    """Leave a thread behind that keeps the process from ending."""
    threading.Thread(target=threading.Event().wait).start()
    return os.getpid()


def write_at_exit(fifo: str, path: str) -> None:
    """When the process ends, wait for something to come through a named pipe, and write it down."""
    atexit.register(lambda: Path(path).write_text(Path(fifo).read_text()))


def fork_and_return() -> int:
    """Return twice, as a program that forks and forgets to exit does; the original answers last."""
    grandchild = os.fork()
    if grandchild:
        os.waitpid(grandchild, 0)
    return os.getpid()
