"""A job with everything that a store knows of it: a dict for programs, lines for people."""

from collections.abc import Iterator
from textwrap import indent

from headrace.cli.output import printable
from headrace.cli.parse import ago, instants
from headrace.cli.render import (
    carried_text,
    dead_letter_dict,
    due_text,
    finished_job_dict,
    first_line,
    key_text,
    policy_dict,
    record_dict,
)
from headrace.model.finished import FinishedJob
from headrace.model.job import Record, State
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.policy import Policy
from headrace.model.queue_config import QueueConfig
from headrace.model.redact import redact
from headrace.model.results import Found
from headrace.model.times import duration_text, instant_text

LABEL_CHARS = 12
"""Where the values of a portrait begin."""
DEAD_LETTERS_SHOWN = 10
"""Of one id, the newest; `dead list --id` has all."""


def portrait_dict(queue: Queue, found: Found, config: QueueConfig, *, payload: bool) -> dict[str, object]:
    """Everything known of a job."""
    record, blocked_job, finished_job = found.record, found.blocked_job, found.finished_job
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
        "blocked_job": None if blocked_job is None else record_dict(blocked_job, payload=payload),
        "finished_job": None if finished_job is None else finished_job_dict(finished_job, result=payload),
        "dead_letters": [dead_letter_dict(queue, dead_letter, payload=payload) for dead_letter in found.dead_letters],
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
    if found.finished_job is not None:
        lines += _finished_job_facts(found.finished_job, now_ms, result=payload)
    for dead_letter in found.dead_letters[::-1][:DEAD_LETTERS_SHOWN]:
        told = f"{dead_letter.reason}: {error_text(dead_letter.error)}"
        lines.append(
            fact(
                "dead letter",
                f"{key_text(dead_letter.key)}, died {ago(dead_letter.died_at_ms, now_ms)}, {first_line(told)}",
            )
        )
    if found.record is not None and payload:
        lines.append(fact("payload", carried_text(found.record.payload)))
    if found.blocked_job is not None:
        lines.append(fact("blocked", "waits behind the active one:"))
        blocked_job = [*record_facts(found.blocked_job, config, now_ms)]
        if payload:
            blocked_job.append(fact("payload", carried_text(found.blocked_job.payload)))
        lines += [indent(line, "  ") for line in blocked_job]
    return "\n".join(lines)


def fact(label: str, value: str) -> str:
    """A line of a portrait; further lines of the value stand below its first."""
    first, *more = printable(value).split("\n")
    return "\n".join([f"{label:<{LABEL_CHARS}}{first}", *(" " * LABEL_CHARS + line for line in more)])


def error_text(error: JobError) -> str:
    """An error for people, whole."""
    message = redact(error.message)
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


def _finished_job_facts(finished_job: FinishedJob, now_ms: int, *, result: bool) -> Iterator[str]:
    kept = f"kept until {instant_text(finished_job.until_ms)}{', whatever else ends' if finished_job.pinned else ''}"
    yield fact("kind", finished_job.kind)
    if finished_job.tag is not None:
        yield fact("tag", finished_job.tag)
    yield fact("enqueued", f"{instant_text(finished_job.enqueued_at_ms)}, {ago(finished_job.enqueued_at_ms, now_ms)}")
    yield fact("failures", f"{finished_job.attempts:,}; stalls {finished_job.stalls:,}")
    yield fact(
        "ended",
        f"{finished_job.state} {instant_text(finished_job.ended_at_ms)}, "
        f"{ago(finished_job.ended_at_ms, now_ms)}; {kept}",
    )
    if finished_job.result is not None and result:
        yield fact("result", carried_text(finished_job.result))


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
