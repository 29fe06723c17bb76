"""Writes the lines of many jobs together, where the log that `setup_logs` made is all that reads them.

By way of `logging` a line costs 12 µs: a record, a dict of fields, an encoder, a write. Most lines of jobs differ in
four places only: so the formatter lays out one, and the others are made of its pieces, several for each write.
"""

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TextIO

from headrace.model.clock import SystemClock
from headrace.model.limits import LOG_LAYOUTS_MAX, LOG_WRITE_BYTES_MAX
from headrace.model.names import Queue
from headrace.model.results import Settled
from headrace.model.times import instant_text
from headrace.worker.events import settlement_of
from headrace.worker.job_run import JobRun
from headrace.worker.log_fields import JOB_LOG, event_record, of_delivery
from headrace.worker.log_lines import JsonLines, TextLines
from headrace.worker.tracing import origin_of

_LOG = logging.getLogger("headrace")
_CLOCK = SystemClock()
_AT, _ID, _ATTEMPT, _MS = instant_text(0), "the-id-of-a-job", 987_654_301, 987_654_302
"""What the line that is laid out has where each line has its own."""


class Layout(NamedTuple):
    """The pieces of a line around its instant, id, attempt and milliseconds."""

    before_at: str
    before_id: str
    before_attempt: str
    before_ms: str
    end: str


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes records as its parent does, and lines that were made without one."""

    def write(self, lines: Sequence[str]) -> None:
        """Write lines, each with its end. At once go no more than a pipe takes as a whole: other processes may write to
        it, too."""
        if not lines:
            return
        several = max(LOG_WRITE_BYTES_MAX // max(map(len, lines)), 1) if all(map(str.isascii, lines)) else 1
        self.acquire()
        try:
            for at in range(0, len(lines), several):
                self._write_text("".join(lines[at : at + several]))
        finally:
            self.release()

    def _write_text(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.flush()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as the parent does, which tells of it on standard error
            self.handleError(logging.makeLogRecord({"msg": text}))


def sole_handler() -> LineHandler | None:
    """Our own handler, where each record of a job would go to it and nobody else would see the record."""
    match _LOG.handlers:
        case [LineHandler() as handler] if JOB_LOG.propagate and not _LOG.propagate:
            is_looked_at = JOB_LOG.handlers or JOB_LOG.filters or handler.filters or handler.level > logging.INFO
            is_changed = logging.getLogRecordFactory() is not logging.LogRecord
            is_ours = type(handler) is LineHandler and type(handler.formatter) in (JsonLines, TextLines)
            return handler if is_ours and not is_looked_at and not is_changed else None
    return None


def claimed_lines(handler: LineHandler, runs: Sequence[JobRun]) -> list[str | None]:
    """The lines of what was claimed; None in the place of one that has to be spelled out."""
    return _lines(handler, "claimed", "wait_ms", runs, list(map(_wait_ms, runs)))


def done_lines(handler: LineHandler, runs: Sequence[JobRun], answers: Sequence[Settled]) -> list[str | None]:
    """The lines of what is done; None in the place of one that has to be spelled out, such as those of other ends."""
    run_ms = [
        settlement_of(run).facts.run_ms if answer.status == "done" and run.stop is None and run.span is None else None
        for run, answer in zip(runs, answers, strict=True)
    ]
    return _lines(handler, "done", "run_ms", runs, run_ms)


def _wait_ms(run: JobRun) -> int | None:
    claim = run.claim
    record = claim.record
    if record.stalls or (record.headers and origin_of(record.headers)):
        return None
    wait_ms = claim.claimed_at_ms - record.due_since_ms
    return wait_ms if wait_ms > 0 else 0  # noqa: FURB136 - a call costs half as much as all of this


def _lines(
    handler: LineHandler, event: str, ms_name: str, runs: Sequence[JobRun], ms: Sequence[int | None]
) -> list[str | None]:
    at = instant_text(_CLOCK.now_ms())
    are_plain = _is_plain("".join([run.claim.record.id for run in runs]))
    queue, kind, layout = None, None, None
    before_id = before_attempt = before_ms = end = ""
    lines: list[str | None] = []
    for run, each_ms in zip(runs, ms, strict=True):
        claim = run.claim
        record = claim.record
        if record.kind != kind or claim.lease.queue is not queue:  # neighbours are mostly alike
            queue, kind = claim.lease.queue, record.kind
            layout = _layout_of(handler.formatter, event, ms_name, queue, kind, claim.worker)
            if layout is not None:
                before_id, before_attempt, before_ms, end = layout.before_at + at + layout.before_id, *layout[2:]
        if layout is None or each_ms is None or not (are_plain or _is_plain(record.id)):
            lines.append(None)
        else:
            lines.append(f"{before_id}{record.id}{before_attempt}{record.attempts + 1}{before_ms}{each_ms}{end}")
    return lines


def _is_plain(id: str) -> bool:
    """Whether an id is shown as it is in every format."""
    return (
        id.isascii()
        and id.isprintable()
        and not ('"' in id or "\\" in id or " " in id or "=" in id)
        and "://" not in id  # an address, which may hold a secret
    )


@lru_cache(LOG_LAYOUTS_MAX)
def _layout_of(
    formatter: logging.Formatter, event: str, ms_name: str, queue: Queue, kind: str, worker: str
) -> Layout | None:
    """The pieces of such lines; None where a name looks like what stands for a line's own."""
    fields = {**of_delivery(queue, _ID, kind, _ATTEMPT, worker), ms_name: _MS}
    record = event_record(JOB_LOG, logging.INFO, event, "", fields)
    record.created = 0.0
    rest = formatter.format(record) + "\n"
    pieces: list[str] = []
    for own in (_AT, _ID, str(_ATTEMPT), str(_MS)):
        before, found, rest = rest.partition(own)
        if not found or own in rest:
            return None
        pieces.append(before)
    return Layout._make([*pieces, rest])
