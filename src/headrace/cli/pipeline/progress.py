"""Shows the progress of long work in a line on stderr: the stage, the amount done, the pace and the time left."""

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


POLL_SECONDS = 0.25
"""The interval between polls of Spark's tasks."""


class ProgressLine:
    """A line that moves in a terminal, and nothing elsewhere."""

    def __init__(self, output: Output) -> None:
        self.shown = not output.json and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._has_own_progress = False
        self._ends = threading.Event()

    @contextmanager
    def running(self, stage: str) -> Iterator["ProgressLine"]:
        """Show the line within this block, which begins with `stage`."""
        if not self.shown:
            yield self
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}", markup=False, style="cyan"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            self._bar, self._task = bar, bar.add_task(one_line(stage), total=None, text="")
            yield self

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the line within this block, for other output or a question."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        yield
        self._bar.start()  # an error ends the line anyway

    def stage(self, stage: str) -> None:
        """Begin a stage."""
        if self._bar is not None:
            self._bar.reset(self._task, description=one_line(stage), total=None, text="")

    def update(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show the progress of the stage."""
        if self._bar is not None:
            self._bar.update(self._task, text=text, completed=done or 0, total=total)

    def show_progress(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show the progress of work that reports its own, from now on instead of Spark's tasks."""
        self._has_own_progress = True
        self.update(text, done, total)

    def show_query(self, progress: "QueryProgress", suffix: str = "") -> None:
        """Show the progress of a stream from its first batch on, and Spark's tasks until then."""
        if progress.behind is not None:
            text = f"{progress_text(progress)}{suffix}"
            self.show_progress(text, progress.events, progress.events + progress.behind)

    @contextmanager
    def spark_tasks(self, spark: "Spark") -> Iterator[None]:
        """Show the tasks of Spark's stages within this block."""
        if not self.shown:
            yield
            return
        thread = threading.Thread(target=self._poll_tasks, args=(spark,), name="spark-tasks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _poll_tasks(self, spark: "Spark") -> None:
        from headrace.pipeline.query_progress import tasks

        while not self._ends.wait(POLL_SECONDS):
            active = tasks(spark)
            if active.all and not self._has_own_progress:
                self.update(f"{active.done:,}/{counted(active.all, 'task')}", active.done, active.all)


def progress_text(progress: "QueryProgress") -> str:
    """The progress of a stream in one line."""
    parts = [counted(progress.events, "event")]
    if progress.behind:
        parts.append(f"{progress.events_per_s:,.0f}/s")
        left = "" if progress.left_s is None else f", {duration_text(round(progress.left_s * 1_000))} left"
        parts.append(f"{progress.behind:,} behind{left}")
    elif progress.behind == 0:
        parts.append("no backlog")
    return " · ".join(parts)


class StopSignal:
    """A request to stop by SIGINT or SIGTERM; `interrupted` after Ctrl-C."""

    def __init__(self) -> None:
        self.interrupted = False
        self.event = threading.Event()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Within this block, the first signal sets the event, and a second one ends the program as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal wants it
            self.interrupted = number == signal.SIGINT
            self.event.set()
            for each, handler in before.items():
                signal.signal(each, handler)

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class QueryRun:
    """Runs a streaming query until it ends, or a signal ends it."""

    def __init__(self) -> None:
        self._signal = StopSignal()
        self._began_ms = monotonic_ms()

    def follow(
        self,
        query: "Query",
        line: ProgressLine,
        suffix: Callable[[], str] = str,
        on_progress: "Callable[[QueryProgress], None] | None" = None,
    ) -> "QueryProgress":
        """Wait for the end of a query, and show its progress with a `suffix`; or call `on_progress` instead."""
        from headrace.pipeline.query_progress import follow

        self._began_ms = monotonic_ms()
        with self._signal.handle_signals():
            show = on_progress or (lambda progress: line.show_query(progress, suffix()))
            return follow(query, show, self._signal.event)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self._signal.interrupted

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (monotonic_ms() - self._began_ms) / 1_000

    def say_summary(self, output: Output, name: str, progress: "QueryProgress") -> None:
        """Say the events, the pace and the backlog."""
        pace = progress.events / max(self.seconds, 0.001)
        backlog = f"{progress.behind:,} behind" if progress.behind else "no backlog"
        output.say(
            f"{name}: {counted(progress.events, 'event')} in {duration_text(round(self.seconds * 1_000))}"
            f" ({pace:,.0f}/s); {backlog}"
        )
        if progress.skipped or progress.lost:
            output.hint(
                f"{progress.skipped:,} events were dropped before they were read, and the store has lost"
                f" {progress.lost:,}"
            )
