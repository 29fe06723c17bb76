"""The exceptions that a handler raises (or returns) to choose its outcome; any other exception fails the attempt."""

from headrace.model.outcome import JobError
from headrace.model.times import Duration, duration_ms


class HandlerEnd(Exception):
    """The base class of exceptions that choose an outcome."""


class Retry(HandlerEnd):
    """The attempt failed; retry after `delay`, else after the policy's backoff with full jitter.

    `raise Retry("the CRM is busy", delay="30s")`. The attempt counts; the last one makes a dead letter.
    """

    def __init__(self, message: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(message)
        self.delay_ms = None if delay is None else duration_ms("delay", delay)


class Fail(HandlerEnd):
    """The attempt failed and a retry would not help: `raise Fail("no such user")` makes a dead letter at once."""


class Release(HandlerEnd):
    """Requeue the job without counting the attempt: `raise Release(delay="1m")`."""

    def __init__(self, *, delay: Duration = 0) -> None:
        super().__init__("released")
        self.delay_ms = duration_ms("delay", delay)


def job_error(error: BaseException) -> JobError:
    """An exception as it is stored with the job: the name of its class, and its message."""
    cause = error.__cause__
    # `raise Fail("…") from error` is stored under the class of `error`.
    name = type(cause if isinstance(error, Fail | Retry) and cause is not None else error).__name__
    try:
        message = str(error) or (str(cause) if cause is not None else "")
    except Exception:  # noqa: BLE001 - `__str__` is foreign code
        message = "(its text could not be made)"
    return JobError.of(name, message)
