"""The log of a worker: what became of every job, and a set-up that writes one event a line."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TextIO

from headrace.model.errors import BadConfig
from headrace.model.limits import LOG_PAYLOAD_CHARS_MAX
from headrace.model.outcome import Failed, Retried
from headrace.model.results import Settled
from headrace.model.times import instant_text
from headrace.worker.events import JobsClaimed, JobsFinished, Listener, Notice, settlement_of
from headrace.worker.job_lines import LineHandler, claimed_lines, done_lines, sole_handler
from headrace.worker.job_run import JobRun
from headrace.worker.log_fields import JOB_LOG, WORKER_LOG, of_claim, put
from headrace.worker.log_lines import JsonLines, TextLines
from headrace.worker.pools.messages import LogSetup
from headrace.worker.tracing import origin_of

Format = Literal["text", "json"]
_chosen: list[LogSetup] = []
"""Those that are not undone, the newest last."""
LEVELS = {"retried": logging.WARNING, "dead": logging.ERROR}
"""Where it is not INFO."""


class JobLog:
    """A listener that writes a line when a job is claimed and one when it is settled; what else happens to jobs is
    logged anyway. Payloads are written only with `payloads`, and cut: they may hold what nobody should read."""

    def __init__(self, *, payloads: bool = False) -> None:
        self._payloads = payloads

    def __call__(self, notice: Notice) -> None:
        """Take note."""
        match notice:
            case JobsClaimed(runs) if JOB_LOG.isEnabledFor(logging.INFO):
                handler = None if self._payloads else sole_handler()
                if handler is None:
                    for run in runs:
                        self._claimed(run)
                else:
                    _write(handler, claimed_lines(handler, runs), lambda at: self._claimed(runs[at]))
            case JobsFinished(runs, answers) if JOB_LOG.isEnabledFor(logging.ERROR):
                handler = sole_handler() if JOB_LOG.isEnabledFor(logging.INFO) else None
                if handler is None:
                    for run, answer in zip(runs, answers, strict=True):
                        _settled(run, answer)
                else:
                    _write(handler, done_lines(handler, runs, answers), lambda at: _settled(runs[at], answers[at]))

    def _claimed(self, run: JobRun) -> None:
        claim, record = run.claim, run.claim.record
        fields: dict[str, Any] = of_claim(claim)
        fields["wait_ms"] = max(claim.claimed_at_ms - record.due_since_ms, 0)
        if record.stalls:
            fields["stalls"] = record.stalls
        if record.headers and (origin := origin_of(record.headers)):
            fields["origin_trace_id"] = origin
        if self._payloads:
            fields["payload"] = _cut(record.payload)
        put(JOB_LOG, logging.INFO, "claimed", f"claimed {record.kind} {record.id}", fields)


def _write(handler: LineHandler, lines: Sequence[str | None], spell_out: Callable[[int], None]) -> None:
    """Write lines in their order, and have those that are missing spelled out."""
    ready: list[str] = []  # those in front of the next that is spelled out
    for at, line in enumerate(lines):
        if line is not None:
            ready.append(line)
        else:
            handler.write(ready)
            ready.clear()
            spell_out(at)
    handler.write(ready)


def _settled(run: JobRun, answer: Settled) -> None:
    level = LEVELS.get(answer.status, logging.INFO)
    if not answer.ok or not JOB_LOG.isEnabledFor(level):
        return
    settlement, record = settlement_of(run), run.claim.record
    fields: dict[str, Any] = of_claim(run.claim)
    fields["run_ms"] = settlement.facts.run_ms
    if answer.run_at_ms is not None:
        fields["run_at"] = instant_text(answer.run_at_ms)
    match settlement.outcome:
        case Retried(error) | Failed(error):
            if answer.status == "dead":
                fields["reason"] = "failed" if isinstance(settlement.outcome, Failed) else "attempts"
            fields |= {"error_class": error.cls, "error_message": error.message}
    if run.stop is not None:
        fields["stop"] = run.stop
    if run.span is not None:
        fields["trace_id"] = run.span.trace_id
    text = f"{answer.status} {record.kind} {record.id} (attempt {record.attempts + 1})"
    put(JOB_LOG, level, answer.status, text, fields)


def _cut(payload: bytes) -> str:
    text = payload[: 4 * LOG_PAYLOAD_CHARS_MAX].decode("utf-8", "replace")
    return text if len(text) <= LOG_PAYLOAD_CHARS_MAX else text[: LOG_PAYLOAD_CHARS_MAX - 1] + "…"


class Logs:
    """A log that was set up; `close`, or the end of a `with` block, puts everything back as it was."""

    def __init__(self, handler: logging.Handler, chosen: LogSetup, listeners: Sequence[Listener]) -> None:
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        """For the worker whose jobs are to be logged: `app.work(listeners=logs.listeners)`."""
        self._handler = handler
        self._chosen = chosen
        _chosen.append(chosen)
        self._ours = logging.getLogger("headrace")
        self._was = self._ours.level, self._ours.propagate
        self._root = None if logging.getLogger().handlers else logging.getLogger()
        self._ours.addHandler(handler)
        self._ours.setLevel(chosen.level)
        self._ours.propagate = False
        if self._root is not None:
            self._root.addHandler(handler)

    def close(self) -> None:
        """Undo the set-up; twice is fine."""
        if self._handler in self._ours.handlers:
            self._ours.removeHandler(self._handler)
            _chosen.remove(self._chosen)
            self._ours.setLevel(self._was[0])
            self._ours.propagate = self._was[1]
        if self._root is not None:
            self._root.removeHandler(self._handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def setup_logs(
    format: Format = "text",  # noqa: A002 - what the option is called on the command line
    stream: TextIO | None = None,
    *,
    payloads: bool = False,
    jobs: bool = True,
    level: int = logging.INFO,
    process: int | None = None,
) -> Logs:
    """Write what Headrace logs to `stream` (standard error when not given), one event a line.

    Takes the logger `headrace` for itself. Where the program has not set up logging, what others log from WARNING on
    comes out in the same shape. `listeners` of the answer are for the worker: with `jobs` they write a line for every
    claim and every end of a job, with `payloads` also what was sent. In text, stack traces are shown at level DEBUG.
    `process` is the number of this process among several that write to one stream: every line then carries it.
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
    chosen = LogSetup(format, "stdout" if out is sys.stdout else "stderr", level, process)
    return Logs(handler, chosen, [JobLog(payloads=payloads)] if jobs else [])


def default_format(stream: TextIO) -> Format:
    """Text for whoever watches a terminal, else JSON for the program that collects it."""
    return "text" if stream.isatty() else "json"


def is_logging_set_up() -> bool:
    """Whether the program has said how it logs: everything, or what Headrace tells."""
    loggers = (JOB_LOG, WORKER_LOG, logging.getLogger("headrace"), logging.getLogger())
    return any(each.handlers for each in loggers) or any(each.level or each.disabled for each in loggers[:3])


def chosen_logs() -> LogSetup | None:
    """What was set up last, for processes to do the same."""
    return _chosen[-1] if _chosen else None
