"""A job with everything that a store knows of it: a dict for programs, lines for people."""

from collections.abc import Iterator
from textwrap import indent

from headrace.cli.instants import ago, instants
from headrace.cli.output import printable
from headrace.cli.shapes import (
    carried_text,
    due_text,
    ending_dict,
    first_line,
    key_text,
    letter_dict,
    policy_dict,
    record_dict,
)
from headrace.model.finished import Ending
from headrace.model.job import Record, State
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.policy import Policy
from headrace.model.queue_config import QueueConfig
from headrace.model.redact import scrubbed
from headrace.model.results import Found
from headrace.model.times import duration_text, instant_text

LABEL_CHARS = 12
"""Where the values of a portrait begin."""
LETTERS_SHOWN = 10
"""Of one id, the newest; `dead list --id` has all."""


def portrait_dict(queue: Queue, found: Found, config: QueueConfig, *, payload: bool) -> dict[str, object]:
    """Everything known of a job."""
    record, twin, ending = found.record, found.twin, found.ending
    lease = None
    if found.worker is not None:
        lease = {
            "worker": found.worker,
            "fence": found.fence,
            **instants(expires_at_ms=found.lease_expires_at_ms),
            "cancel_asked": found.cancel_asked,
        }
    return {
        "id": found.id,
        "state": found.state,
        "record": None if record is None else record_dict(record, payload=payload),
        "policy": None if record is None else policy_dict(record.policy, config),
        "lease": lease,
        "twin": None if twin is None else record_dict(twin, payload=payload),
        "ending": None if ending is None else ending_dict(ending, result=payload),
        "letters": [letter_dict(queue, letter, payload=payload) for letter in found.letters],
    }


def portrait_text(found: Found, why: str | None, config: QueueConfig, now_ms: int, *, payload: bool) -> str:
    """Everything known of a job, in lines."""
    lines = [fact("state", f"{found.state.value}{f': {why}' if why else ''}")]
    if found.record is not None:
        if found.state is State.WAITING:
            lines.append(fact("due", f"{instant_text(found.record.run_at_ms)}, {due_text(found.record, now_ms)}"))
        lines += record_facts(found.record, config, now_ms)
    if found.worker is not None and found.lease_expires_at_ms is not None:
        left = duration_text(found.lease_expires_at_ms - now_ms)
        lines.append(fact("lease", f"worker {found.worker} for {left}, fence {found.fence}"))
        if found.cancel_asked:
            lines.append(fact("cancel", "asked for; the worker hears of it with its next heartbeat"))
    if found.ending is not None:
        lines += _ending_facts(found.ending, now_ms, result=payload)
    for letter in found.letters[::-1][:LETTERS_SHOWN]:
        told = f"{letter.reason}: {error_text(letter.error)}"
        lines.append(
            fact("letter", f"{key_text(letter.key)}, died {ago(letter.died_at_ms, now_ms)}, {first_line(told)}")
        )
    if found.record is not None and payload:
        lines.append(fact("payload", carried_text(found.record.payload)))
    if found.twin is not None:
        lines.append(fact("twin", "waits behind the active one:"))
        twin = [*record_facts(found.twin, config, now_ms)]
        if payload:
            twin.append(fact("payload", carried_text(found.twin.payload)))
        lines += [indent(line, "  ") for line in twin]
    return "\n".join(lines)


def fact(label: str, value: str) -> str:
    """A line of a portrait; further lines of the value stand below its first."""
    first, *more = printable(value).split("\n")
    return "\n".join([f"{label:<{LABEL_CHARS}}{first}", *(" " * LABEL_CHARS + line for line in more)])


def error_text(error: JobError) -> str:
    """An error for people, whole."""
    message = scrubbed(error.message)
    return f"{error.cls}: {message}" if message else error.cls


def record_facts(record: Record, config: QueueConfig, now_ms: int, *, error: bool = True) -> Iterator[str]:
    """What a record says of itself, but for its time and payload."""
    rules = config.effective(record.policy)
    yield fact("kind", record.kind)
    if record.tag is not None:
        yield fact("tag", record.tag)
    yield fact("enqueued", f"{instant_text(record.enqueued_at_ms)}, {ago(record.enqueued_at_ms, now_ms)}")
    counts = f"{record.attempts:,} of {rules.max_attempts:,} attempts; stalls {record.stalls:,} of {rules.max_stalls:,}"
    yield fact("failures", counts)
    if record.error is not None and error:
        failed = "" if record.failed_at_ms is None else f"{ago(record.failed_at_ms, now_ms)}, "
        yield fact("last error", f"{failed}{error_text(record.error)}")
    yield fact("policy", _policy_text(record.policy, config))
    if record.headers:
        yield fact("headers", "\n".join(f"{name}: {value}" for name, value in sorted(record.headers.items())))


def _ending_facts(ending: Ending, now_ms: int, *, result: bool) -> Iterator[str]:
    kept = f"kept until {instant_text(ending.until_ms)}{', whatever else ends' if ending.pinned else ''}"
    yield fact("kind", ending.kind)
    if ending.tag is not None:
        yield fact("tag", ending.tag)
    yield fact("enqueued", f"{instant_text(ending.enqueued_at_ms)}, {ago(ending.enqueued_at_ms, now_ms)}")
    yield fact("failures", f"{ending.attempts:,}; stalls {ending.stalls:,}")
    yield fact("ended", f"{ending.state} {instant_text(ending.ended_at_ms)}, {ago(ending.ended_at_ms, now_ms)}; {kept}")
    if ending.result is not None and result:
        yield fact("result", carried_text(ending.result))


def _policy_text(policy: Policy, config: QueueConfig) -> str:
    """The policy that holds: what the job sets for itself, then what its queue says."""
    own, others = [], []
    for name in Policy.__struct_fields__:
        value = getattr(policy, name)
        if name in ("max_attempts", "max_stalls"):  # those stand beside their counts
            continue
        if value is not None:
            own.append(f"{_words(name)} {_value_text(name, value)}")
        elif name != "expires_at_ms":  # no queue has one
            others.append(f"{_words(name)} {_value_text(name, getattr(config, name))}")
    parts = [
        *([f"its own: {', '.join(own)}"] if own else []),
        *([f"the queue's: {', '.join(others)}"] if others else []),
    ]
    return "\n".join(parts)


def _words(name: str) -> str:
    return name.replace("_at_ms", " at").replace("_ms", "").replace("_", " ")


def _value_text(name: str, value: int) -> str:
    if name.endswith("_at_ms"):
        return instant_text(value)
    if name == "priority":
        return str(value)
    return "none" if value == 0 else duration_text(min(value, DURATION_MS_MAX))
