"""Lets a streaming query run for a command: shows how far it is, ends it when asked to, and says how it went."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from headrace.cli.output import Output
from headrace.cli.pipeline.line import Line
from headrace.cli.stepping import counted
from headrace.model.clock import monotonic_ms
from headrace.model.times import duration_text

if TYPE_CHECKING:
    from headrace.pipeline.watch import Far, Query


class Followed:
    """How a query went; `interrupted` when Ctrl-C ended it."""

    def __init__(self) -> None:
        self.interrupted = False
        self.stopping = threading.Event()
        self._began_ms = monotonic_ms()

    def run(self, query: "Query", line: Line, more: Callable[[], str] = str) -> "Far":
        """Wait for the end of a query; Ctrl-C and SIGTERM are asked-for ends. `more` is told of it besides."""
        from headrace.pipeline.watch import follow

        self._began_ms = monotonic_ms()
        with self._signals():
            return follow(query, lambda far: line.far(far, more()), self.stopping)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (monotonic_ms() - self._began_ms) / 1_000

    def close(self, output: Output, name: str, far: "Far") -> None:
        """The closing line for people."""
        pace = far.events / max(self.seconds, 0.001)
        behind = "nothing is behind" if not far.behind else f"{far.behind:,} are behind"
        output.say(
            f"{name}: {counted(far.events, 'event')} in {duration_text(round(self.seconds * 1_000))}"
            f" ({pace:,.0f}/s); {behind}"
        )
        if far.skipped or far.lost:
            output.hint(f"{far.skipped:,} were dropped before they were read, {far.lost:,} the store no longer knows")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Within this block, a signal asks the query to stop; a second one ends the program as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal wants it
            self.interrupted = number == signal.SIGINT
            self.stopping.set()
            for each, handler in before.items():
                signal.signal(each, handler)

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
