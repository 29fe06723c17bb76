"""The live configuration of a queue: versioned, and changed field by field."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.model.errors import Refused
from headrace.model.limits import DURATION_MS_MAX, PRIORITY_DEFAULT, RETENTION_MAX
from headrace.model.names import Queue
from headrace.model.policy import Policy, check_policy_field
from headrace.model.validate import bounded_repr, check_int

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
