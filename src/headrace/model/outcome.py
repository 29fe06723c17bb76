"""Outcomes: how a delivery ended, as its worker reports it."""

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import (
    DURATION_MS_MAX,
    ERROR_CLASS_CHARS_MAX,
    ERROR_MESSAGE_CHARS_MAX,
    JITTER_PPM,
    RESULT_BYTES_MAX,
)
from headrace.model.redact import redact_head
from headrace.model.validate import bounded_repr, check_bytes, check_int, check_storable


class JobError(Struct, frozen=True, gc=False):
    """An error of a job: the class for grouping, the message for people."""

    cls: str
    message: str = ""

    @staticmethod
    def of(name: str, message: str = "") -> "JobError":
        """An error with texts cut to their limits and URLs without user, password and secret options: errors are kept
        with jobs, in the journal and in tables built from it."""
        redacted = redact_head(message, 2 * ERROR_MESSAGE_CHARS_MAX)
        return JobError(_fit(name, ERROR_CLASS_CHARS_MAX) or "Error", _fit(redacted, ERROR_MESSAGE_CHARS_MAX))

    def __post_init__(self) -> None:
        _check_error_text(self.cls, ERROR_CLASS_CHARS_MAX)
        _check_error_text(self.message, ERROR_MESSAGE_CHARS_MAX)


def _check_error_text(text: object, chars_max: int) -> None:
    if not isinstance(text, str):
        raise Refused(
            "bad_error", f"an error's class and message must be text; found {type(text).__name__} {bounded_repr(text)}"
        )
    if len(text) > chars_max:
        raise Refused("bad_error", "an error's text is too long; build it with JobError.of, which cuts it")
    check_storable("error", text)


def _check_error(error: object) -> None:
    if not isinstance(error, JobError):
        raise Refused(
            "bad_error", f"an outcome's error must be a JobError; found {type(error).__name__} {bounded_repr(error)}"
        )


def _fit(text: str, chars_max: int) -> str:
    # Lone surrogates cannot be stored as UTF-8; they come from badly decoded bytes in an exception.
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


class Done(Struct, frozen=True, gc=False, tag="done"):
    """The work is finished; `result` (encoded) is kept with the finished job."""

    result: bytes | None = None

    def __post_init__(self) -> None:
        if self.result is not None:
            check_bytes("result", self.result, RESULT_BYTES_MAX, "return")


class Retried(Struct, frozen=True, gc=False, tag="retry"):
    """The attempt failed; try again after `delay_ms`, else after the policy's backoff times `jitter_ppm` millionths."""

    error: JobError
    delay_ms: int | None = None
    jitter_ppm: int = JITTER_PPM

    def __post_init__(self) -> None:
        _check_error(self.error)
        if self.delay_ms is not None:
            check_int("delay_ms", self.delay_ms, 0, DURATION_MS_MAX)
        check_int("jitter_ppm", self.jitter_ppm, 0, JITTER_PPM)


class Failed(Struct, frozen=True, gc=False, tag="fail"):
    """The attempt failed, and a retry would not help: a dead letter at once."""

    error: JobError

    def __post_init__(self) -> None:
        _check_error(self.error)


class Released(Struct, frozen=True, gc=False, tag="release"):
    """Not done, and not a failure: waits again, due after `delay_ms`, nothing counted."""

    delay_ms: int = 0

    def __post_init__(self) -> None:
        check_int("delay_ms", self.delay_ms, 0, DURATION_MS_MAX)


class Cancelled(Struct, frozen=True, gc=False, tag="cancelled"):
    """The handler stopped because the job was cancelled."""


Outcome = Done | Retried | Failed | Released | Cancelled
OUTCOMES = frozenset((Done, Retried, Failed, Released, Cancelled))


def check_outcome(outcome: object) -> None:
    """Refuse a value other than an outcome."""
    if type(outcome) not in OUTCOMES:
        raise Refused(
            "bad_outcome", f"{bounded_repr(outcome)} is not an outcome; use Done, Retry, Fail, Release or Cancelled"
        )
