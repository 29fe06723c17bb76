"""An event for coroutines of any loop, and an event loop in its own thread."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.model.errors import StoreUnavailable


class CrossLoopEvent:
    """Wakes coroutines on any event loop, from any thread; an `asyncio.Event` belongs to one loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def notify(self) -> None:
        """Let all waiters check their condition again."""
        with self._lock:
            woken, self._waiting = self._waiting, []
        for loop, event in woken:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(event.set)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked now, and after each `notify`."""
        loop = asyncio.get_running_loop()
        while not condition():
            event = asyncio.Event()
            with self._lock:
                self._waiting.append((loop, event))
            if condition():  # it came true before the event was registered
                return
            await event.wait()


T = TypeVar("T")
CLOSE_SECONDS = 5.0
"""Calls of a store in memory are short, so a thread that does not end in this time is stuck."""


class LoopThread:
    """An event loop in its own thread, for a store in memory, which belongs to one loop.

    A test has several loops: its own, that of a web client, that of blocking calls. A blocking call on the thread of
    one of them must be answered, too, so the store is on none of them.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace-testing", daemon=True)
        self._thread.start()

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await the coroutine of `make` on this loop, from a coroutine on any loop."""
        if asyncio.get_running_loop() is self._loop:
            return await make()
        try:
            return await asyncio.wrap_future(self._submit(make))
        except asyncio.CancelledError:
            if self._is_closed:
                raise _closed() from None
            raise

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for the coroutine of `make` on this loop, in any other thread; for short calls, since it blocks."""
        return self._submit(make).result()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Run a function on this loop, soon."""
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel the running calls, and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        self._loop.close()

    def _submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Future[T] | Any":
        if self._is_closed:
            raise _closed()
        return asyncio.run_coroutine_threadsafe(make(), self._loop)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the block of this testing kit is over, and its store with it; open a new one")


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
