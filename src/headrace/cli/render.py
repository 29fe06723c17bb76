"""Jobs, dead letters and events as programs and people read them: dicts for JSON, cells for tables."""

import base64

import msgspec
from msgspec.structs import asdict

from headrace.cli.job_scan import Seen
from headrace.cli.output import printable
from headrace.cli.parse import ago, instants
from headrace.model.event import Event, columns
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import Record, State
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.policy import Policy
from headrace.model.queue_config import QueueConfig
from headrace.model.redact import redact
from headrace.model.times import duration_text, instant_text

MESSAGE_CHARS = 60
"""Of an error's message in a table; `show` has all of it."""
JOB_COLUMNS = ("id", "kind", "state", "failures#", "when", "tag")
JOB_SPARE = ("tag", "failures", "kind")
DEAD_LETTER_COLUMNS = ("key", "id", "kind", "died", "why")
DEAD_LETTER_SPARE = ("kind",)
EVENT_COLUMNS = ("time", "event", "failures#", "worker", "waited", "ran", "what")
EVENT_SPARE = ("waited", "failures", "ran", "worker")
"""SPARE: columns that a narrow terminal may go without, the least needed first."""
_UNTOLD = ("tenant", "queue", "epoch", "payload")
"""Of an event: the same for all events of a job, or nobody's business; a payload is shown once, with its job."""


def first_line(text: str, chars_max: int = MESSAGE_CHARS) -> str:
    """The beginning of a text, for a cell of a table."""
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def carried(encoded: bytes | None) -> object:
    """A payload or result for programs: JSON as it is, other bytes as {"base64": …}."""
    if encoded is None:
        return None
    try:
        msgspec.json.decode(encoded)
    except (ValueError, RecursionError):
        return {"base64": base64.b64encode(encoded).decode()}
    return msgspec.Raw(encoded)


def carried_text(encoded: bytes) -> str:
    """A payload or result for people: JSON indented, other bytes by their size and beginning."""
    try:
        msgspec.json.decode(encoded)
        return printable(msgspec.json.format(encoded, indent=2).decode())
    except (ValueError, RecursionError):
        return f"{len(encoded):,} bytes that are not JSON: {encoded[:64]!r}{'…' if len(encoded) > 64 else ''}"


def key_text(key: DeadLetterKey) -> str:
    """A dead letter's key as commands show and take it."""
    return f"{key.shard}:{key.number}"


def error_dict(error: JobError | None) -> dict[str, str] | None:
    """An error for programs."""
    return None if error is None else {"class": error.cls, "message": redact(error.message)}


def job_dict(seen: Seen) -> dict[str, object]:
    """A job in a list."""
    body, found = seen.body, seen.found
    active = seen.state is State.ACTIVE and found is not None
    waits = seen.record is not None and seen.state in (State.WAITING, State.BLOCKED)
    return {
        "queue": seen.queue.full_name,
        "id": body.id,
        "kind": body.kind,
        "state": seen.state,
        "tag": body.tag,
        "attempts": body.attempts,
        "stalls": body.stalls,
        **instants(
            enqueued_at_ms=body.enqueued_at_ms,
            run_at_ms=seen.record.run_at_ms if seen.record is not None and waits else None,
            lease_expires_at_ms=found.lease_expires_at_ms if active and found is not None else None,
            ended_at_ms=seen.ended_at_ms,
        ),
        "worker": found.worker if active and found is not None else None,
        "dead_letter": None if seen.dead_letter is None else key_text(seen.dead_letter.key),
        "error": error_dict(seen.error),
    }


def job_cells(seen: Seen, now_ms: int) -> tuple[object, ...]:
    """A row under JOB_COLUMNS."""
    body = seen.body
    return body.id, body.kind, seen.state.value, body.attempts, _when(seen, now_ms), body.tag


def _when(seen: Seen, now_ms: int) -> str:
    if seen.ended_at_ms is not None:
        return f"ended {ago(seen.ended_at_ms, now_ms)}"
    if seen.state is State.ACTIVE and seen.found is not None and seen.found.lease_expires_at_ms is not None:
        left_ms = seen.found.lease_expires_at_ms - now_ms
        return f"lease for {duration_text(left_ms)}" if left_ms > 0 else f"lease over for {duration_text(-left_ms)}"
    if seen.state is State.BLOCKED or seen.record is None:
        return "behind the active one"
    return due_text(seen.record, now_ms)


def due_text(record: Record, now_ms: int) -> str:
    """When a waiting job is due, or for how long it has been."""
    if record.run_at_ms > now_ms:
        return f"due in {duration_text(record.run_at_ms - now_ms)}"
    return f"due for {duration_text(now_ms - record.due_since_ms)}"


def record_dict(record: Record, *, payload: bool) -> dict[str, object]:
    """A record for programs, with its payload unless it is not wanted."""
    return {
        "id": record.id,
        "kind": record.kind,
        "tag": record.tag,
        "headers": record.headers,
        "attempts": record.attempts,
        "stalls": record.stalls,
        **instants(enqueued_at_ms=record.enqueued_at_ms, run_at_ms=record.run_at_ms, failed_at_ms=record.failed_at_ms),
        "error": error_dict(record.error),
        "payload_bytes": len(record.payload),
        **({"payload": carried(record.payload)} if payload else {}),
    }


def policy_dict(policy: Policy, config: QueueConfig) -> dict[str, object]:
    """The policy that holds, field by field, and whether the job or its queue says so."""
    own = {name: value for name, value in asdict(policy).items() if value is not None}
    rules = config.effective(policy)
    return {
        name: {
            "value": own[name] if name in own else getattr(rules, name, None),
            "from": "job" if name in own else "queue",
        }
        for name in Policy.__struct_fields__
        if name in own or name != "expires_at_ms"
    }


def finished_job_dict(finished_job: FinishedJob, *, result: bool) -> dict[str, object]:
    """A finished job for programs, with its result unless it is not wanted."""
    return {
        "state": finished_job.state,
        "kind": finished_job.kind,
        "tag": finished_job.tag,
        "attempts": finished_job.attempts,
        "stalls": finished_job.stalls,
        **instants(
            enqueued_at_ms=finished_job.enqueued_at_ms,
            ended_at_ms=finished_job.ended_at_ms,
            kept_until_at_ms=finished_job.until_ms,
        ),
        "pinned": finished_job.pinned,
        **({"result": carried(finished_job.result)} if result else {}),
    }


def dead_letter_dict(queue: Queue, dead_letter: DeadLetter, *, payload: bool) -> dict[str, object]:
    """A dead letter for programs."""
    return {
        "dead_letter": key_text(dead_letter.key),
        "queue": queue.full_name,
        **record_dict(dead_letter.record, payload=payload),
        "reason": dead_letter.reason,
        "error": error_dict(dead_letter.error),
        **instants(died_at_ms=dead_letter.died_at_ms, kept_until_at_ms=dead_letter.until_ms),
    }


def dead_letter_cells(dead_letter: DeadLetter, now_ms: int) -> tuple[object, ...]:
    """A row under DEAD_LETTER_COLUMNS."""
    record, error = dead_letter.record, dead_letter.error
    return (
        key_text(dead_letter.key),
        record.id,
        record.kind,
        ago(dead_letter.died_at_ms, now_ms),
        (
            f"{dead_letter.reason}: "
            f"{printable(error.cls)}{': ' if error.message else ''}{first_line(redact(error.message))}"
        ),
    )


def event_dict(event: Event) -> dict[str, object]:
    """An event for programs: what is set."""
    found = {name: value for name, value in columns(event).items() if value is not None and name not in _UNTOLD}
    if event.line.error_message is not None:
        found["error_message"] = redact(event.line.error_message)
    flaw = {} if event.flaw is None else {"flaw": event.flaw}
    return {"at": instant_text(event.at_ms), **found, **flaw}


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
        "; ".join(_told(event)) or None,
    )


def _told(event: Event) -> list[str]:
    line = event.line
    told = []
    if line.reason is not None:
        told.append(line.reason)
    if line.error_class is not None:
        message = first_line(redact(line.error_message or ""))
        told.append(f"{printable(line.error_class)}: {message}" if message else printable(line.error_class))
    if line.dead_letter is not None:
        told.append(f"dead letter {event.shard.index}:{line.dead_letter}")
    if line.run_at_ms is not None and line.run_at_ms > event.at_ms:
        told.append(f"due {duration_text(line.run_at_ms - event.at_ms)} later")
    if event.flaw is not None:
        told.append("the rest of it cannot be read")
    return told
