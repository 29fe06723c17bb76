"""Requests that claim jobs, extend leases and settle deliveries, and their answers."""

from typing import Literal

from msgspec import UNSET, Struct

from headrace.model.claim import Claim, Claims, Facts, Lease, Settlement
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetterKey
from headrace.model.job import Record
from headrace.model.limits import JITTER_PPM, LEASE_MS_DEFAULT
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.results import LeaseRefusal, Settled, Turned
from headrace.wire.content import ByteContent, ErrorBody, JsonContent, read_content, write_content
from headrace.wire.queues import QueueField, queue_body


class ClaimBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Asks for jobs. A `nonce` of 8 or more random characters lets a claim be repeated after its answer was lost."""

    queues: list[QueueField]
    worker: str = "http"
    nonce: str | None = None
    limit: int = 1
    lease_ms: int = LEASE_MS_DEFAULT
    wait_ms: int = 0


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job handed out under a lease: settle it with its queue, id and token."""

    queue: str
    shards: int
    id: str
    token: str
    fence: int
    expires_at_ms: int
    expires_in_ms: int
    """For callers whose clock is wrong."""
    kind: str
    payload: JsonContent = UNSET
    payload_base64: ByteContent = UNSET
    tag: str | None = None
    headers: dict[str, str] = {}
    attempts: int = 0
    stalls: int = 0
    priority: int
    timeout_ms: int
    enqueued_at_ms: int
    run_at_ms: int
    claimed_at_ms: int
    worker: str
    policy: Policy = NO_POLICY
    error: ErrorBody | None = None
    failed_at_ms: int | None = None
    order_key: int | None = None

    @staticmethod
    def of(claim: Claim, now_ms: int, *, packed: bool) -> "ClaimedJob":
        """A claim as the service answers it."""
        lease, record = claim.lease, claim.record
        payload, payload_base64 = write_content(record.payload, packed=packed)
        return ClaimedJob(
            queue=lease.queue.full_name,
            shards=lease.queue.shards,
            id=lease.id,
            token=lease.token,
            fence=lease.fence,
            expires_at_ms=lease.expires_at_ms,
            expires_in_ms=max(lease.expires_at_ms - now_ms, 0),
            kind=record.kind,
            payload=payload,
            payload_base64=payload_base64,
            tag=record.tag,
            headers=record.headers,
            attempts=record.attempts,
            stalls=record.stalls,
            priority=claim.priority,
            timeout_ms=claim.timeout_ms,
            enqueued_at_ms=record.enqueued_at_ms,
            run_at_ms=record.run_at_ms,
            claimed_at_ms=claim.claimed_at_ms,
            worker=claim.worker,
            policy=record.policy,
            error=None if record.error is None else ErrorBody.of(record.error),
            failed_at_ms=record.failed_at_ms,
            order_key=record.order_key,
        )

    def claim(self, tenant: str) -> Claim:
        """The claim of a tenant, from MessagePack."""
        payload = read_content("payload", self.payload, self.payload_base64, packed=True)
        queue = Queue.parse(self.queue, tenant, self.shards)
        record = Record(
            id=self.id,
            kind=self.kind,
            payload=payload or b"",
            run_at_ms=self.run_at_ms,
            enqueued_at_ms=self.enqueued_at_ms,
            policy=self.policy,
            tag=self.tag,
            headers=self.headers,
            attempts=self.attempts,
            stalls=self.stalls,
            error=None if self.error is None else self.error.job_error(),
            failed_at_ms=self.failed_at_ms,
            order_key=self.order_key,
        )
        lease = Lease(queue, self.id, self.token, self.fence, self.expires_at_ms)
        return Claim(lease, record, self.worker, self.priority, self.timeout_ms, self.claimed_at_ms)


class ClaimAnswer(Struct, frozen=True):
    """Claimed jobs, none of them while the queues are empty; `next_at_ms` says when to ask again."""

    claims: list[ClaimedJob]
    next_at_ms: int | None
    now_ms: int

    @staticmethod
    def of(claims: Claims, *, packed: bool) -> "ClaimAnswer":
        """The answer of the store."""
        jobs = [ClaimedJob.of(each, claims.now_ms, packed=packed) for each in claims.items]
        return ClaimAnswer(jobs, claims.next_at_ms, claims.now_ms)

    def model(self, tenant: str) -> Claims:
        """The claims of a tenant, from MessagePack."""
        return Claims([each.claim(tenant) for each in self.claims], self.next_at_ms, self.now_ms)


class LeaseBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lease as its claim gave it."""

    queue: QueueField
    id: str
    token: str
    fence: int | None = None

    def lease(self, queue: Queue) -> Lease:
        """The lease on its queue."""
        return Lease(queue, self.id, self.token, fence_of(self.token) if self.fence is None else self.fence, 0)


def fence_of(token: str) -> int:
    """The fence in a token; 0 if it holds none, which no store accepts."""
    digits = token.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0


class ExtendBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Leases to extend until `lease_ms` from now."""

    leases: list[LeaseBody]
    lease_ms: int = LEASE_MS_DEFAULT


class ExtendedLease(Struct, frozen=True):
    """The answer to one lease."""

    id: str
    status: Literal["extended"] | LeaseRefusal
    expires_at_ms: int | None = None
    cancel_asked: bool = False


class ExtendAnswer(Struct, frozen=True):
    """The answers to an extension, in the order of the leases."""

    results: list[ExtendedLease]


class FactsBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the claim told of the delivery; it saves the service a lookup for the journal."""

    kind: str
    tag: str | None = None
    priority: int
    worker: str
    enqueued_at_ms: int
    wait_ms: int
    payload_bytes: int
    attempts: int = 0
    stalls: int = 0


class OutcomeBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How a delivery ended, for the operations that name the outcome in their path."""

    token: str
    result: JsonContent = UNSET
    result_base64: ByteContent = UNSET
    error: ErrorBody | None = None
    delay_ms: int | None = None
    run_ms: int = 0
    lease_ms: int = LEASE_MS_DEFAULT


OutcomeName = Literal["done", "retry", "fail", "release", "cancelled"]


class SettlementBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How a delivery ended."""

    queue: QueueField
    id: str
    token: str
    outcome: OutcomeName
    fence: int | None = None
    result: JsonContent = UNSET
    result_base64: ByteContent = UNSET
    error: ErrorBody | None = None
    delay_ms: int | None = None
    jitter_ppm: int = JITTER_PPM
    run_ms: int = 0
    facts: FactsBody | None = None

    def read_outcome(self, *, packed: bool) -> Outcome:
        """The outcome; raises `Refused` for members that do not belong to it."""
        result = read_content("result", self.result, self.result_base64, packed=packed)
        members = {"result": result, "error": self.error, "delay_ms": self.delay_ms}
        for name, value in members.items():
            if value is not None and name not in _MEMBERS[self.outcome]:
                raise Refused("bad_outcome", f"the outcome {self.outcome!r} takes no {name}; leave it out")
        error = JobError("Error") if self.error is None else self.error.job_error()
        match self.outcome:
            case "done":
                return Done(result)
            case "retry":
                return Retried(error, self.delay_ms, self.jitter_ppm)
            case "fail":
                return Failed(error)
            case "release":
                return Released(self.delay_ms or 0)
            case "cancelled":
                return Cancelled()

    @staticmethod
    def of(settlement: Settlement) -> "SettlementBody":
        """A settlement, for MessagePack."""
        lease, outcome, facts = settlement.lease, settlement.outcome, settlement.facts
        error = outcome.error if isinstance(outcome, Retried | Failed) else None
        result = outcome.result if isinstance(outcome, Done) else None
        return SettlementBody(
            queue=queue_body(lease.queue),
            id=lease.id,
            token=lease.token,
            fence=lease.fence,
            outcome=_OUTCOME_NAMES[type(outcome)],
            result_base64=UNSET if result is None else result,
            error=None if error is None else ErrorBody(error.cls, error.message),
            delay_ms=outcome.delay_ms if isinstance(outcome, Retried | Released) else None,
            jitter_ppm=outcome.jitter_ppm if isinstance(outcome, Retried) else JITTER_PPM,
            run_ms=facts.run_ms,
            facts=FactsBody(
                kind=facts.kind,
                tag=facts.tag,
                priority=facts.priority,
                worker=facts.worker,
                enqueued_at_ms=facts.enqueued_at_ms,
                wait_ms=facts.wait_ms,
                payload_bytes=facts.payload_bytes,
                attempts=facts.attempts,
                stalls=facts.stalls,
            ),
        )

    def settlement(self, queue: Queue, facts: Facts, *, packed: bool) -> Settlement:
        """The settlement on its queue."""
        fence = fence_of(self.token) if self.fence is None else self.fence
        return Settlement(Lease(queue, self.id, self.token, fence, 0), self.read_outcome(packed=packed), facts)


_MEMBERS = {
    "done": ("result",),
    "retry": ("error", "delay_ms"),
    "fail": ("error",),
    "release": ("delay_ms",),
    "cancelled": (),
}
_OUTCOME_NAMES: dict[type[Outcome], OutcomeName] = {
    Done: "done",
    Retried: "retry",
    Failed: "fail",
    Released: "release",
    Cancelled: "cancelled",
}


class SettleBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Deliveries to settle."""

    settlements: list[SettlementBody]


class SettledJob(Struct, frozen=True):
    """The answer to one settlement; `dead_letter` is the key of its dead letter."""

    id: str
    status: Literal["done", "retried", "released", "dead", "cancelled"] | LeaseRefusal
    run_at_ms: int | None = None
    dead_letter: str | None = None

    @staticmethod
    def of(settled: Settled) -> "SettledJob":
        """The answer of the store."""
        key = None if settled.dead_letter is None else str(settled.dead_letter)
        return SettledJob(settled.id, settled.status, settled.run_at_ms, key)

    def model(self) -> Settled:
        """The answer as the store gave it."""
        key = None if self.dead_letter is None else DeadLetterKey.parse(self.dead_letter)
        return Settled(self.id, self.status, self.run_at_ms, key)


class SettleAnswer(Struct, frozen=True):
    """The answers to settlements, in their order."""

    results: list[SettledJob]


class TurnBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Settles deliveries, then claims jobs."""

    settlements: list[SettlementBody]
    claim: ClaimBody


class TurnAnswer(Struct, frozen=True):
    """The answers to a turn: settled, then claimed."""

    settled: list[SettledJob]
    claims: list[ClaimedJob]
    next_at_ms: int | None
    now_ms: int

    @staticmethod
    def of(turned: Turned, *, packed: bool) -> "TurnAnswer":
        """The answer of the store."""
        settled = [SettledJob.of(each) for each in turned.settled]
        claims = [ClaimedJob.of(each, turned.now_ms, packed=packed) for each in turned.claimed]
        return TurnAnswer(settled, claims, turned.next_at_ms, turned.now_ms)

    def model(self, tenant: str) -> Turned:
        """The answer of a tenant, from MessagePack."""
        settled = [each.model() for each in self.settled]
        return Turned(settled, [each.claim(tenant) for each in self.claims], self.next_at_ms, self.now_ms)
