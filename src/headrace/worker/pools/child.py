"""The main program of a pool process: receives tasks, runs their handlers and sends back the results."""

import asyncio
import contextvars
import ctypes
import importlib
import inspect
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from msgspec import Struct

from headrace.client.arguments import Arguments
from headrace.client.codec import JSON, RAW, Codec
from headrace.model.clock import SystemClock, monotonic_ms
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import TRACE_CHARS_MAX
from headrace.model.outcome import Done
from headrace.worker import tracing
from headrace.worker.context import Context, use_context
from headrace.worker.exceptions import Fail, HandlerEnd, Release, Retry, job_error
from headrace.worker.handlers import Handler
from headrace.worker.pools import main_module
from headrace.worker.pools.messages import (
    ChildTask,
    LogSetup,
    Ready,
    Returned,
    Setup,
    TaskProgress,
    TaskRaised,
    ToChild,
    ToParent,
    Unpacker,
    pack_message,
)

CODECS: dict[str, Codec] = {JSON.name: JSON, RAW.name: RAW}


class LoadedHandler(Struct, frozen=True):
    """A handler's function, with its arguments and codec."""

    function: Callable[..., Any]
    arguments: Arguments[Any]
    codec: Codec


class Loader:
    """Imports handlers and caches them."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._loaded: dict[tuple[str, str, str], LoadedHandler] = {}

    def find(self, task: ChildTask) -> LoadedHandler:
        """The handler of a task; raises `BadConfig` that names the missing part."""
        key = task.target, task.style, task.codec
        loaded = self._loaded.get(key)
        if loaded is None:
            loaded = self._loaded[key] = self._load(task)
        return loaded

    def _load(self, task: ChildTask) -> LoadedHandler:
        module, colon, qualname = task.target.partition(":")
        if not (module and colon and qualname):
            raise _load_error(task, "it is to be named as module:function")
        found = self._import(task, module)
        for name in qualname.split("."):
            try:
                found = getattr(found, name)
            except AttributeError as error:
                raise _load_error(task, f"{module} has no {qualname!r}; define it at the top of the module") from error
        handler = getattr(found, "handler", None)
        if isinstance(handler, Handler):
            return LoadedHandler(handler.function, handler.arguments, handler.codec)
        if not callable(found):
            raise _load_error(task, f"expected a function; found {type(found).__name__}")
        codec = CODECS.get(task.codec)
        if codec is None:
            raise _load_error(
                task, f"another process does not know the codec {task.codec!r}; give the function a handler"
            )
        return LoadedHandler(found, Arguments.of(found, codec, task.style), codec)

    def _import(self, task: ChildTask, module: str) -> Any:
        try:
            if module in ("__main__", main_module.ALIAS):
                path = self._setup.main_path
                main_module.load(self._setup.main_name, None if path is None else os.fsdecode(path))
            return importlib.import_module(module)
        except BaseException as error:  # an import may do anything, even exit
            described = job_error(error)
            raise _load_error(task, f"importing {module} raised {described.cls}: {described.message}") from error


def _load_error(task: ChildTask, why: str) -> BadConfig:
    return BadConfig(f"Unable to load handler {task.target!r}: {why}")


PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGINT, signal.SIGTERM)


class ParentLink:
    """The socket to the parent; threads of a handler may report progress at the same time."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # inheritable for this process only, not for programs that handlers start
        self._link = socket.socket(fileno=fd)
        self._unpacker: Unpacker[ToChild] = Unpacker(ToChild)  # type: ignore[arg-type]  # a union is a type here
        self._sending = threading.Lock()

    def receive(self) -> ToChild | None:
        """The next message; None if the parent has closed the link or died."""
        while data := self._link.recv(256 * 1024):
            for message in self._unpacker.feed(data):
                return message
        return None

    def send(self, message: ToParent) -> None:
        """Send a message; returns after the socket has accepted it."""
        with self._sending:
            self._link.sendall(pack_message(message))

    def leave(self) -> None:
        """Keep the link open until the process has ended: the parent takes a closed link for a dead process, and exit
        functions have not run yet."""
        self._link.detach()


class ChildControl:
    """The context of a handler in a process, which is killed instead of being asked to stop."""

    def __init__(self, task: ChildTask, link: ParentLink) -> None:
        left_ms = task.remaining_ms
        if left_ms is None and task.context.deadline_at_ms is not None:
            left_ms = task.context.deadline_at_ms - SystemClock().now_ms()
        self._until_ms = None if left_ms is None else monotonic_ms() + left_ms
        self._link = link
        self._lock = threading.Lock()
        self._is_over = False

    def is_stopping(self) -> bool:
        return self._is_over

    def remaining_ms(self) -> int | None:
        return None if self._until_ms is None else max(self._until_ms - monotonic_ms(), 0)

    def progress(self, fraction: float, note: str) -> None:
        with self._lock:
            if not self._is_over:
                self._link.send(TaskProgress(fraction, note))

    def end(self) -> None:
        """The handler has ended: ignore progress from its remaining threads."""
        with self._lock:
            self._is_over = True


def main(fd: int, parent: int) -> None:
    """Run tasks until the parent closes the link."""
    _die_with(parent)
    _ignore_stop_signals()
    with suppress(OSError):  # the parent is gone
        _work(ParentLink(fd))


def _work(link: ParentLink) -> None:
    setup = link.receive()
    if not isinstance(setup, Setup):
        return
    sys.path[:] = map(os.fsdecode, setup.path)
    sys.argv[:] = map(os.fsdecode, setup.argv)
    if setup.logs is not None:
        _set_up_logging(setup.logs)
    loader = Loader(setup)
    pid = os.getpid()
    link.send(Ready())
    while isinstance(task := link.receive(), ChildTask):
        watch = ChildControl(task, link)
        outcome = contextvars.copy_context().run(_run, task, loader, watch)
        watch.end()
        _flush()
        if os.getpid() != pid:
            os._exit(0)  # a fork returned from the handler; the original process replies
        link.send(outcome)
    link.leave()


def _set_up_logging(setup: LogSetup) -> None:
    from headrace.worker.logging import setup_logs

    setup_logs(setup.format, getattr(sys, setup.stream), level=setup.level, process=setup.process)


def _run(task: ChildTask, loader: Loader, watch: ChildControl) -> Returned | TaskRaised:
    try:
        with use_context(Context(task.context, watch)):
            loaded = loader.find(task)
            _continue_trace(task)
            try:
                args, kwargs = loaded.arguments.decode(task.payload)
            except Refused as refused:
                return TaskRaised("BadPayload", job_error(refused).message, "fail")
            result = loaded.function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = asyncio.run(_await_result(result))
        return _encode_result(loaded.arguments, result)
    except BaseException as error:  # noqa: BLE001 - no exception of a handler may end the process
        return _describe_error(error)


def _continue_trace(task: ChildTask) -> None:
    """Make the run's span the parent of the handler's spans; a broken trace must not fail the job."""
    if task.trace:
        with suppress(Exception):
            tracing.continue_trace(task.trace)


async def _await_result(result: Awaitable[Any]) -> Any:
    return await result


def _encode_result(arguments: Arguments[Any], result: Any) -> Returned | TaskRaised:
    if result is None and arguments.may_return_none:
        return Returned(None)
    if isinstance(result, HandlerEnd):
        return _describe_error(result)
    try:
        done = Done(arguments.encode_result(result))
    except Refused as refused:
        # The work is done, and a retry would return the same result: a person has to look.
        return TaskRaised("BadResult", job_error(refused).message, "fail")
    return Returned(done.result)


def _describe_error(error: BaseException) -> TaskRaised:
    described = job_error(error)
    match error:
        case Retry():
            return TaskRaised(described.cls, described.message, "retry", error.delay_ms)
        case Fail():
            return TaskRaised(described.cls, described.message, "fail")
        case Release():
            return TaskRaised(described.cls, described.message, "release", error.delay_ms)
    return TaskRaised(described.cls, described.message, "error", None, _trace(error))


def _trace(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - `__str__` is foreign code
        return ""
    return text[-TRACE_CHARS_MAX:].encode("utf-8", "replace").decode()


def _flush() -> None:
    """Flush the output of a handler: the next one may be killed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before the request


def _ignore_stop_signals() -> None:
    """Ignore Ctrl-C and SIGTERM: the worker lets jobs end or kills them. With a function instead of SIG_IGN, which
    programs started by a handler would inherit."""
    for number in IGNORED:
        signal.signal(number, _do_nothing)
    os.register_at_fork(after_in_child=_restore_signals)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _restore_signals() -> None:
    for number in IGNORED:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
