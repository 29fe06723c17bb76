"""A bell: wakes coroutines on whatever event loop they wait, from whatever thread it is rung."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.model.errors import StoreUnavailable


class CrossLoopEvent:
    """An `asyncio.Event` belongs to one loop; a test may have several."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def ring(self) -> None:
        """Let all who wait look again."""
        with self._lock:
            woken, self._waiting = self._waiting, []
        for loop, event in woken:
            with contextlib.suppress(RuntimeError):  # its loop is closed, and nobody waits there any more
                loop.call_soon_threadsafe(event.set)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so; looks now, and after each ring."""
        loop = asyncio.get_running_loop()
        while not is_so():
            event = asyncio.Event()
            with self._lock:
                self._waiting.append((loop, event))
            if is_so():  # it became so before the bell knew of us
                return
            await event.wait()


T = TypeVar("T")
CLOSE_SECONDS = 5.0
"""What lives here never waits for long, so a thread that does not end in this time never will."""


class LoopThread:
    """A store in memory lives on one loop. A test has several: its own, that of a web client, that of blocking calls;
    and a blocking call on the thread of one of them must be answered all the same. So the store lives on none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace-testing", daemon=True)
        self._thread.start()

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run here what `make` makes, for a coroutine on any loop."""
        if asyncio.get_running_loop() is self._loop:
            return await make()
        try:
            return await asyncio.wrap_future(self._submit(make))
        except asyncio.CancelledError:
            if self._is_closed:
                raise _over() from None
            raise

    def ask(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run here what `make` makes, for a thread that waits; not for long, so that it may be that of a loop."""
        return self._submit(make).result()

    def tell(self, act: Callable[[], object]) -> None:
        """Have something done here, soon."""
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        """End what is under way, and the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result(CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)
        self._loop.close()

    def _submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "asyncio.Future[T] | Any":
        if self._is_closed:
            raise _over()
        return asyncio.run_coroutine_threadsafe(make(), self._loop)


def _over() -> StoreUnavailable:
    return StoreUnavailable("the block of this testing kit is over, and its store with it; open a new one")


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
