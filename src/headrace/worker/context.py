"""The context of a running handler: its job, deadline and log, returned by `current()`."""

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
"""The attribute of a log record that holds its fields."""
NOTE_CHARS_MAX = 200


class ContextFacts(Struct, frozen=True, gc=False):
    """The facts of a delivery: plain values, which can be sent to another process."""

    id: str
    kind: str
    queue: str
    tenant: str
    attempt: int
    """The number of this attempt, from 1."""
    stalls: int
    fence: int
    """A fencing token that only grows for an id: pass it to other systems, so that they can refuse an older
    delivery."""
    deadline_at_ms: int | None
    """The end of the time limit on the store's clock; None without a limit."""
    run_at_ms: int
    enqueued_at_ms: int
    tag: str | None
    headers: dict[str, str]


class JobControl(Protocol):
    """The part of a context that the worker or the process implements."""

    def is_stopping(self) -> bool:
        """Whether the handler should stop."""

    def remaining_ms(self) -> int | None:
        """The rest of the time limit."""

    def progress(self, fraction: float, note: str) -> None:
        """Store the handler's progress."""


class Progress(Struct, frozen=True):
    """The progress that a handler has reported."""

    fraction: float
    note: str = ""


class Context(Struct, frozen=True):
    """The context of a handler. Get it with `headrace.current()`, in a coroutine, a thread or a process."""

    job: ContextFacts
    watch: JobControl

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.job.attempt

    @property
    def fence(self) -> int:
        """A fencing token that only grows for an id: pass it to other systems, so that they can refuse an older
        delivery."""
        return self.job.fence

    @property
    def deadline_at_ms(self) -> int | None:
        """The end of the time limit on the store's clock; None without a limit."""
        return self.job.deadline_at_ms

    @property
    def remaining_ms(self) -> int | None:
        """The rest of the time limit, never below 0; None without a limit."""
        return self.watch.remaining_ms()

    @property
    def is_stopping(self) -> bool:
        """Whether to stop: the job was cancelled, its lease is lost, its time is over, or the worker stops. Coroutines
        are cancelled anyway; a handler in a thread has to check."""
        return self.watch.is_stopping()

    def progress(self, fraction: float, note: str = "") -> None:
        """Report progress from 0 to 1, with a short note; the worker's health shows it."""
        if not 0 <= fraction <= 1:
            raise Refused("bad_progress", f"progress goes from 0 to 1; found {fraction!r}")
        check_int("note", len(note), 0, NOTE_CHARS_MAX)
        self.watch.progress(fraction, note)

    @property
    def log(self) -> "HandlerLog":
        """A logger whose lines carry the job's id, kind, queue and attempt."""
        return HandlerLog(self.job)


class HandlerLog(logging.LoggerAdapter[logging.Logger]):
    """Adds the job to each record: as fields for a structured log, and as a prefix of the text."""

    def __init__(self, job: ContextFacts) -> None:
        fields = {"job_id": job.id, "job_kind": job.kind, "job_queue": job.queue, "job_attempt": job.attempt}
        super().__init__(HANDLER_LOG, fields)
        self._prefix = f"[{job.kind} {job.id} attempt {job.attempt}] "
        self._fields = {"event": "log", "prefix": self._prefix, **fields_of(job)}

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            # Only a text with arguments is formatted; a kind may hold a percent sign.
            prefix = self._prefix.replace("%", "%%") if args else self._prefix
            kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {}), FIELDS: self._fields}
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            self.logger.log(level, f"{prefix}{msg}", *args, **kwargs)  # noqa: G004 - it is the format


def fields_of(job: ContextFacts) -> dict[str, Any]:
    """The log fields that name a job."""
    return {"tenant": job.tenant, "queue": job.queue, "id": job.id, "kind": job.kind, "attempt": job.attempt}


class HasContext(Protocol):
    """An object that can build its context."""

    def context(self, now: Callable[[], float]) -> Context:
        """The context for `current()`; `now` is the clock of the worker's loop."""


class _FixedContext(Struct, frozen=True):
    """A context that exists already."""

    fixed: Context

    def context(self, now: Callable[[], float]) -> Context:  # noqa: ARG002 - the context has its own clock
        return self.fixed


# A delivery and its clock, not a context: a handler that never calls `current()` pays for none.
_ENTERED: ContextVar[tuple[HasContext, Callable[[], float]]] = ContextVar("headrace_context")
enter = _ENTERED.set


def current() -> Context:
    """The context of the handler that runs here."""
    entered = _ENTERED.get(None)
    if entered is None:
        raise Refused("no_job", "current() works inside a handler only; no handler is running here")
    return entered[0].context(entered[1])


def current_facts() -> ContextFacts | None:
    """The facts of the handler that runs here; None outside of a handler."""
    entered = _ENTERED.get(None)
    return None if entered is None else entered[0].context(entered[1]).job


@contextmanager
def use_context(context: Context) -> Iterator[None]:
    """Make `current()` return this context inside the block."""
    token = _ENTERED.set((_FixedContext(context), float))
    try:
        yield
    finally:
        _ENTERED.reset(token)
