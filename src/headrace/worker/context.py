"""The job that a handler works on, as the handler sees it: `current()`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.validate import check_int

HANDLER_LOG = logging.getLogger("headrace.job")
FIELDS = "headrace"
"""The attribute of a record that holds its fields."""
NOTE_CHARS_MAX = 200


class ContextFacts(Struct, frozen=True, gc=False):
    """What is known of a delivery; plain values, so that they can travel to another process."""

    id: str
    kind: str
    queue: str
    tenant: str
    attempt: int
    """Which attempt this is, from 1 on."""
    stalls: int
    fence: int
    """Only grows for an id: hand it to outside resources so that they can turn away an older delivery."""
    deadline_at_ms: int | None
    """When the time limit ends, by the store's clock; None without a limit."""
    run_at_ms: int
    enqueued_at_ms: int
    tag: str | None
    headers: dict[str, str]


class JobControl(Protocol):
    """What a context asks of whoever runs the handler."""

    def is_stopping(self) -> bool:
        """Whether the handler had better stop."""

    def remaining_ms(self) -> int | None:
        """What is left of the time limit."""

    def progress(self, fraction: float, note: str) -> None:
        """Take note of how far the handler is."""


class Progress(Struct, frozen=True):
    """How far a handler says it is."""

    fraction: float
    note: str = ""


class Context(Struct, frozen=True):
    """A delivery in the hands of a handler. Get it with `headrace.current()`, in a coroutine, a thread or a process."""

    job: ContextFacts
    watch: JobControl

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1 on."""
        return self.job.attempt

    @property
    def fence(self) -> int:
        """Only grows for an id: hand it to outside resources so that they can turn away an older delivery."""
        return self.job.fence

    @property
    def deadline_at_ms(self) -> int | None:
        """When the time limit ends, by the store's clock; None without a limit."""
        return self.job.deadline_at_ms

    @property
    def remaining_ms(self) -> int | None:
        """What is left of the time limit, never below 0; None without a limit."""
        return self.watch.remaining_ms()

    @property
    def is_stopping(self) -> bool:
        """Whether to stop: the job was cancelled, its lease or time is over, or the worker ends. Coroutines are
        cancelled anyway; a handler in a thread has to look by itself."""
        return self.watch.is_stopping()

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is, from 0 to 1, with a few words; the worker's health shows it."""
        if not 0 <= fraction <= 1:
            raise Refused("bad_progress", f"progress goes from 0 to 1; found {fraction!r}")
        check_int("note", len(note), 0, NOTE_CHARS_MAX)
        self.watch.progress(fraction, note)

    @property
    def log(self) -> "HandlerLog":
        """A logger whose lines carry the job's id, kind, queue and attempt."""
        return HandlerLog(self.job)


class HandlerLog(logging.LoggerAdapter[logging.Logger]):
    """Adds which job a line is about: as fields for a structured log, and in front of the text for people."""

    def __init__(self, job: ContextFacts) -> None:
        fields = {"job_id": job.id, "job_kind": job.kind, "job_queue": job.queue, "job_attempt": job.attempt}
        super().__init__(HANDLER_LOG, fields)
        self._prefix = f"[{job.kind} {job.id} attempt {job.attempt}] "
        self._fields = {"event": "log", "prefix": self._prefix, **fields_of(job)}

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            # Only a text that comes with arguments is formatted; a kind may hold a percent sign.
            prefix = self._prefix.replace("%", "%%") if args else self._prefix
            kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {}), FIELDS: self._fields}
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            self.logger.log(level, f"{prefix}{msg}", *args, **kwargs)  # noqa: G004 - it is the format


def fields_of(job: ContextFacts) -> dict[str, Any]:
    """Which job a line is about."""
    return {"tenant": job.tenant, "queue": job.queue, "id": job.id, "kind": job.kind, "attempt": job.attempt}


class InHand(Protocol):
    """What a context is made of."""

    def context(self, now: Callable[[], float]) -> Context:
        """What `current()` answers; `now` is the clock of the worker's loop."""


class _Made(Struct, frozen=True):
    """A context that was made already."""

    made: Context

    def context(self, now: Callable[[], float]) -> Context:  # noqa: ARG002 - it has its own
        return self.made


# A delivery and its clock, not a context: one whose handler never asks costs none.
_ENTERED: ContextVar[tuple[InHand, Callable[[], float]]] = ContextVar("headrace_context")
enter = _ENTERED.set


def current() -> Context:
    """The job that is being handled here."""
    entered = _ENTERED.get(None)
    if entered is None:
        raise Refused("no_job", "current() tells of the job that a handler works on; no handler is running here")
    return entered[0].context(entered[1])


def current_facts() -> ContextFacts | None:
    """What is known of the job that is being handled here, if one is."""
    entered = _ENTERED.get(None)
    return None if entered is None else entered[0].context(entered[1]).job


@contextmanager
def entering(context: Context) -> Iterator[None]:
    """Let `current()` be this context inside the block."""
    token = _ENTERED.set((_Made(context), float))
    try:
        yield
    finally:
        _ENTERED.reset(token)
