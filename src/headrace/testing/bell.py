"""A bell: wakes coroutines on whatever event loop they wait, from whatever thread it is rung."""

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Bell:
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
