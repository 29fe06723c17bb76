"""Formats the log of a worker: the fields of an event, and its line as JSON for programs or text for people."""

import json
import logging
import traceback
from collections.abc import Mapping
from typing import Any

from headrace.client import tracing
from headrace.model.claim import Claim
from headrace.model.limits import TRACE_CHARS_MAX
from headrace.model.names import Queue
from headrace.model.redact import redact
from headrace.model.times import instant_text
from headrace.worker.context import FIELDS, HANDLER_LOG, current_facts, fields_of
from headrace.worker.exceptions import job_error
from headrace.worker.pools.messages import ChildRaised

WORKER_LOG = logging.getLogger("headrace.worker")
"""Logs events of the worker itself."""
JOB_LOG = HANDLER_LOG
"""Logs events of single jobs; handlers write to it, too."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", FIELDS}
_HANDLERS = frozenset({"job_id", "job_kind", "job_queue", "job_attempt"})
"""Fields that a handler's log adds for other formatters than ours."""
DEPTH_MAX = 4
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
# Valid in JSON, but other programs read them as the end of a line, or reject them: lone surrogates.
_UNSAFE = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000))}


class JsonLines(logging.Formatter):
    """One JSON object a line: `at`, `level`, `event`, then the fields of the event. A stack trace is one field."""

    def __init__(self, *, process: int | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, without the newline."""
        line = {"at": _at(record), "level": record.levelname.lower(), **self._process, **visible_fields(record)}
        try:
            text = _ENCODER.encode(line)
        except ValueError:  # NaN or infinity
            text = _ENCODER.encode({name: str(value) for name, value in line.items()})
        return text if text.isascii() else text.translate(_UNSAFE)


_COLOURS = {
    "done": "32",
    "retried": "33",
    "raised": "33",
    "lost": "33",
    "wedged": "33",
    "store_lost": "33",
    "dead": "31",
}
_LEVELS = {"warning": "33", "error": "31", "critical": "31"}
_PLACED = ("event", "tenant", "queue", "id", "kind", "attempt", "worker", "message", "traceback")


class TextLines(logging.Formatter):
    """One line for people: instant, level, event, job, and the other fields by name. With `traces` an indented stack
    trace follows; otherwise the line names where the error was raised. The number of the `process` is in brackets."""

    def __init__(self, *, colour: bool = False, traces: bool = False, process: int | None = None) -> None:
        super().__init__()
        self._process = [] if process is None else [f"[{process}]"]
        self._is_coloured = colour
        self._has_traces = traces

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, without the newline."""
        fields = visible_fields(record)
        level, event = record.levelname.lower(), str(fields["event"])
        words = [
            self._painted("2", _at(record)),
            *self._process,
            self._painted(_LEVELS.get(level), f"{level:<7}"),
            self._painted(_COLOURS.get(event), f"{event:<9}"),
        ]
        if "id" in fields:
            place = fields["queue"] if fields["tenant"] == "default" else f"{fields['tenant']}/{fields['queue']}"
            words += [_plain(fields["kind"]), _plain(fields["id"]), f"attempt={fields['attempt']}", f"queue={place}"]
        elif "worker" in fields:
            words.append(_plain(fields["worker"]))
        if "message" in fields:
            words.append(_escaped(str(fields["message"])))
        words += [f"{name}={_plain(value)}" for name, value in fields.items() if name not in _PLACED]
        trace = str(fields.get("traceback") or "") if self._has_traces else ""
        return "\n    ".join([" ".join(words), *map(_escaped, trace.splitlines())])

    def _painted(self, colour: str | None, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and colour else text


def visible_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a record, without secrets and empty fields."""
    own: Mapping[str, Any] = getattr(record, FIELDS, None) or {"event": "log", "logger": record.name}
    if own["event"] != "log":
        found = {**own}
    else:
        message = record.getMessage().removeprefix(own.get("prefix", ""))
        found = {**own, **current_fields(), "message": message, **_extras(record)}
        found.pop("prefix", None)
        if record.exc_info and record.exc_info[1] is not None:
            found["traceback"] = trace_of(record.exc_info[1])
    if own["event"] == "raised":
        found |= {name: value for name, value in current_fields().items() if name == "trace_id"}
    return {
        # The usual values first: whole numbers, and texts.
        name: value if type(value) is int else redact(value) if type(value) is str else _clean(value)
        for name, value in found.items()
        if value is not None and value != ""
    }


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """The caller's `extra` fields, unless they would hide a field of the event."""
    known = _STANDARD | _HANDLERS | {"event", "at", "level", "tenant", "queue", "id", "kind", "attempt"}
    return {name: value for name, value in vars(record).items() if name not in known}


def _clean(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < DEPTH_MAX and isinstance(value, dict):
        return {_text(name): _clean(each, depth + 1) for name, each in value.items()}
    if depth < DEPTH_MAX and isinstance(value, list | tuple):
        return [_clean(each, depth + 1) for each in value]
    return _text(value)


def _text(value: object) -> str:
    try:
        return redact(str(value)[:TRACE_CHARS_MAX])
    except Exception:  # noqa: BLE001 - `__str__` is foreign code
        return "(its text could not be made)"


def _at(record: logging.LogRecord) -> str:
    return instant_text(int(record.created * 1000))


def _plain(value: Any) -> str:
    """A value as one word: in quotes when it has several words, or none."""
    text = value if isinstance(value, str) else _ENCODER.encode(value) if isinstance(value, dict | list) else str(value)
    text = _escaped(text)
    if text and not set(text) & {" ", '"', "="}:
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    """Text without control characters: none moves a cursor, colours a terminal or ends a line."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def log_event(logger: logging.Logger, level: int, event: str, message: str, fields: dict[str, Any]) -> None:
    """Write an event."""
    logger.handle(event_record(logger, level, event, message, fields))


def event_record(
    logger: logging.Logger, level: int, event: str, message: str, fields: dict[str, Any]
) -> logging.LogRecord:
    """The record of an event. Not built by `Logger.log`, which would look up its caller for every line."""
    return logger.makeRecord(
        logger.name, level, __file__, 0, message, (), None, extra={FIELDS: {"event": event, **fields}}
    )


def claim_fields(claim: Claim) -> dict[str, Any]:
    """The fields that name a delivery."""
    record = claim.record
    return delivery_fields(claim.lease.queue, record.id, record.kind, record.attempts + 1, claim.worker)


def delivery_fields(queue: Queue, id: str, kind: str, attempt: int, worker: str) -> dict[str, Any]:
    """The fields that name a delivery, from its parts."""
    return {
        "tenant": queue.tenant,
        "queue": queue.full_name,
        "id": id,
        "kind": kind,
        "attempt": attempt,
        "worker": worker,
    }


def error_fields(error: BaseException) -> dict[str, Any]:
    """The fields of an exception: class, message, place, and the stack trace as one text."""
    if isinstance(error, ChildRaised):
        return {"error_class": error.cls, "error_message": error.message, "traceback": error.trace}
    summary = job_error(error)
    fields = {"error_class": summary.cls, "error_message": summary.message}
    if error.__traceback__ is not None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        fields["error_at"] = f"{frame.filename}:{frame.lineno} in {frame.name}"
    return {**fields, "traceback": trace_of(error)}


def trace_of(error: BaseException) -> str:
    """The end of a stack trace."""
    try:
        return "".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:]
    except Exception:  # noqa: BLE001 - `__str__` is foreign code
        return ""


def current_fields() -> dict[str, Any]:
    """The fields of the current job and trace; empty outside of a handler."""
    job = current_facts()
    fields = {} if job is None else fields_of(job)
    trace_id = tracing.current_trace_id()
    return fields if trace_id is None else {**fields, "trace_id": trace_id}
