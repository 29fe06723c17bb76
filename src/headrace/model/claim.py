"""Claims: a job handed to a worker, its lease, and the settlement that ends the delivery."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.job import Record, check_id
from headrace.model.limits import (
    ATTEMPTS_MAX,
    BATCH_MAX,
    DURATION_MS_MAX,
    FACT_BYTES_MAX,
    KIND_CHARS_MAX,
    LEASE_MS_DEFAULT,
    LEASE_MS_MIN,
    NONCE_CHARS_MAX,
    NONCE_CHARS_MIN,
    PRIORITY_MAX,
    PRIORITY_MIN,
    QUEUES_PER_CLAIM_MAX,
    TAG_CHARS_MAX,
    TIME_MS_MAX,
    TOKEN_CHARS_MAX,
    WORKER_CHARS_MAX,
)
from headrace.model.names import Queue, check_queue
from headrace.model.outcome import OUTCOMES, Outcome, check_outcome
from headrace.model.validate import bounded_repr, check_batch, check_int, check_text


def token_of(nonce: str, fence: int) -> str:
    """The token of a lease: the nonce, known only to the claimer, and the fence, chosen by the store."""
    return f"{nonce}.{fence}"


class Lease(Struct, frozen=True, gc=False):
    """The right to settle a job: it holds while `now < expires_at_ms`."""

    queue: Queue
    id: str
    token: str
    fence: int
    """Only grows for an id: pass it to outside resources, so that they can refuse an older delivery."""
    expires_at_ms: int


class Delivery(Struct, frozen=True, gc=False):
    """Kept by the store beside an active record."""

    fence: int
    nonce: str
    worker: str
    claimed_at_ms: int
    expires_at_ms: int
    cancel_asked: bool = False

    @property
    def token(self) -> str:
        """The token needed to settle it."""
        return token_of(self.nonce, self.fence)


class Facts(Struct, frozen=True, gc=False):
    """A worker's knowledge of its delivery, sent with the settlement to save the store a lookup for the journal."""

    kind: str
    tag: str | None
    priority: int
    worker: str
    enqueued_at_ms: int
    wait_ms: int
    payload_bytes: int
    run_ms: int
    attempts: int = 0
    stalls: int = 0


class Settlement(Struct, frozen=True, gc=False):
    """How one delivery ended. Every field is checked at construction: outcome and facts go into the journal, where a
    value of another type would stop readers for ever."""

    lease: Lease
    outcome: Outcome
    facts: Facts

    def __post_init__(self) -> None:
        # Every job passes here: one expression accepts nearly all settlements, only others are checked field by field.
        facts, lease = self.facts, self.lease
        if not (
            type(self.outcome) in OUTCOMES
            and type(lease) is Lease
            and type(lease.queue) is Queue
            and type(lease.id) is type(lease.token) is str
            and lease.id.isprintable()
            and lease.token.isascii()
            and len(lease.token) <= TOKEN_CHARS_MAX
            and type(facts) is Facts
            and type(kind := facts.kind) is type(worker := facts.worker) is str
            and 0 < len(kind) <= KIND_CHARS_MAX
            and kind.isprintable()
            and 0 < len(worker) <= WORKER_CHARS_MAX
            and worker.isprintable()
            and (
                (tag := facts.tag) is None or (type(tag) is str and 0 < len(tag) <= TAG_CHARS_MAX and tag.isprintable())
            )
            and type(facts.priority) is type(enqueued_at_ms := facts.enqueued_at_ms) is int
            and type(wait_ms := facts.wait_ms) is type(run_ms := facts.run_ms) is type(facts.payload_bytes) is int
            and type(facts.attempts) is type(facts.stalls) is int
            and PRIORITY_MIN <= facts.priority <= PRIORITY_MAX
            and 0 <= enqueued_at_ms <= TIME_MS_MAX
            and 0 <= wait_ms <= TIME_MS_MAX
            and 0 <= run_ms <= TIME_MS_MAX
            and 0 <= facts.payload_bytes <= FACT_BYTES_MAX
            and 0 <= facts.attempts <= ATTEMPTS_MAX
            and 0 <= facts.stalls <= ATTEMPTS_MAX
        ):
            check_outcome(self.outcome)
            _check_lease(lease)
            _check_facts(facts)


class OwnSettlement(Settlement, frozen=True, gc=False):
    """A settlement that a worker builds from its own claim and its own outcome. Not validated: both are trusted, and
    validation would cost a worker 0.4 µs a job."""

    def __post_init__(self) -> None:
        # Replaces the validation of `Settlement`.
        pass


def _check_lease(lease: object) -> None:
    # A lease built by hand may hold anything.
    if type(lease) is not Lease:
        raise Refused("bad_lease", f"expected the Lease of a claim; found {bounded_repr(lease)}")
    check_queue(lease.queue)
    check_id(lease.id, lease.queue)
    check_text("token", lease.token, TOKEN_CHARS_MAX, 0)


def _check_facts(facts: object) -> None:
    if type(facts) is not Facts:
        raise Refused("bad_facts", f"a settlement needs Facts, as Claim.settle makes them; found {bounded_repr(facts)}")
    check_text("kind", facts.kind, KIND_CHARS_MAX)
    if facts.tag is not None:
        check_text("tag", facts.tag, TAG_CHARS_MAX)
    check_text("worker", facts.worker, WORKER_CHARS_MAX)
    check_int("priority", facts.priority, PRIORITY_MIN, PRIORITY_MAX)
    check_int("payload_bytes", facts.payload_bytes, 0, FACT_BYTES_MAX)
    for what in ("enqueued_at_ms", "wait_ms", "run_ms"):
        check_int(what, getattr(facts, what), 0, TIME_MS_MAX)
    for what in ("attempts", "stalls"):
        check_int(what, getattr(facts, what), 0, ATTEMPTS_MAX)


class Claim(Struct, frozen=True, gc=False):
    """A job claimed by a worker."""

    lease: Lease
    record: Record
    worker: str
    priority: int
    timeout_ms: int
    """0 is no limit."""
    claimed_at_ms: int

    def settle(self, outcome: Outcome, run_ms: int = 0) -> Settlement:
        """The settlement of this claim, its handler having run for `run_ms`."""
        return Settlement(self.lease, outcome, self.facts(run_ms))

    def settle_own(self, outcome: Outcome, run_ms: int) -> Settlement:
        """The same without validation, for a worker with its own claim and outcome."""
        return OwnSettlement(self.lease, outcome, self.facts(run_ms))

    def facts(self, run_ms: int) -> Facts:
        """The facts that go with the settlement."""
        # No `max` and no property, each of which would cost a tenth of this; every job passes here.
        record = self.record
        due_since_ms = enqueued_at_ms = record.enqueued_at_ms
        if record.run_at_ms > enqueued_at_ms:
            due_since_ms = record.run_at_ms
        wait_ms = self.claimed_at_ms - due_since_ms
        return Facts(
            record.kind,
            record.tag,
            self.priority,
            self.worker,
            enqueued_at_ms,
            wait_ms if wait_ms > 0 else 0,  # noqa: FURB136 - see above
            len(record.payload),
            run_ms,
            record.attempts,
            record.stalls,
        )


class Claims(Struct, frozen=True, gc=False):
    """The answer to a claim."""

    items: list[Claim]
    next_at_ms: int | None
    """When to claim again if no signal arrives: now if work is left, else at the next due time or lease end; None if
    the queues are empty."""
    now_ms: int
    """The store's clock at the answer, or the `now_ms` of the call: wait for `next_at_ms - now_ms`, whatever the
    caller's own clock shows."""


class ClaimRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A worker's request for jobs. The nonce is the worker's own secret: 8 or more random characters, new for each
    claim and repeated only after the answer to a claim was lost."""

    queues: Sequence[Queue]
    worker: str
    nonce: str
    limit: int = 1
    lease_ms: int = LEASE_MS_DEFAULT

    def __post_init__(self) -> None:
        if not self.queues:
            raise Refused("bad_queue", "a claim names no queue; give at least one")
        check_batch("queues", len(self.queues), QUEUES_PER_CLAIM_MAX)
        for queue in self.queues:
            check_queue(queue)
        check_text("worker", self.worker, WORKER_CHARS_MAX)
        check_text("nonce", self.nonce, NONCE_CHARS_MAX, NONCE_CHARS_MIN)
        check_int("limit", self.limit, 1, BATCH_MAX)
        check_lease_ms(self.lease_ms)


def check_leases(leases: Sequence[object]) -> None:
    """Refuse a batch that is too large or holds a value other than a lease."""
    check_batch("leases", len(leases), BATCH_MAX)
    for lease in leases:
        _check_lease(lease)


_SETTLEMENTS = frozenset((OwnSettlement, Settlement))


def check_settlements(settlements: Sequence[object]) -> None:
    """Refuse a batch that is too large or holds a value other than a settlement."""
    check_batch("settlements", len(settlements), BATCH_MAX)
    for each in settlements:
        if type(each) not in _SETTLEMENTS:
            raise Refused("bad_settlement", f"{bounded_repr(each)} is not a settlement; build it with Claim.settle")


def check_lease_ms(lease_ms: object) -> None:
    """Refuse a lease of zero or negative length, or of more than a year."""
    check_int("lease_ms", lease_ms, LEASE_MS_MIN, DURATION_MS_MAX)
