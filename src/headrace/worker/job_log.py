"""Logs claims and settlements of jobs, many lines at once if `setup_logs` made the only handler.

Through `logging` a line costs 12 µs: a record, a dict of fields, an encoder, a write. Most lines of jobs differ in
four values only: so the formatter renders one as a template, the others fill it in, and one write takes several.
"""

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TextIO

from headrace.model.clock import SystemClock
from headrace.model.limits import LOG_LAYOUTS_MAX, LOG_PAYLOAD_CHARS_MAX, LOG_WRITE_BYTES_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Failed, Retried
from headrace.model.results import Settled
from headrace.model.times import instant_text
from headrace.worker.events import ActiveDelivery, JobsClaimed, JobsFinished, WorkerEvent, settlement_of
from headrace.worker.log_format import (
    JOB_LOG,
    JsonLines,
    TextLines,
    claim_fields,
    delivery_fields,
    event_record,
    log_event,
)
from headrace.worker.tracing import origin_of

LEVELS = {"retried": logging.WARNING, "dead": logging.ERROR}
"""The statuses that are not logged as INFO."""
_LOG = logging.getLogger("headrace")
_CLOCK = SystemClock()
_AT, _ID, _ATTEMPT, _MS = instant_text(0), "the-id-of-a-job", 987_654_301, 987_654_302
"""The values in the rendered template, replaced in each line."""


class LineTemplate(NamedTuple):
    """The text of a line around its instant, id, attempt and milliseconds."""

    before_at: str
    before_id: str
    before_attempt: str
    before_ms: str
    end: str


class LineHandler(logging.StreamHandler[TextIO]):
    """A stream handler that also writes ready lines, without a record for each."""

    def write(self, lines: Sequence[str]) -> None:
        """Write lines that end in a newline. One write is at most what a pipe takes atomically, because other processes
        may write to the same pipe."""
        if not lines:
            return
        per_write = max(LOG_WRITE_BYTES_MAX // max(map(len, lines)), 1) if all(map(str.isascii, lines)) else 1
        self.acquire()
        try:
            for at in range(0, len(lines), per_write):
                self._write_text("".join(lines[at : at + per_write]))
        finally:
            self.release()

    def _write_text(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.flush()
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - as the parent does, which reports it on standard error
            self.handleError(logging.makeLogRecord({"msg": text}))


class JobLog:
    """A listener that logs each claim and each settlement; other events of jobs are logged without it. Payloads are
    logged only with `payloads`, and truncated: they may hold secrets."""

    def __init__(self, *, payloads: bool = False) -> None:
        self._payloads = payloads

    def __call__(self, event: WorkerEvent) -> None:
        """Log claims and settlements."""
        match event:
            case JobsClaimed(deliveries) if JOB_LOG.isEnabledFor(logging.INFO):
                handler = None if self._payloads else sole_handler()
                if handler is None:
                    for delivery in deliveries:
                        self._log_claimed(delivery)
                else:
                    _write(handler, claimed_lines(handler, deliveries), lambda at: self._log_claimed(deliveries[at]))
            case JobsFinished(deliveries, answers) if JOB_LOG.isEnabledFor(logging.ERROR):
                handler = sole_handler() if JOB_LOG.isEnabledFor(logging.INFO) else None
                if handler is None:
                    for delivery, answer in zip(deliveries, answers, strict=True):
                        _log_settled(delivery, answer)
                else:
                    _write(
                        handler,
                        done_lines(handler, deliveries, answers),
                        lambda at: _log_settled(deliveries[at], answers[at]),
                    )

    def _log_claimed(self, delivery: ActiveDelivery) -> None:
        claim, record = delivery.claim, delivery.claim.record
        fields: dict[str, Any] = claim_fields(claim)
        fields["wait_ms"] = max(claim.claimed_at_ms - record.due_since_ms, 0)
        if record.stalls:
            fields["stalls"] = record.stalls
        if record.headers and (origin := origin_of(record.headers)):
            fields["origin_trace_id"] = origin
        if self._payloads:
            fields["payload"] = _truncate(record.payload)
        log_event(JOB_LOG, logging.INFO, "claimed", f"claimed {record.kind} {record.id}", fields)


def _write(handler: LineHandler, lines: Sequence[str | None], log_record: Callable[[int], None]) -> None:
    """Write lines in order, and log a full record for each that is None."""
    ready: list[str] = []  # lines in front of the next full record
    for at, line in enumerate(lines):
        if line is not None:
            ready.append(line)
        else:
            handler.write(ready)
            ready.clear()
            log_record(at)
    handler.write(ready)


def _log_settled(delivery: ActiveDelivery, answer: Settled) -> None:
    level = LEVELS.get(answer.status, logging.INFO)
    if not answer.ok or not JOB_LOG.isEnabledFor(level):
        return
    settlement, record = settlement_of(delivery), delivery.claim.record
    fields: dict[str, Any] = claim_fields(delivery.claim)
    fields["run_ms"] = settlement.facts.run_ms
    if answer.run_at_ms is not None:
        fields["run_at"] = instant_text(answer.run_at_ms)
    match settlement.outcome:
        case Retried(error) | Failed(error):
            if answer.status == "dead":
                fields["reason"] = "failed" if isinstance(settlement.outcome, Failed) else "attempts"
            fields |= {"error_class": error.cls, "error_message": error.message}
    if delivery.stop is not None:
        fields["stop"] = delivery.stop
    if delivery.span is not None:
        fields["trace_id"] = delivery.span.trace_id
    text = f"{answer.status} {record.kind} {record.id} (attempt {record.attempts + 1})"
    log_event(JOB_LOG, level, answer.status, text, fields)


def _truncate(payload: bytes) -> str:
    text = payload[: 4 * LOG_PAYLOAD_CHARS_MAX].decode("utf-8", "replace")
    return text if len(text) <= LOG_PAYLOAD_CHARS_MAX else text[: LOG_PAYLOAD_CHARS_MAX - 1] + "…"


def sole_handler() -> LineHandler | None:
    """Our own handler, if no other handler, filter or logger would see the records of jobs."""
    match _LOG.handlers:
        case [LineHandler() as handler] if JOB_LOG.propagate and not _LOG.propagate:
            is_observed = JOB_LOG.handlers or JOB_LOG.filters or handler.filters or handler.level > logging.INFO
            is_customized = logging.getLogRecordFactory() is not logging.LogRecord
            is_ours = type(handler) is LineHandler and type(handler.formatter) in (JsonLines, TextLines)
            return handler if is_ours and not is_observed and not is_customized else None
    return None


def claimed_lines(handler: LineHandler, deliveries: Sequence[ActiveDelivery]) -> list[str | None]:
    """The lines of claims; None for a line that needs a full record."""
    return _lines(handler, "claimed", "wait_ms", deliveries, list(map(_wait_ms, deliveries)))


def done_lines(
    handler: LineHandler, deliveries: Sequence[ActiveDelivery], answers: Sequence[Settled]
) -> list[str | None]:
    """The lines of jobs that are done; None for a line that needs a full record, such as other outcomes."""
    run_ms = [
        settlement_of(delivery).facts.run_ms
        if answer.status == "done" and delivery.stop is None and delivery.span is None
        else None
        for delivery, answer in zip(deliveries, answers, strict=True)
    ]
    return _lines(handler, "done", "run_ms", deliveries, run_ms)


def _wait_ms(delivery: ActiveDelivery) -> int | None:
    claim = delivery.claim
    record = claim.record
    if record.stalls or (record.headers and origin_of(record.headers)):
        return None
    wait_ms = claim.claimed_at_ms - record.due_since_ms
    return wait_ms if wait_ms > 0 else 0  # noqa: FURB136 - a call costs half as much as all of this


def _lines(
    handler: LineHandler, event: str, ms_name: str, deliveries: Sequence[ActiveDelivery], ms: Sequence[int | None]
) -> list[str | None]:
    at = instant_text(_CLOCK.now_ms())
    all_plain = _is_plain("".join([delivery.claim.record.id for delivery in deliveries]))
    queue, kind, template = None, None, None
    before_id = before_attempt = before_ms = end = ""
    lines: list[str | None] = []
    for delivery, each_ms in zip(deliveries, ms, strict=True):
        claim = delivery.claim
        record = claim.record
        if record.kind != kind or claim.lease.queue is not queue:  # neighbours are mostly alike
            queue, kind = claim.lease.queue, record.kind
            template = _template_of(handler.formatter, event, ms_name, queue, kind, claim.worker)
            if template is not None:
                before_id, before_attempt, before_ms, end = template.before_at + at + template.before_id, *template[2:]
        if template is None or each_ms is None or not (all_plain or _is_plain(record.id)):
            lines.append(None)
        else:
            lines.append(f"{before_id}{record.id}{before_attempt}{record.attempts + 1}{before_ms}{each_ms}{end}")
    return lines


def _is_plain(id: str) -> bool:
    """Whether every format shows an id unchanged."""
    return (
        id.isascii()
        and id.isprintable()
        and not ('"' in id or "\\" in id or " " in id or "=" in id)
        and "://" not in id  # a URL may hold a secret
    )


@lru_cache(LOG_LAYOUTS_MAX)
def _template_of(
    formatter: logging.Formatter, event: str, ms_name: str, queue: Queue, kind: str, worker: str
) -> LineTemplate | None:
    """The template of such lines; None where a name looks like one of the values that are replaced."""
    fields = {**delivery_fields(queue, _ID, kind, _ATTEMPT, worker), ms_name: _MS}
    record = event_record(JOB_LOG, logging.INFO, event, "", fields)
    record.created = 0.0
    rest = formatter.format(record) + "\n"
    pieces: list[str] = []
    for own in (_AT, _ID, str(_ATTEMPT), str(_MS)):
        before, found, rest = rest.partition(own)
        if not found or own in rest:
            return None
        pieces.append(before)
    return LineTemplate._make([*pieces, rest])
