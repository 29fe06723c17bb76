"""Lets a streaming query run for a command: shows how far it is, ends it when asked to, and says how it went."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.output import Output
from headrace.cli.pipeline.line import ProgressLine
from headrace.cli.pipeline.stopping import Stopping
from headrace.cli.stepping import counted
from headrace.model.clock import monotonic_ms
from headrace.model.times import duration_text

if TYPE_CHECKING:
    from headrace.pipeline.query_progress import Query, QueryProgress


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
