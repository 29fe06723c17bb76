"""Lines of the log: one event each, as JSON for programs or as text for people."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from headrace.model.limits import TRACE_CHARS_MAX
from headrace.model.redact import redact
from headrace.model.times import instant_text
from headrace.worker.context import FIELDS
from headrace.worker.log_fields import of_surroundings, trace_of

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", FIELDS}
_HANDLERS = frozenset({"job_id", "job_kind", "job_queue", "job_attempt"})
"""What a handler's log adds for formatters that are not ours."""
DEPTH_MAX = 4
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
# What JSON lets stand and others take for the end of a line, or for no text at all: half characters.
_UNSAFE = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000))}


class JsonLines(logging.Formatter):
    """One JSON object a line: `at`, `level`, `event`, then what the line is about. A stack trace is one field."""

    def __init__(self, *, process: int | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, without its end."""
        line = {"at": _at(record), "level": record.levelname.lower(), **self._process, **shown_fields(record)}
        try:
            text = _ENCODER.encode(line)
        except ValueError:  # a number that is none
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
    """One line for people: when, level, event, which job, and the rest by name. With `traces` a stack trace follows,
    indented; otherwise the line says where the error came from. The number of the `process` stands in brackets."""

    def __init__(self, *, colour: bool = False, traces: bool = False, process: int | None = None) -> None:
        super().__init__()
        self._process = [] if process is None else [f"[{process}]"]
        self._is_coloured = colour
        self._has_traces = traces

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, without its end."""
        fields = shown_fields(record)
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


def shown_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What a record tells, ready to be shown: without secrets and empty fields."""
    own: Mapping[str, Any] = getattr(record, FIELDS, None) or {"event": "log", "logger": record.name}
    if own["event"] != "log":
        found = {**own}
    else:
        message = record.getMessage().removeprefix(own.get("prefix", ""))
        found = {**own, **of_surroundings(), "message": message, **_extras(record)}
        found.pop("prefix", None)
        if record.exc_info and record.exc_info[1] is not None:
            found["traceback"] = trace_of(record.exc_info[1])
    if own["event"] == "raised":
        found |= {name: value for name, value in of_surroundings().items() if name == "trace_id"}
    return {
        # The usual values need no look: whole numbers, and texts without an address.
        name: value if type(value) is int else redact(value) if type(value) is str else _clean(value)
        for name, value in found.items()
        if value is not None and value != ""
    }


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller has given as `extra`, unless it would hide what the line is about."""
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
    except Exception:  # noqa: BLE001 - the text of a value is somebody else's code
        return "(its text could not be made)"


def _at(record: logging.LogRecord) -> str:
    return instant_text(int(record.created * 1000))


def _plain(value: Any) -> str:
    """A value that stays one word: in quotes when it has several, or none."""
    text = value if isinstance(value, str) else _ENCODER.encode(value) if isinstance(value, dict | list) else str(value)
    text = _escaped(text)
    if text and not set(text) & {" ", '"', "="}:
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    """Text without anything that moves a cursor, colours a terminal or ends a line."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
