"""What a line of the log is about: fields that every formatter finds in the record, under one name."""

import logging
import traceback
from typing import Any

from headrace.client import tracing
from headrace.model.claim import Claim
from headrace.model.limits import TRACE_CHARS_MAX
from headrace.model.names import Queue
from headrace.worker.context import FIELDS, HANDLER_LOG, current_facts, fields_of
from headrace.worker.exceptions import job_error
from headrace.worker.pools.messages import ChildRaised

WORKER_LOG = logging.getLogger("headrace.worker")
"""Tells of the worker itself."""
JOB_LOG = HANDLER_LOG
"""Tells of single jobs, and is what handlers write to."""


def put(logger: logging.Logger, level: int, event: str, message: str, fields: dict[str, Any]) -> None:
    """Write an event."""
    logger.handle(event_record(logger, level, event, message, fields))


def event_record(
    logger: logging.Logger, level: int, event: str, message: str, fields: dict[str, Any]
) -> logging.LogRecord:
    """The record of an event. Built here instead of by `Logger.log`, which would look for its caller on every line."""
    return logger.makeRecord(
        logger.name, level, __file__, 0, message, (), None, extra={FIELDS: {"event": event, **fields}}
    )


def of_claim(claim: Claim) -> dict[str, Any]:
    """Which delivery a line is about."""
    record = claim.record
    return of_delivery(claim.lease.queue, record.id, record.kind, record.attempts + 1, claim.worker)


def of_delivery(queue: Queue, id: str, kind: str, attempt: int, worker: str) -> dict[str, Any]:
    """The same, by its parts."""
    return {
        "tenant": queue.tenant,
        "queue": queue.full_name,
        "id": id,
        "kind": kind,
        "attempt": attempt,
        "worker": worker,
    }


def of_error(error: BaseException) -> dict[str, Any]:
    """What a handler raised: class, message, where, and the stack trace in one text."""
    if isinstance(error, ChildRaised):
        return {"error_class": error.cls, "error_message": error.message, "traceback": error.trace}
    told = job_error(error)
    fields = {"error_class": told.cls, "error_message": told.message}
    if error.__traceback__ is not None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        fields["error_at"] = f"{frame.filename}:{frame.lineno} in {frame.name}"
    return {**fields, "traceback": trace_of(error)}


def trace_of(error: BaseException) -> str:
    """The end of a stack trace."""
    try:
        return "".join(traceback.format_exception(error))[-TRACE_CHARS_MAX:]
    except Exception:  # noqa: BLE001 - the text of an exception is somebody else's code
        return ""


def of_surroundings() -> dict[str, Any]:
    """The job in whose handler a line is written, and the trace; nothing where there are none."""
    job = current_facts()
    fields = {} if job is None else fields_of(job)
    trace_id = tracing.current_trace_id()
    return fields if trace_id is None else {**fields, "trace_id": trace_id}
