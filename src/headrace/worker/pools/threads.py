"""Threads for plain functions: as many as the pool has places, and none is believed over before it is."""

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
    """So many turns at once; who comes when all are taken waits."""

    def __init__(self, size: int) -> None:
        self.free = size
        """Turns that nobody has and nobody waits for."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Returns when it is the caller's turn, who gives it back when done."""
        if self.free:
            self.free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()  # granted and cancelled in the same moment: the next one has it
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """A turn is over: the first who waits has it now."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1

    def cancel(self) -> None:
        """Send away all who wait, with `CancelledError`."""
        for turn in self._waiting:
            turn.cancel()


T = TypeVar("T")


class _Run:
    """One call on its way through a thread."""

    __slots__ = ("answer", "call", "ended", "error", "is_abandoned", "loop", "result")

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.loop = loop
        self.answer: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] | None = None
        """Made when the answer is not wanted any more, and only the end is."""
        self.is_abandoned = False
        self.result: Any = None
        self.error: BaseException | None = None


class _Thread:
    """A daemon thread that does what it is handed, one call after the other; nothing that a call raises ends it."""

    def __init__(self, name: str, on_end: Callable[["_Thread", _Run], None]) -> None:
        self._inbox: SimpleQueue[_Run | None] = SimpleQueue()
        self._on_end = on_end
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def hand(self, run: _Run | None) -> None:
        """Let the thread do this next; None ends it."""
        self._inbox.put(run)

    def _work(self) -> None:
        while (run := self._inbox.get()) is not None:
            try:
                run.result = run.call()
            except BaseException as error:  # noqa: BLE001 - SystemExit of a handler must not end the thread either
                run.error = error
            with suppress(RuntimeError):  # the loop was closed: nobody waits
                run.loop.call_soon_threadsafe(self._on_end, self, run)
            del run  # an idle thread must not keep the last result alive


class ThreadPool:
    """Runs calls in at most `size` daemon threads, started when they are first needed. For one event loop."""

    def __init__(self, size: int, name: str = "headrace-handler") -> None:
        if size < 1:
            raise BadConfig(f"a pool of threads needs a size of at least 1; found {size!r}")
        self._name = name
        self._turns = FifoSemaphore(size)
        self._idle: list[_Thread] = []
        self._running: set[_Run] = set()
        self._started = 0
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many calls would start at once. A thread that was abandoned is not free before it has really ended."""
        return self._turns.free

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in a thread, inside a copy of the caller's context variables, and answer what it returns or
        raises; where all threads are taken, wait for one.

        A thread cannot be stopped from outside. When the awaiting task is cancelled, this waits until the call has
        really ended, and raises `CancelledError` then: as long as it runs, nobody should believe that it does not.
        """
        await self._turns.take()
        if self._is_closed:
            self._turns.give()
            raise Refused("closed", "the pool of threads was closed; make a new one")
        run = _Run(_in_context(call), asyncio.get_running_loop())
        self._running.add(run)
        self._thread().hand(run)
        try:
            await run.answer
        except asyncio.CancelledError:
            await self._really_ended(run)
            raise
        try:
            if run.error is not None:
                raise run.error
            return run.result  # type: ignore[no-any-return]
        finally:
            run.error = None  # its traceback holds this frame, which would hold it

    def abandon(self) -> None:
        """Stop waiting: everything that is awaited here raises `CancelledError` at once. The threads stay until their
        calls end, or the program does."""
        self._turns.cancel()
        for run in self._running:
            run.is_abandoned = True
            (run.ended or run.answer).cancel()

    def close(self) -> None:
        """Take no more calls; idle threads end now, the others after their call."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().hand(None)

    def _thread(self) -> _Thread:
        if self._idle:
            return self._idle.pop()
        self._started += 1
        return _Thread(f"{self._name}-{self._started}", self._on_end)

    def _on_end(self, thread: _Thread, run: _Run) -> None:
        """On the loop, after a thread has ended a call."""
        self._running.discard(run)
        self._turns.give()
        if self._is_closed:
            thread.hand(None)
        else:
            self._idle.append(thread)
        waited_for = run.ended or run.answer
        if not waited_for.done():
            waited_for.set_result(None)

    async def _really_ended(self, run: _Run) -> None:
        """Returns when the call has ended or was abandoned, however often the task is cancelled meanwhile."""
        while run in self._running and not run.is_abandoned:
            run.ended = run.loop.create_future()
            with suppress(asyncio.CancelledError):
                await run.ended


def _in_context(call: Callable[[], T]) -> Callable[[], T]:
    context = contextvars.copy_context()
    return lambda: context.run(call)
