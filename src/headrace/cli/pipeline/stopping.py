"""Ctrl-C for work that ends in order: the first one asks it to, the second ends the program as usual."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopping:
    """Whether somebody wants an end: `asked` is set then, and `interrupted` tells that it was by Ctrl-C."""

    def __init__(self) -> None:
        self.interrupted = False
        self.asked = threading.Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within this block, a signal asks for an end; a second one ends the program as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal wants it
            self.interrupted = number == signal.SIGINT
            self.asked.set()
            for each, handler in before.items():
                signal.signal(each, handler)

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
