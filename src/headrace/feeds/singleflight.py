"""Flights: a long look at a store that many want at the same time is made once for all of them."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Whoever asks gets what was found by a look that began afterwards, so it has everything that was there before.

    At most two are under way: one that began before, and one behind it that all later ones share.
    """

    def __init__(self, look: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._look = look
        self._flying: asyncio.Task[T] | None = None
        self._boarding: asyncio.Task[T] | None = None

    async def ask(self) -> T:
        """What a look finds; who is cancelled leaves it to the others."""
        if self._flying is None:
            self._flying = flight = self._begin(self._look())
        elif self._boarding is None:
            self._boarding = flight = self._begin(self._after(self._flying))
        else:
            flight = self._boarding
        return await asyncio.shield(flight)

    def close(self) -> None:
        """Break off what nobody waits for any more."""
        for flight in (self._flying, self._boarding):
            if flight is not None:
                flight.cancel()

    async def _after(self, flying: "asyncio.Task[T]") -> T:
        await asyncio.wait([flying])
        self._flying, self._boarding = self._boarding, None
        return await self._look()

    def _begin(self, look: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        # In a context of its own: it is not about the request that came first.
        task = asyncio.get_running_loop().create_task(look, context=contextvars.Context())
        task.add_done_callback(self._landed)
        return task

    def _landed(self, task: "asyncio.Task[T]") -> None:
        seen(task)
        if self._flying is task:
            self._flying = None  # what it found is large, and soon of yesterday


def seen(task: "asyncio.Task[Any]") -> None:
    """Asyncio would complain of an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
