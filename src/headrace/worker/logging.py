"""Sets up the log of a worker: one event a line, as text or JSON."""

import logging
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, TextIO

from headrace.model.errors import BadConfig
from headrace.worker.events import Listener
from headrace.worker.job_log import JobLog, LineHandler
from headrace.worker.log_format import JOB_LOG, WORKER_LOG, JsonLines, TextLines
from headrace.worker.pools.messages import LogSetup

Format = Literal["text", "json"]
_active: list[LogSetup] = []
"""The set-ups that are not closed, newest last."""


class Logs:
    """A set-up of logging; `close`, or the end of a `with` block, restores the previous one."""

    def __init__(self, handler: logging.Handler, setup: LogSetup, listeners: Sequence[Listener]) -> None:
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        """For the worker whose jobs are logged: `app.work(listeners=logs.listeners)`."""
        self._handler = handler
        self._setup = setup
        _active.append(setup)
        self._logger = logging.getLogger("headrace")
        self._previous = self._logger.level, self._logger.propagate
        self._root = None if logging.getLogger().handlers else logging.getLogger()
        self._logger.addHandler(handler)
        self._logger.setLevel(setup.level)
        self._logger.propagate = False
        if self._root is not None:
            self._root.addHandler(handler)

    def close(self) -> None:
        """Undo the set-up; a second call does nothing."""
        if self._handler in self._logger.handlers:
            self._logger.removeHandler(self._handler)
            _active.remove(self._setup)
            self._logger.setLevel(self._previous[0])
            self._logger.propagate = self._previous[1]
        if self._root is not None:
            self._root.removeHandler(self._handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def setup_logs(
    format: Format = "text",  # noqa: A002 - the name of the option on the command line
    stream: TextIO | None = None,
    *,
    payloads: bool = False,
    jobs: bool = True,
    level: int = logging.INFO,
    process: int | None = None,
) -> Logs:
    """Write the log of Headrace to `stream` (default: standard error), one event a line.

    Takes over the logger `headrace`. If the program has not set up logging, records of other loggers from WARNING on
    get the same format. Pass the returned `listeners` to the worker: with `jobs` they log every claim and settlement of
    a job, with `payloads` also its payload. The text format shows stack traces at level DEBUG. `process` is the number
    of this process among several that write to one stream, and is part of every line.
    """
    out = sys.stderr if stream is None else stream
    handler = LineHandler(out)
    if format == "json":
        handler.setFormatter(JsonLines(process=process))
    elif format == "text":
        is_coloured = out.isatty() and not os.environ.get("NO_COLOR")
        handler.setFormatter(TextLines(colour=is_coloured, traces=level <= logging.DEBUG, process=process))
    else:
        raise BadConfig(f"logs are written as text or json; found {format!r}")
    setup = LogSetup(format, "stdout" if out is sys.stdout else "stderr", level, process)
    return Logs(handler, setup, [JobLog(payloads=payloads)] if jobs else [])


def default_format(stream: TextIO) -> Format:
    """Text for a terminal, else JSON for a log collector."""
    return "text" if stream.isatty() else "json"


def is_logging_set_up() -> bool:
    """Whether the program has set up logging, for all loggers or for those of Headrace."""
    loggers = (JOB_LOG, WORKER_LOG, logging.getLogger("headrace"), logging.getLogger())
    return any(each.handlers for each in loggers) or any(each.level or each.disabled for each in loggers[:3])


def current_setup() -> LogSetup | None:
    """The latest set-up, for other processes to repeat."""
    return _active[-1] if _active else None
