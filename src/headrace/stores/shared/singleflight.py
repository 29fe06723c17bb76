"""Shares one read of a store among all callers that want it at the same time."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Gives each caller the result of a read that began after the call, so that it sees every earlier write.

    At most two reads are pending: the running one, and the next one, which all later callers share.
    """

    def __init__(self, read: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def run(self) -> T:
        """The result of a read; a cancelled caller leaves the read to the others."""
        if self._running is None:
            self._running = task = self._begin(self._read())
        elif self._next is None:
            self._next = task = self._begin(self._after(self._running))
        else:
            task = self._next
        return await asyncio.shield(task)

    def close(self) -> None:
        """Cancel pending reads."""
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()

    async def _after(self, running: "asyncio.Task[T]") -> T:
        await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self._read()

    def _begin(self, read: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        # In its own context: it does not belong to the request of the first caller.
        task = asyncio.get_running_loop().create_task(read, context=contextvars.Context())
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[T]") -> None:
        retrieve_error(task)
        if self._running is task:
            self._running = None  # drop the result: it is large and soon stale


def retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Mark the error of a task as retrieved, since asyncio logs errors that no caller waits for."""
    if not task.cancelled():
        task.exception()
