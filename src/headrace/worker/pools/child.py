"""The program of a process: it receives tasks, runs their handlers and sends back how they ended."""

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
from headrace.worker.context import Context, entering
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
    packed,
)

CODECS: dict[str, Codec] = {JSON.name: JSON, RAW.name: RAW}


class Loaded(Struct, frozen=True):
    """What is needed to call a handler."""

    function: Callable[..., Any]
    arguments: Arguments[Any]
    codec: Codec


class Loader:
    """Finds handlers, each once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._loaded: dict[tuple[str, str, str], Loaded] = {}

    def find(self, task: ChildTask) -> Loaded:
        """The handler of a task; raises `BadConfig` with a sentence that names what is missing."""
        key = task.target, task.style, task.codec
        loaded = self._loaded.get(key)
        if loaded is None:
            loaded = self._loaded[key] = self._load(task)
        return loaded

    def _load(self, task: ChildTask) -> Loaded:
        module, colon, qualname = task.target.partition(":")
        if not (module and colon and qualname):
            raise _unable(task, "it is to be named as module:function")
        found = self._import(task, module)
        for name in qualname.split("."):
            try:
                found = getattr(found, name)
            except AttributeError as error:
                raise _unable(task, f"{module} has no {qualname!r}; define it at the top of the module") from error
        handler = getattr(found, "handler", None)
        if isinstance(handler, Handler):
            return Loaded(handler.function, handler.arguments, handler.codec)
        if not callable(found):
            raise _unable(task, f"a function was wanted; found {type(found).__name__}")
        codec = CODECS.get(task.codec)
        if codec is None:
            raise _unable(task, f"another process does not know the codec {task.codec!r}; give the function a handler")
        return Loaded(found, Arguments.of(found, codec, task.style), codec)

    def _import(self, task: ChildTask, module: str) -> Any:
        try:
            if module in ("__main__", main_module.BROUGHT):
                path = self._setup.main_path
                main_module.bring(self._setup.main_name, None if path is None else os.fsdecode(path))
            return importlib.import_module(module)
        except BaseException as error:  # a module may do anything, even exit
            told = job_error(error)
            raise _unable(task, f"importing {module} raised {told.cls}: {told.message}") from error


def _unable(task: ChildTask, why: str) -> BadConfig:
    return BadConfig(f"Unable to load handler {task.target!r}: {why}")


PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGINT, signal.SIGTERM)


class ParentLink:
    """The way to the parent; threads of a handler may report progress at the same time."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # it was, to get here; it is not for the programs that handlers start
        self._link = socket.socket(fileno=fd)
        self._unpacker: Unpacker[ToChild] = Unpacker(ToChild)  # type: ignore[arg-type]  # a union is a type here
        self._sending = threading.Lock()

    def receive(self) -> ToChild | None:
        """The next message; None when the parent has no more, or is gone."""
        while data := self._link.recv(256 * 1024):
            for message in self._unpacker.feed(data):
                return message
        return None

    def send(self, message: ToParent) -> None:
        """Returns when the parent can have it."""
        with self._sending:
            self._link.sendall(packed(message))

    def leave(self) -> None:
        """Leave the link open until the process has really ended: the parent takes the end of one for that of the
        other, and exit functions are still to run."""
        self._link.detach()


class ChildControl:
    """What a handler's context asks, in a process: nobody tells it to stop, because it is killed instead."""

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
        """The handler has ended: a thread that it has left behind speaks for nobody."""
        with self._lock:
            self._is_over = True


def main(fd: int, parent: int) -> None:
    """Do tasks until the parent has no more."""
    _die_with(parent)
    _leave_signals_to_parent()
    with suppress(OSError):  # the parent is gone
        _work(ParentLink(fd))


def _work(link: ParentLink) -> None:
    setup = link.receive()
    if not isinstance(setup, Setup):
        return
    sys.path[:] = map(os.fsdecode, setup.path)
    sys.argv[:] = map(os.fsdecode, setup.argv)
    if setup.logs is not None:
        _log_as(setup.logs)
    loader = Loader(setup)
    pid = os.getpid()
    link.send(Ready())
    while isinstance(task := link.receive(), ChildTask):
        watch = ChildControl(task, link)
        ended = contextvars.copy_context().run(_run, task, loader, watch)
        watch.end()
        _flush()
        if os.getpid() != pid:
            os._exit(0)  # a copy that the handler has forked and let return; the job is the original's to answer
        link.send(ended)
    link.leave()


def _log_as(chosen: LogSetup) -> None:
    from headrace.worker.logs import setup_logs

    setup_logs(chosen.format, getattr(sys, chosen.stream), level=chosen.level, process=chosen.process)


def _run(task: ChildTask, loader: Loader, watch: ChildControl) -> Returned | TaskRaised:
    try:
        with entering(Context(task.context, watch)):
            loaded = loader.find(task)
            _go_on(task)
            try:
                args, kwargs = loaded.arguments.decode(task.payload)
            except Refused as refused:
                return TaskRaised("BadPayload", job_error(refused).message, "fail")
            result = loaded.function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        return _returned(loaded.arguments, result)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises, the process is well
        return _raised(error)


def _go_on(task: ChildTask) -> None:
    """Let the handler's spans belong to the trace of its run; a trace that cannot go on is no reason to fail."""
    if task.trace:
        with suppress(Exception):
            tracing.go_on(task.trace)


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _returned(arguments: Arguments[Any], result: Any) -> Returned | TaskRaised:
    if result is None and arguments.may_return_none:
        return Returned(None)
    if isinstance(result, HandlerEnd):
        return _raised(result)
    try:
        done = Done(arguments.encode_result(result))
    except Refused as refused:
        # The work is done, and doing it again would bring the same: a person has to look.
        return TaskRaised("BadResult", job_error(refused).message, "fail")
    return Returned(done.result)


def _raised(error: BaseException) -> TaskRaised:
    told = job_error(error)
    match error:
        case Retry():
            return TaskRaised(told.cls, told.message, "retry", error.delay_ms)
        case Fail():
            return TaskRaised(told.cls, told.message, "fail")
        case Release():
            return TaskRaised(told.cls, told.message, "release", error.delay_ms)
    return TaskRaised(told.cls, told.message, "error", None, _trace(error))


def _trace(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - the text of an exception is somebody else's code
        return ""
    return text[-TRACE_CHARS_MAX:].encode("utf-8", "replace").decode()


def _flush() -> None:
    """Let what a handler has printed be seen, even if the next one is killed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before the request


def _leave_signals_to_parent() -> None:
    """Ctrl-C and SIGTERM are for the worker, which lets jobs end or kills them. A function instead of SIG_IGN, because
    programs that a handler starts would inherit that and could not be ended."""
    for number in IGNORED:
        signal.signal(number, _do_nothing)
    os.register_at_fork(after_in_child=_take_signals_back)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _take_signals_back() -> None:
    for number in IGNORED:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
