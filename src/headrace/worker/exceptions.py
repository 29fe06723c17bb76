"""What a handler raises (or returns) to say how its delivery ends; anything else that it raises is a failed attempt."""

from headrace.model.outcome import JobError
from headrace.model.times import Duration, duration_ms


class HandlerEnd(Exception):
    """The root of what handlers raise on purpose."""


class Retry(HandlerEnd):
    """The attempt failed; try again after `delay`, else after the policy's backoff with full jitter.

    `raise Retry("the CRM is busy", delay="30s")`. The attempt counts; one that was the last makes a dead letter.
    """

    def __init__(self, message: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(message)
        self.delay_ms = None if delay is None else duration_ms("delay", delay)


class Fail(HandlerEnd):
    """The attempt failed and no further one would help: `raise Fail("no such user")` makes a dead letter at once."""


class Release(HandlerEnd):
    """Not done, and nobody's fault: `raise Release(delay="1m")` lets the job wait again, and counts nothing."""

    def __init__(self, *, delay: Duration = 0) -> None:
        super().__init__("released")
        self.delay_ms = duration_ms("delay", delay)


def job_error(error: BaseException) -> JobError:
    """An exception as it is kept with the job: the class by name, and what it says."""
    cause = error.__cause__
    # `raise Fail("…") from error` is about the error.
    name = type(cause if isinstance(error, Fail | Retry) and cause is not None else error).__name__
    try:
        message = str(error) or (str(cause) if cause is not None else "")
    except Exception:  # noqa: BLE001 - an exception that cannot even be printed must not become another one
        message = "(its text could not be made)"
    return JobError.of(name, message)
