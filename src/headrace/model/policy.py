"""Policies: the settings of a job, the live configuration of its queue, and the backoff between attempts."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.model.errors import Refused
from headrace.model.limits import (
    ATTEMPTS_MAX,
    DURATION_MS_MAX,
    JITTER_PPM,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    RETENTION_MAX,
)
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, check_int, check_time


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


_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class QueueConfig(Struct, frozen=True):
    """The settings of a queue, for all its jobs. A change takes effect at once, also for waiting jobs."""

    version: int = 0
    """Rises by one with every change; 0 is the initial configuration."""
    paused: bool = False
    """Claims return no jobs; repair, promotion and enqueue continue."""
    fail_handler: bool = False
    """A job that dies also creates a job on the fail queue."""

    priority: int = PRIORITY_DEFAULT
    timeout_ms: int = 0
    max_attempts: int = 10
    max_stalls: int = 3
    backoff_ms: int = 2_000
    backoff_ms_max: int = 300_000
    result_ttl_ms: int = 0

    idempotency_ttl_ms: int = _DAY_MS
    keep_done_ms: int = _HOUR_MS
    keep_done_max: int = 10_000
    keep_dead_ms: int = 30 * _DAY_MS
    keep_dead_max: int = 100_000
    waiting_max: int = RETENTION_MAX
    """Waiting and blocked jobs that a shard may hold; further enqueues are refused with `full`."""
    journal_keep_ms: int = 7 * _DAY_MS
    journal_keep_max: int = 10_000_000
    journal_bytes_max: int = 256 * 1024 * 1024
    """Applies always, even to events that a consumer holds back."""
    journal_payloads: bool = False
    """Events that open or change a waiting job have its payload; its bytes count for `journal_bytes_max`."""

    def changed(self, changes: Mapping[str, object]) -> "QueueConfig":
        """The next version with `changes` (field to value); refuses unknown fields and values out of bounds."""
        for field, value in changes.items():
            _check(field, value)
        return replace(self, **{**changes, "version": self.version + 1})

    def effective(self, policy: Policy) -> "QueueConfig":
        """This configuration with the policy of a job on top."""
        own = {
            field: value for field, value in asdict(policy).items() if value is not None and field != "expires_at_ms"
        }
        return replace(self, **own) if own else self

    def priority_of(self, policy: Policy) -> int:
        """The priority of a job with `policy` at this moment."""
        return self.priority if policy.priority is None else policy.priority

    def timeout_of(self, policy: Policy) -> int:
        """How long a handler of a job with `policy` may run; 0 is no limit."""
        return self.timeout_ms if policy.timeout_ms is None else policy.timeout_ms

    def result_ttl_of(self, policy: Policy) -> int:
        """How long the finished job of a job with `policy` is pinned; 0 means not pinned."""
        return self.result_ttl_ms if policy.result_ttl_ms is None else policy.result_ttl_ms


_FLAGS = ("paused", "fail_handler", "journal_payloads")
_DURATIONS = ("idempotency_ttl_ms", "keep_done_ms", "keep_dead_ms", "journal_keep_ms")
_COUNTS = ("keep_done_max", "keep_dead_max", "waiting_max", "journal_keep_max")
_POLICY = ("priority", "timeout_ms", "max_attempts", "max_stalls", "backoff_ms", "backoff_ms_max", "result_ttl_ms")
SETTABLE = (*_FLAGS, *_POLICY, *_DURATIONS, *_COUNTS, "journal_bytes_max")
"""The fields that `configure` takes."""


def _check(field: str, value: object) -> None:
    if field in _FLAGS:
        if type(value) is not bool:
            raise Refused("bad_config", f"{field} must be true or false; found {bounded_repr(value)}")
    elif field in _POLICY:
        check_policy_field(field, value)
    elif field in _DURATIONS:
        check_int(field, value, 0, DURATION_MS_MAX)
    elif field in _COUNTS:
        check_int(field, value, 0, RETENTION_MAX)
    elif field == "journal_bytes_max":
        check_int(field, value, 0, 2**40)
    else:
        raise Refused(
            "bad_config", f"queues have no setting {bounded_repr(field)}; known settings: {', '.join(SETTABLE)}"
        )


DEFAULT_CONFIG = QueueConfig()
FAIL_QUEUE_CONFIG = QueueConfig(max_attempts=100, max_stalls=3, backoff_ms=10_000, backoff_ms_max=900_000)
"""A fail handler is the last resort, so it tries often and for a long time."""


def first_config(queue: Queue) -> QueueConfig:
    """The initial configuration of a queue."""
    return FAIL_QUEUE_CONFIG if queue.is_fail_queue else DEFAULT_CONFIG
