"""Signals of the system: the first one asks a worker to end, the second one at once."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BOTH = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(stop: Callable[[int | None], None]) -> Iterator[None]:
    """Call `stop(None)` at the first SIGTERM or SIGINT and `stop(0)` at the second, as long as the block lasts; a third
    one ends the process as it would any other. For the main thread."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        stop(None)
        for number in BOTH:
            loop.add_signal_handler(number, second)

    def second() -> None:
        stop(0)
        for number in BOTH:
            loop.remove_signal_handler(number)

    for number in BOTH:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        for number in BOTH:
            loop.remove_signal_handler(number)
