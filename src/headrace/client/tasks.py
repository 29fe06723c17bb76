"""Starts asyncio tasks eagerly where Python can, and repeats calls to an unavailable store."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import FEED_RETRY_MS, FEED_RETRY_MS_MAX, WRITE_RETRY_MS, WRITE_TRIES_MAX
from headrace.model.policy import backoff

R = TypeVar("R")


def is_eager(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `start_task` runs the first step: from Python 3.12 on, unless the program has its own task factory."""
    return sys.version_info >= (3, 12) and loop.get_task_factory() is None


def start_task(coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> asyncio.Task[R]:
    """A task of the running loop. A task that never waits is done when this returns and costs no turn of the loop."""
    return new_task(coroutine, loop) if is_eager(loop) else loop.create_task(coroutine)


def new_task(
    coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop, name: str | None = None
) -> asyncio.Task[R]:
    """A task as a loop without a task factory makes it, in fewer calls; a `name` saves generating one."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, name=name, eager_start=True)
    return asyncio.Task(coroutine, loop=loop, name=name)


T = TypeVar("T")
UNANSWERED = (StoreUnavailable, OutcomeUnknown)
"""Errors of a temporarily unavailable store: the same call may succeed later."""


class Backoff:
    """Counts failures in a row; each pause is twice the previous one, up to a bound.

    With `rng` a pause lasts from half of that to all of it, so that clients of one store do not all return at the same
    instant.
    """

    def __init__(self, pause_ms: int, pause_ms_max: int, rng: random.Random | None = None) -> None:
        self.failures = 0
        self._pause_ms = pause_ms
        self._pause_ms_max = pause_ms_max
        self._rng = rng

    async def pause(self, pause_ms_max: int | None = None) -> None:
        """Count a failure and wait before the next try; `pause_ms_max` replaces the bound."""
        self.failures += 1
        full_ms = backoff(self.failures, self._pause_ms, pause_ms_max or self._pause_ms_max)
        await asyncio.sleep(full_ms * (1.0 if self._rng is None else self._rng.uniform(0.5, 1.0)) / 1_000)

    def reset(self) -> None:
        """Count a success."""
        self.failures = 0


_RNG = random.Random()


def feed_backoff() -> Backoff:
    """The pauses of a feed's readers."""
    return Backoff(FEED_RETRY_MS, FEED_RETRY_MS_MAX, _RNG)


def write_backoff() -> Backoff:
    """The pauses of a Spark write task; it gives up after `WRITE_TRIES_MAX` tries."""
    return Backoff(WRITE_RETRY_MS, WRITE_RETRY_MS << WRITE_TRIES_MAX)


async def retry_forever(call: Callable[[], Awaitable[T]]) -> T:
    """The return value of `call`, as soon as the store answers."""
    pauses = feed_backoff()
    while True:
        try:
            return await call()
        except UNANSWERED:
            await pauses.pause()


async def retry(call: Callable[[], Awaitable[T]], *, times: int = WRITE_TRIES_MAX) -> T:
    """The return value of `call`, tried at most `times` times, then its last error. For calls that may be repeated."""
    pauses = write_backoff()
    for _ in range(times - 1):
        try:
            return await call()
        except UNANSWERED:
            await pauses.pause()
    return await call()
