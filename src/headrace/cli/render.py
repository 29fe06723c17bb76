"""Writes records, errors and timelines for people: labelled lines and tables of events."""

from collections.abc import Iterator

import msgspec

from headrace.cli.output import Output, counted, printable
from headrace.inspect.timeline import Timeline
from headrace.model.event import Event
from headrace.model.job import Record
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.outcome import JobError
from headrace.model.policy import Policy, QueueConfig
from headrace.model.redact import redact
from headrace.model.times import ago_text, duration_text, instant_text

MESSAGE_CHARS = 60
"""Of an error's message in a table; `show` prints all of it."""
LABEL_CHARS = 12
"""The width of the labels."""
EVENT_COLUMNS = ("time", "event", "failures#", "worker", "waited", "ran", "what")
EVENT_SPARE = ("waited", "failures", "ran", "worker")
"""Columns to drop in a narrow terminal, the least needed first."""


def labelled(label: str, value: str) -> str:
    """A line with a label; further lines of the value stand below its first."""
    first, *more = printable(value).split("\n")
    return "\n".join([f"{label:<{LABEL_CHARS}}{first}", *(" " * LABEL_CHARS + line for line in more)])


def first_line(text: str, chars_max: int = MESSAGE_CHARS) -> str:
    """The beginning of a text, for a cell of a table."""
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def encoded_text(encoded: bytes) -> str:
    """A payload or result: indented JSON, or the size and beginning of other bytes."""
    try:
        msgspec.json.decode(encoded)
        return printable(msgspec.json.format(encoded, indent=2).decode())
    except (ValueError, RecursionError):
        return f"{len(encoded):,} bytes that are not JSON: {encoded[:64]!r}{'…' if len(encoded) > 64 else ''}"


def error_text(error: JobError) -> str:
    """An error, whole."""
    message = redact(error.message)
    return f"{error.cls}: {message}" if message else error.cls


def record_lines(record: Record, config: QueueConfig, now_ms: int, *, error: bool = True) -> Iterator[str]:
    """The lines of a record, without its time and payload."""
    rules = config.effective(record.policy)
    yield labelled("kind", record.kind)
    if record.tag is not None:
        yield labelled("tag", record.tag)
    yield labelled("enqueued", f"{instant_text(record.enqueued_at_ms)}, {ago_text(record.enqueued_at_ms, now_ms)}")
    counts = f"{record.attempts:,} of {rules.max_attempts:,} attempts; stalls {record.stalls:,} of {rules.max_stalls:,}"
    yield labelled("failures", counts)
    if record.error is not None and error:
        failed = "" if record.failed_at_ms is None else f"{ago_text(record.failed_at_ms, now_ms)}, "
        yield labelled("last error", f"{failed}{error_text(record.error)}")
    yield labelled("policy", _policy_text(record.policy, config))
    if record.headers:
        yield labelled("headers", "\n".join(f"{name}: {value}" for name, value in sorted(record.headers.items())))


def _policy_text(policy: Policy, config: QueueConfig) -> str:
    """The settings of the job, then those of its queue."""
    own, others = [], []
    for name in Policy.__struct_fields__:
        value = getattr(policy, name)
        if name in ("max_attempts", "max_stalls"):  # shown beside their counts
            continue
        if value is not None:
            own.append(f"{_setting_name(name)} {_setting_text(name, value)}")
        elif name != "expires_at_ms":  # no queue has one
            others.append(f"{_setting_name(name)} {_setting_text(name, getattr(config, name))}")
    parts = [
        *([f"of the job: {', '.join(own)}"] if own else []),
        *([f"of the queue: {', '.join(others)}"] if others else []),
    ]
    return "\n".join(parts)


def _setting_name(name: str) -> str:
    return name.replace("_at_ms", " at").replace("_ms", "").replace("_", " ")


def _setting_text(name: str, value: int) -> str:
    if name.endswith("_at_ms"):
        return instant_text(value)
    if name == "priority":
        return str(value)
    return "none" if value == 0 else duration_text(min(value, DURATION_MS_MAX))


def print_timeline(output: Output, timeline: Timeline) -> None:
    """Print the events of a job as a table, and a hint about missing ones."""
    if not timeline.looked and timeline.begins == "not_reached":  # skipped by --scan-max 0
        return
    output.say("")
    rows = [event_cells(event) for event in timeline.events]
    output.table(EVENT_COLUMNS, rows, empty="the journal has no events of this job", spare=EVENT_SPARE)
    if (gap := gap_text(timeline)) is not None:
        output.hint(gap)


def gap_text(timeline: Timeline) -> str | None:
    """A sentence about the missing part of a timeline; None for a whole one."""
    if timeline.unreadable:
        lines = counted(timeline.unreadable, "line")
        return f"{lines} of the journal cannot be read and may belong to this job; headrace doctor --full lists them"
    since = "" if timeline.first_at_ms is None else f" (read back to {instant_text(timeline.first_at_ms)})"
    match timeline.begins:
        case "whole":
            return None
        case "dropped":
            return f"the journal has dropped the job's first events{since}"
        case "not_reached":
            looked = counted(timeline.looked, "event")
            return f"the job's first event was not reached within {looked}{since}; raise --scan-max"


def event_cells(event: Event) -> tuple[object, ...]:
    """A row under EVENT_COLUMNS."""
    line = event.line
    return (
        instant_text(event.at_ms),
        line.event,
        line.attempts,
        line.worker,
        None if line.wait_ms is None else duration_text(line.wait_ms),
        None if line.run_ms is None else duration_text(line.run_ms),
        "; ".join(_event_notes(event)) or None,
    )


def _event_notes(event: Event) -> Iterator[str]:
    line = event.line
    if line.reason is not None:
        yield line.reason
    if line.error_class is not None:
        message = first_line(redact(line.error_message or ""))
        yield f"{printable(line.error_class)}: {message}" if message else printable(line.error_class)
    if line.dead_letter is not None:
        yield f"dead letter {event.shard.index}:{line.dead_letter}"
    if line.run_at_ms is not None and line.run_at_ms > event.at_ms:
        yield f"due {duration_text(line.run_at_ms - event.at_ms)} later"
    if event.flaw is not None:
        yield "the rest cannot be read"
