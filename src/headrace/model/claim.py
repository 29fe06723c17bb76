"""Claims: a job handed to a worker, the lease that it holds, and the settlement that gives it back."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.model.checks import check_batch, check_int, check_text
from headrace.model.errors import Refused
from headrace.model.job import Record
from headrace.model.limits import (
    BATCH_MAX,
    DURATION_MS_MAX,
    LEASE_MS_DEFAULT,
    LEASE_MS_MIN,
    NONCE_CHARS_MAX,
    NONCE_CHARS_MIN,
    QUEUES_PER_CLAIM_MAX,
    WORKER_CHARS_MAX,
)
from headrace.model.names import Queue
from headrace.model.outcome import Outcome, check_outcome


def token_of(nonce: str, fence: int) -> str:
    """The token of a lease: what the claimer alone knows, and what the store alone decides."""
    return f"{nonce}.{fence}"


class Lease(Struct, frozen=True, gc=False):
    """The right to settle a job: it holds while `now < expires_at_ms`."""

    queue: Queue
    id: str
    token: str
    fence: int
    """Only grows for an id: hand it to outside resources so that they can turn away an older delivery."""
    expires_at_ms: int


class Delivery(Struct, frozen=True, gc=False):
    """What a store keeps beside an active record."""

    fence: int
    nonce: str
    worker: str
    claimed_at_ms: int
    expires_at_ms: int
    cancel_asked: bool = False

    @property
    def token(self) -> str:
        """The token that settles it."""
        return token_of(self.nonce, self.fence)


class Facts(Struct, frozen=True, gc=False):
    """What a worker knows of its delivery and sends along, so that the store need not look it up for the journal."""

    kind: str
    tag: str | None
    priority: int
    worker: str
    enqueued_at_ms: int
    wait_ms: int
    payload_bytes: int
    run_ms: int


class Settlement(Struct, frozen=True, gc=False):
    """How one delivery ended; the outcome is checked when it is built."""

    lease: Lease
    outcome: Outcome
    facts: Facts

    def __post_init__(self) -> None:
        check_outcome(self.outcome)


class Claim(Struct, frozen=True, gc=False):
    """A job in the hands of a worker."""

    lease: Lease
    record: Record
    worker: str
    priority: int
    timeout_ms: int
    """0 is no limit."""
    claimed_at_ms: int

    def settle(self, outcome: Outcome, run_ms: int = 0) -> Settlement:
        """The settlement of this claim, its handler having run for `run_ms`."""
        record = self.record
        facts = Facts(
            record.kind,
            record.tag,
            self.priority,
            self.worker,
            record.enqueued_at_ms,
            max(self.claimed_at_ms - record.due_since_ms, 0),
            len(record.payload),
            run_ms,
        )
        return Settlement(self.lease, outcome, facts)


class Claims(Struct, frozen=True, gc=False):
    """The answer to a claim."""

    items: list[Claim]
    next_at_ms: int | None
    """When it is worth asking again if nothing else happens: the present while work is left, the next due time or
    lease end otherwise, None when the queues are empty."""
    now_ms: int
    """The store's clock at the answer, the given instant if one was given: the way to wait is `next_at_ms - now_ms`,
    whatever the clock of the caller says."""


class ClaimRequest(Struct, frozen=True, gc=False, kw_only=True):
    """What a worker asks for. The nonce is the worker's own secret: 8 or more random characters, new for each claim
    and repeated only when the answer to a claim was lost."""

    queues: Sequence[Queue]
    worker: str
    nonce: str
    limit: int = 1
    lease_ms: int = LEASE_MS_DEFAULT

    def __post_init__(self) -> None:
        if not self.queues:
            raise Refused("bad_queue", "a claim names no queue; give at least one")
        check_batch("queues", len(self.queues), QUEUES_PER_CLAIM_MAX)
        check_text("worker", self.worker, WORKER_CHARS_MAX)
        check_text("nonce", self.nonce, NONCE_CHARS_MAX, NONCE_CHARS_MIN)
        check_int("limit", self.limit, 1, BATCH_MAX)
        check_lease_ms(self.lease_ms)


def check_lease_ms(lease_ms: object) -> None:
    """Refuse a lease of no or negative length, or of more than a year."""
    check_int("lease_ms", lease_ms, LEASE_MS_MIN, DURATION_MS_MAX)
