"""The line on stderr that tells how far long work is: what is being done, how much of it, how fast, how long yet."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from headrace.cli.output import Output, counted, one_line
from headrace.model.clock import monotonic_ms
from headrace.model.times import duration_text

if TYPE_CHECKING:
    from headrace.pipeline.query_progress import Query, QueryProgress, Spark


LOOK_SECONDS = 0.25
"""How often Spark is asked for its tasks."""


class ProgressLine:
    """A line that moves where somebody watches, and nothing elsewhere."""

    def __init__(self, output: Output) -> None:
        self.shown = not output.json and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._is_told = False
        self._ends = threading.Event()

    @contextmanager
    def running(self, what: str) -> Iterator["ProgressLine"]:
        """Show the line within this block, which begins with doing `what`."""
        if not self.shown:
            yield self
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}", markup=False, style="cyan"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            self._bar, self._task = bar, bar.add_task(one_line(what), total=None, told="")
            yield self

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away within this block, where a person is shown or asked something."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        yield
        self._bar.start()  # an error ends the line anyway

    def stage(self, what: str) -> None:
        """Say what is being done from now on."""
        if self._bar is not None:
            self._bar.reset(self._task, description=one_line(what), total=None, told="")

    def tell(self, told: str, done: int | None = None, total: int | None = None) -> None:
        """Say how far it is."""
        if self._bar is not None:
            self._bar.update(self._task, told=told, completed=done or 0, total=total)

    def own(self, told: str, done: int | None = None, total: int | None = None) -> None:
        """Say how far work is that tells of itself; the tasks of Spark are told no more."""
        self._is_told = True
        self.tell(told, done, total)

    def far(self, far: "QueryProgress", more: str = "") -> None:
        """Say how far a stream is, from its first batch on; until then the tasks of that are told."""
        if far.behind is not None:
            self.own(f"{far_text(far)}{more}", far.events, far.events + far.behind)

    @contextmanager
    def of_spark(self, spark: "Spark") -> Iterator[None]:
        """Show the tasks of Spark's stages within this block."""
        if not self.shown:
            yield
            return
        thread = threading.Thread(target=self._look, args=(spark,), name="spark-tasks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _look(self, spark: "Spark") -> None:
        from headrace.pipeline.query_progress import tasks

        while not self._ends.wait(LOOK_SECONDS):
            found = tasks(spark)
            if found.all and not self._is_told:
                self.tell(f"{found.done:,}/{counted(found.all, 'task')}", found.done, found.all)


def far_text(far: "QueryProgress") -> str:
    """How far a stream is, for people."""
    told = [counted(far.events, "event")]
    if far.behind:
        told.append(f"{far.events_per_s:,.0f}/s")
        left = "" if far.left_s is None else f", {duration_text(round(far.left_s * 1_000))} left"
        told.append(f"{far.behind:,} behind{left}")
    elif far.behind == 0:
        told.append("nothing is behind")
    return " · ".join(told)


class Followed:
    """How a query went; `interrupted` when Ctrl-C ended it."""

    def __init__(self) -> None:
        self._stopping = Stopping()
        self._began_ms = monotonic_ms()

    def run(
        self,
        query: "Query",
        line: ProgressLine,
        more: Callable[[], str] = str,
        tell: "Callable[[QueryProgress], None] | None" = None,
    ) -> "QueryProgress":
        """Wait for the end of a query; Ctrl-C and SIGTERM are asked-for ends. `more` is told of it besides, or `tell`
        tells how far it is instead."""
        from headrace.pipeline.query_progress import follow

        self._began_ms = monotonic_ms()
        with self._stopping.heard():
            return follow(query, tell or (lambda far: line.far(far, more())), self._stopping.asked)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self._stopping.interrupted

    @property
    def stopping(self) -> threading.Event:
        """Set when it is to end."""
        return self._stopping.asked

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (monotonic_ms() - self._began_ms) / 1_000

    def close(self, output: Output, name: str, far: "QueryProgress") -> None:
        """The closing line for people."""
        pace = far.events / max(self.seconds, 0.001)
        behind = "nothing is behind" if not far.behind else f"{far.behind:,} are behind"
        output.say(
            f"{name}: {counted(far.events, 'event')} in {duration_text(round(self.seconds * 1_000))}"
            f" ({pace:,.0f}/s); {behind}"
        )
        if far.skipped or far.lost:
            output.hint(f"{far.skipped:,} were dropped before they were read, {far.lost:,} the store no longer knows")


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
