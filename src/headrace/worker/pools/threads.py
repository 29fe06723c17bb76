"""A pool of threads for plain functions, and the FIFO semaphore of the pools."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from headrace.model.errors import BadConfig, Refused


class FifoSemaphore:
    """A semaphore whose waiters are served in order, and may be cancelled."""

    def __init__(self, size: int) -> None:
        self.free = size
        """Slots that are not taken."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Take a slot, waiting for one if all are taken."""
        if self.free:
            self.free -= 1
            return
        grant = asyncio.get_running_loop().create_future()
        self._waiting.append(grant)
        try:
            await grant
        except asyncio.CancelledError:
            if not grant.cancelled():
                self.release()  # granted and cancelled in the same moment: the next waiter gets it
            elif grant in self._waiting:
                self._waiting.remove(grant)
            raise

    def release(self) -> None:
        """Free a slot: the first waiter gets it."""
        while self._waiting:
            grant = self._waiting.popleft()
            if not grant.done():
                grant.set_result(None)
                return
        self.free += 1

    def cancel_waiters(self) -> None:
        """Cancel all waiters."""
        for grant in self._waiting:
            grant.cancel()


T = TypeVar("T")


class _ThreadCall:
    """A call that runs in a thread."""

    __slots__ = ("answer", "ended", "error", "function", "is_abandoned", "loop", "result")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.answer: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] | None = None
        """Created when the call was cancelled and only its end is awaited."""
        self.is_abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None


class _Thread:
    """A daemon thread that runs one call after the other; no exception of a call ends it."""

    def __init__(self, name: str, on_end: Callable[["_Thread", _ThreadCall], None]) -> None:
        self._inbox: SimpleQueue[_ThreadCall | None] = SimpleQueue()
        self._on_end = on_end
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, call: _ThreadCall | None) -> None:
        """Run this call next; None ends the thread."""
        self._inbox.put(call)

    def _work(self) -> None:
        while (call := self._inbox.get()) is not None:
            try:
                call.result = call.function()
            except BaseException as error:  # noqa: BLE001 - SystemExit of a handler must not end the thread either
                call.error = error
            with suppress(RuntimeError):  # the loop was closed
                call.loop.call_soon_threadsafe(self._on_end, self, call)
            del call  # an idle thread must not keep the last result alive


class ThreadPool:
    """Runs calls in at most `size` daemon threads, started when they are first needed. For one event loop."""

    def __init__(self, size: int, name: str = "headrace-handler") -> None:
        if size < 1:
            raise BadConfig(f"a pool of threads needs a size of at least 1; found {size!r}")
        self._name = name
        self._slots = FifoSemaphore(size)
        self._idle: list[_Thread] = []
        self._running: set[_ThreadCall] = set()
        self._started = 0
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many calls would start at once. A cancelled call occupies its thread until it has really ended."""
        return self._slots.free

    async def run(self, function: Callable[[], T]) -> T:
        """Run `function` in a thread, inside a copy of the caller's context variables, and return or raise its result;
        wait for a thread if all are busy.

        A thread cannot be stopped from outside. If the awaiting task is cancelled, this waits until the call has ended
        and then raises `CancelledError`: a running call must not look finished.
        """
        await self._slots.acquire()
        if self._is_closed:
            self._slots.release()
            raise Refused("closed", "the pool of threads was closed; make a new one")
        call = _ThreadCall(_in_context(function), asyncio.get_running_loop())
        self._running.add(call)
        self._thread().submit(call)
        try:
            await call.answer
        except asyncio.CancelledError:
            await self._wait_for_end(call)
            raise
        try:
            if call.error is not None:
                raise call.error
            return call.result  # type: ignore[no-any-return]
        finally:
            call.error = None  # its traceback refers to this frame: break the cycle

    def abandon(self) -> None:
        """Stop waiting: every awaited call raises `CancelledError` at once. The threads stay until their calls end, or
        the program does."""
        self._slots.cancel_waiters()
        for call in self._running:
            call.is_abandoned = True
            (call.ended or call.answer).cancel()

    def close(self) -> None:
        """Refuse new calls; idle threads end now, the others after their call."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().submit(None)

    def _thread(self) -> _Thread:
        if self._idle:
            return self._idle.pop()
        self._started += 1
        return _Thread(f"{self._name}-{self._started}", self._on_end)

    def _on_end(self, thread: _Thread, call: _ThreadCall) -> None:
        """Runs on the loop after a thread has finished a call."""
        self._running.discard(call)
        self._slots.release()
        if self._is_closed:
            thread.submit(None)
        else:
            self._idle.append(thread)
        awaited = call.ended or call.answer
        if not awaited.done():
            awaited.set_result(None)

    async def _wait_for_end(self, call: _ThreadCall) -> None:
        """Wait until the call has ended or was abandoned, however often the task is cancelled meanwhile."""
        while call in self._running and not call.is_abandoned:
            call.ended = call.loop.create_future()
            with suppress(asyncio.CancelledError):
                await call.ended


def _in_context(function: Callable[[], T]) -> Callable[[], T]:
    context = contextvars.copy_context()
    return lambda: context.run(function)
