"""The messages between a worker and its processes: msgpack with a length prefix, never pickle."""

import signal
from collections.abc import Iterator
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from headrace.client.arguments import Style
from headrace.model.limits import PROCESS_MESSAGE_BYTES_MAX
from headrace.worker.context import ContextFacts

M = TypeVar("M")
How = Literal["error", "retry", "fail", "release"]
"""The outcome that a handler's exception chooses; `error` is any other exception."""

HEAD_BYTES = 4


class LogSetup(Struct, frozen=True):
    """The set-up of the worker's log, for its processes to repeat."""

    format: Literal["text", "json"]
    stream: Literal["stdout", "stderr"]
    level: int
    process: int | None = None
    """The number of the worker process, if there are several."""


class Setup(Struct, frozen=True, tag="setup"):
    """The first message to a process: import path, main module and log of its parent."""

    path: list[bytes]
    argv: list[bytes]
    """Bytes, because a file name need not be text."""
    main_name: str | None
    main_path: bytes | None
    logs: LogSetup | None = None


class ChildTask(Struct, frozen=True, tag="task"):
    """One job for a process."""

    target: str
    """The handler as `module:qualname`."""
    payload: bytes
    context: ContextFacts
    style: Style = "named"
    codec: str = "json"
    """Style and codec (`json` or `raw`) of a plain function; an object with a `handler` has its own."""
    remaining_ms: int | None = None
    """The rest of the time limit; by default computed from the deadline and this machine's clock."""
    trace: dict[str, str] = {}
    """The context of the run's span, if runs are traced."""


class Ready(Struct, frozen=True, tag="ready"):
    """The process is ready for its first task."""


class TaskProgress(Struct, frozen=True, tag="progress"):
    """The handler reported progress."""

    fraction: float
    note: str


class Returned(Struct, frozen=True, tag="returned"):
    """The handler returned; its encoded result, None for no result."""

    result: bytes | None


class TaskRaised(Struct, frozen=True, tag="raised"):
    """The handler raised, or could not be called."""

    cls: str
    message: str
    how: How
    delay_ms: int | None = None
    trace: str = ""


ToChild = Setup | ChildTask
ToParent = Ready | TaskProgress | Returned | TaskRaised

_ENCODER = msgspec.msgpack.Encoder()


class BadMessage(Exception):
    """The other side sent invalid bytes: the link is broken, or another program writes to it."""


def pack_message(message: Struct) -> bytes:
    """A message as bytes, after its length."""
    body = _ENCODER.encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


class Unpacker(Generic[M]):
    """Decodes arriving bytes into messages of the given type."""

    def __init__(self, type: type[M], bytes_max: int = PROCESS_MESSAGE_BYTES_MAX) -> None:
        self._decoder = msgspec.msgpack.Decoder(type)
        self._bytes_max = bytes_max
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[M]:
        """The messages that are complete now; raises `BadMessage`."""
        self._bytes += data
        while len(self._bytes) >= HEAD_BYTES:
            end = HEAD_BYTES + int.from_bytes(self._bytes[:HEAD_BYTES], "big")
            if end > self._bytes_max:
                raise BadMessage(f"a message of {end:,} bytes is larger than any that is sent")
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEAD_BYTES:end])
            del self._bytes[:end]
            try:
                message = self._decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise BadMessage(f"no message: {error}") from error
            yield message


class ChildRaised(Exception):
    """The handler raised in its process, or could not be called; the process is well.

    `how` is the outcome that the exception chooses, `delay_ms` its delay; `trace` is the end of the stack trace in the
    process, which is shown with the traceback.
    """

    def __init__(
        self, cls: str, message: str, how: How = "error", delay_ms: int | None = None, trace: str = ""
    ) -> None:
        super().__init__(f"{cls}: {message}" if message else cls)
        self.cls = cls
        self.message = message
        self.how = how
        self.delay_ms = delay_ms
        self.trace = trace
        if trace:
            self.add_note(f"In the process of the handler:\n{trace}")


class ProcessDied(Exception):
    """The process ended by itself during a job; `exitcode` is negative for a signal."""

    def __init__(self, exitcode: int) -> None:
        super().__init__(f"the process of the handler died ({_describe_exit(exitcode)})")
        self.exitcode = exitcode


def _describe_exit(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"{name}; out of memory?" if name == "SIGKILL" else name
