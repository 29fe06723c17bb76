"""Starts tasks that take their first step where they are made, where Python can."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


def is_eager(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `start_task` takes the first step: from Python 3.12 on, unless the program makes its tasks itself."""
    return sys.version_info >= (3, 12) and loop.get_task_factory() is None


def start_task(coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> asyncio.Task[R]:
    """A task of the running loop; one that never waits is done when this returns, and has cost no turn of the loop."""
    return start_eagerly(coroutine, loop) if is_eager(loop) else loop.create_task(coroutine)


def start_eagerly(coroutine: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> asyncio.Task[R]:
    """The same, where `is_eager` says that it can be."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    raise RuntimeError("tasks take their first step where they are made from Python 3.12 on")
