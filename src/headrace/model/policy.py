"""Policies: the settings of a job, the defaults of its queue, and the backoff between attempts."""

from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.model.limits import (
    ATTEMPTS_MAX,
    DURATION_MS_MAX,
    JITTER_PPM,
    PRIORITY_MAX,
    PRIORITY_MIN,
)
from headrace.model.validate import check_int, check_time


class Policy(Struct, frozen=True, gc=False, omit_defaults=True):
    """The policy fields that a job sets; None follows the queue's configuration at the moment the field is needed."""

    priority: int | None = None
    """0 to 9, higher first."""
    timeout_ms: int | None = None
    """How long a handler may run; 0 is no limit."""
    max_attempts: int | None = None
    """Deliveries that may end in Retry or Fail; at least 1."""
    max_stalls: int | None = None
    """Deliveries whose lease may run out; at least 1."""
    backoff_ms: int | None = None
    """The wait after the first failed attempt; doubles with each further one."""
    backoff_ms_max: int | None = None
    """No backoff is longer than this."""
    result_ttl_ms: int | None = None
    """How long the finished job and its result are kept, however many other jobs end meanwhile; 0 follows the queue."""
    expires_at_ms: int | None = None
    """The last instant at which the job may start; later it dies, reason `expired`."""

    def __post_init__(self) -> None:
        for what, least, most in _BOUNDS:
            number = getattr(self, what)
            if number is not None:
                check_int(what, number, least, most)
        if self.expires_at_ms is not None:
            check_time("expires_at_ms", self.expires_at_ms)

    def over(self, below: "Policy") -> "Policy":
        """This policy on top of another: unset fields are taken from `below`."""
        own = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(below, **own) if own else below


_BOUNDS = (
    ("priority", PRIORITY_MIN, PRIORITY_MAX),
    ("timeout_ms", 0, DURATION_MS_MAX),
    ("max_attempts", 1, ATTEMPTS_MAX),
    ("max_stalls", 1, ATTEMPTS_MAX),
    ("backoff_ms", 0, DURATION_MS_MAX),
    ("backoff_ms_max", 0, DURATION_MS_MAX),
    ("result_ttl_ms", 0, DURATION_MS_MAX),
)
NO_POLICY = Policy()
"""Sets nothing: everything follows the queue."""


def check_policy_field(what: str, number: object) -> None:
    """Refuse a value out of bounds; the defaults of a queue have the same bounds."""
    for name, least, most in _BOUNDS:
        if name == what:
            check_int(what, number, least, most)


def backoff(attempts: int, backoff_ms: int, backoff_ms_max: int, jitter_ppm: int = JITTER_PPM) -> int:
    """The delay before the next attempt after `attempts` (1 or more) have failed.

    `backoff_ms * 2^(attempts - 1)`, at most `backoff_ms_max`, then scaled by `jitter_ppm` millionths and rounded down.
    Whole numbers only, so all stores agree; the exponent is bounded, so attempt 10,000 costs as much as attempt 10.
    """
    doublings = min(max(attempts - 1, 0), backoff_ms_max.bit_length())
    full_ms = min(backoff_ms << doublings, backoff_ms_max)
    return full_ms * jitter_ppm // JITTER_PPM
