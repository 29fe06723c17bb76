"""Starts asyncio tasks eagerly, from Python 3.12 on: the first step runs at once."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

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
