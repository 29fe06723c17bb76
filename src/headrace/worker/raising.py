"""What a handler raises (or returns) to say how its delivery ends; anything else that it raises is a failed attempt."""

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
