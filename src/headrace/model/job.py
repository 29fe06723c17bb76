"""A job as sent by a caller, its record in the store, and the blocked job behind an active one."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.limits import (
    DURATION_MS_MAX,
    FAIL_QUEUE_ID_CHARS_MAX,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    ID_CHARS_MAX,
    KEY_CHARS_MAX,
    KIND_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    TAG_CHARS_MAX,
    TIME_MS_MAX,
)
from headrace.model.names import Queue, derived_id, fingerprint
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.validate import bounded_repr, check_bytes, check_int, check_storable, check_text, check_time

NO_HEADERS: dict[str, str] = {}


class State(StrEnum):
    """The state of a job. `waiting` covers ready and later: that is a time, not a state."""

    WAITING = "waiting"
    BLOCKED = "blocked"
    ACTIVE = "active"
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"


class UpdateRunAt(StrEnum):
    """How an enqueue of a known id changes the job's time."""

    ALWAYS = "always"
    NEVER = "never"
    IF_LATER = "if_later"
    IF_EARLIER = "if_earlier"

    def merge(self, old_ms: int, new_ms: int) -> int:
        """The time after an enqueue with this flag."""
        match self:
            case UpdateRunAt.ALWAYS:
                return new_ms
            case UpdateRunAt.IF_LATER:
                return max(old_ms, new_ms)
            case UpdateRunAt.IF_EARLIER:
                return min(old_ms, new_ms)
            case UpdateRunAt.NEVER:
                return old_ms


class Job(Struct, frozen=True, gc=False, kw_only=True):
    """A job as sent by a caller. The payload is encoded; JSON by default.

    Build one with `new_job`, which chooses the id. `run_at_ms` is an instant, `delay_ms` is added to the store's own
    clock; give one of them or neither, which means now. The four update fields apply if the id is known: see `enqueue`
    of the contract.
    """

    queue: Queue
    id: str
    kind: str
    payload: bytes = b"null"
    run_at_ms: int | None = None
    delay_ms: int | None = None
    policy: Policy = NO_POLICY
    tag: str | None = None
    headers: dict[str, str] = NO_HEADERS
    idempotency_key: str | None = None
    idempotency_ttl_ms: int | None = None
    id_given: bool = True
    update_payload: bool = True
    update_run_at: UpdateRunAt | None = None
    update_policy: bool = True
    reset_counts: bool = False

    def __post_init__(self) -> None:
        _check_values(self.queue, self.policy)
        check_id(self.id, self.queue)
        check_text("kind", self.kind, KIND_CHARS_MAX)
        check_bytes("payload", self.payload, PAYLOAD_BYTES_MAX, "send")
        if self.run_at_ms is not None:
            check_time("run_at_ms", self.run_at_ms)
            if self.delay_ms is not None:
                raise Refused(
                    "bad_time", f"job {bounded_repr(self.id)} has both run_at_ms and delay_ms; give one of them"
                )
        if self.delay_ms is not None:
            check_int("delay_ms", self.delay_ms, 0, DURATION_MS_MAX)
        if self.tag is not None:
            check_text("tag", self.tag, TAG_CHARS_MAX)
        if self.headers or type(self.headers) is not dict:
            _check_headers(self.headers)
        _check_update(self.update_run_at, self.update_payload, self.update_policy, self.reset_counts)
        if self.idempotency_key is not None:
            check_text("idempotency_key", self.idempotency_key, KEY_CHARS_MAX)
        if self.idempotency_ttl_ms is not None:
            check_int("idempotency_ttl_ms", self.idempotency_ttl_ms, 1, DURATION_MS_MAX)

    def due_ms(self, now_ms: int) -> int:
        """When the job is due: its `run_at_ms` (also when past), else `now_ms` plus its delay."""
        if self.run_at_ms is not None:
            return self.run_at_ms
        return now_ms + (self.delay_ms or 0)

    @property
    def run_at_flag(self) -> UpdateRunAt:
        """The effective flag: the caller's choice, else `always` for a job with a time and `never` for one without."""
        if self.update_run_at is not None:
            return self.update_run_at
        timed = self.run_at_ms is not None or self.delay_ms is not None
        return UpdateRunAt.ALWAYS if timed else UpdateRunAt.NEVER

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the work behind the idempotency key."""
        return fingerprint(self.kind, self.payload, self.id if self.id_given else "")


def new_job(
    queue: Queue, kind: str, payload: bytes = b"null", *, fresh_id: str, id: str | None = None, **options: object
) -> Job:
    """A job with the id `id`, else one derived from its idempotency key, else `fresh_id`.

    `options` are the other fields of `Job`. `fresh_id` is an argument because the model draws no random numbers; use
    `uuid7(now_ms, os.urandom(10))`.
    """
    key = options.get("idempotency_key")
    if id is not None:
        return Job(queue=queue, id=id, kind=kind, payload=payload, **options)  # type: ignore[arg-type]
    id = derived_id(queue, key) if isinstance(key, str) else fresh_id
    return Job(queue=queue, id=id, kind=kind, payload=payload, id_given=False, **options)  # type: ignore[arg-type]


def check_id(id: object, queue: Queue) -> None:
    """Refuse a value that is not a job's id."""
    check_text("id", id, FAIL_QUEUE_ID_CHARS_MAX if queue.is_fail_queue else ID_CHARS_MAX)


def _check_values(queue: object, policy: object) -> None:
    if type(queue) is not Queue:
        raise Refused("bad_queue", f"queue must be a Queue; found {type(queue).__name__} {bounded_repr(queue)}")
    if type(policy) is not Policy:
        raise Refused("bad_policy", f"policy must be a Policy; found {type(policy).__name__} {bounded_repr(policy)}")


def _check_headers(headers: object) -> None:
    if not isinstance(headers, dict):
        raise Refused("bad_headers", f"headers must map text to text; found {type(headers).__name__}")
    size = 0
    for part in (part for pair in headers.items() for part in pair):
        if not isinstance(part, str):
            raise Refused(
                "bad_headers", f"headers must map text to text; found {type(part).__name__} {bounded_repr(part)}"
            )
        check_storable("headers", part)
        size += len(part.encode())
    if len(headers) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
        raise Refused(
            "headers_too_large",
            f"headers have {len(headers)} entries and {size:,} bytes; at most {HEADERS_MAX} and"
            f" {HEADERS_BYTES_MAX:,}; put the rest into the payload",
        )


def _check_update(update_run_at: object, *flags: object) -> None:
    if update_run_at is not None and type(update_run_at) is not UpdateRunAt:
        raise Refused(
            "bad_flag",
            f"update_run_at must be an UpdateRunAt ({', '.join(UpdateRunAt)}); found {bounded_repr(update_run_at)}",
        )
    for flag in flags:
        if type(flag) is not bool:
            raise Refused(
                "bad_flag",
                f"update_payload, update_policy and reset_counts are true or false; found {bounded_repr(flag)}",
            )


class Record(Struct, frozen=True, gc=False, kw_only=True):
    """The record of a waiting or active job."""

    id: str
    kind: str
    payload: bytes
    run_at_ms: int
    enqueued_at_ms: int
    policy: Policy = NO_POLICY
    tag: str | None = None
    headers: dict[str, str] = NO_HEADERS
    attempts: int = 0
    stalls: int = 0
    error: JobError | None = None
    failed_at_ms: int | None = None
    order_key: int | None = None
    """Its position among the ready jobs; None while it is later or active."""

    @property
    def due_since_ms(self) -> int:
        """The first instant at which it could be claimed."""
        return max(self.run_at_ms, self.enqueued_at_ms)


def record_of(job: Job, now_ms: int) -> Record:
    """The record of a job that is new at `now_ms`."""
    return Record(
        id=job.id,
        kind=job.kind,
        payload=job.payload,
        run_at_ms=job.due_ms(now_ms),
        enqueued_at_ms=now_ms,
        policy=job.policy,
        tag=job.tag,
        headers=job.headers,
    )


def upsert(old: Record, job: Job, now_ms: int) -> Record:
    """A waiting record after its id was enqueued again; its order key is the caller's to decide."""
    changes: dict[str, object] = {"run_at_ms": job.run_at_flag.merge(old.run_at_ms, job.due_ms(now_ms))}
    if job.update_payload:
        changes |= {"kind": job.kind, "payload": job.payload, "headers": job.headers, "tag": job.tag}
    if job.update_policy:
        changes["policy"] = job.policy.over(old.policy)
    if job.reset_counts:
        changes |= ZERO_COUNTS
    return replace(old, **changes)


ZERO_COUNTS: dict[str, object] = {"attempts": 0, "stalls": 0, "error": None, "failed_at_ms": None}
"""The changes that reset the counters of a record."""


UNBOUNDED_LO_MS = -1
UNBOUNDED_HI_MS = TIME_MS_MAX + 1


class BlockedJob(Struct, frozen=True, gc=False, kw_only=True):
    """A job enqueued behind the active job of its id. If the active job ends, it becomes a waiting job; if the active
    job is retried, released or stalled, it updates that job."""

    record: Record
    update_payload: bool
    update_policy: bool
    reset_counts: bool
    lo_ms: int = UNBOUNDED_LO_MS
    hi_ms: int = UNBOUNDED_HI_MS

    def freed(self) -> Record:
        """The waiting record when the active job is done, dead or cancelled."""
        return self.record

    def applied(self, active: Record) -> Record:
        """The waiting record when the active job is retried, released or stalled."""
        changes: dict[str, object] = {"run_at_ms": min(max(active.run_at_ms, self.lo_ms), self.hi_ms)}
        if self.update_payload:
            changes |= {
                "kind": self.record.kind,
                "payload": self.record.payload,
                "headers": self.record.headers,
                "tag": self.record.tag,
            }
        if self.update_policy:
            changes["policy"] = self.record.policy.over(active.policy)
        if self.reset_counts:
            changes |= ZERO_COUNTS
        return replace(active, **changes)


def block(old: BlockedJob | None, job: Job, now_ms: int) -> BlockedJob:
    """The blocked job after `job` was enqueued behind an active record of its id.

    The first blocked job keeps the whole job and a clamp on the time; later ones merge into it: flags are combined with
    OR, so no caller undoes another's request, and the clamp follows `update_run_at`.
    """
    if old is None:
        old = BlockedJob(record=record_of(job, now_ms), update_payload=False, update_policy=False, reset_counts=False)
        record = old.record
    else:
        record = upsert(old.record, job, now_ms)
    due_ms, flag = job.due_ms(now_ms), job.run_at_flag
    return BlockedJob(
        record=record,
        update_payload=old.update_payload or job.update_payload,
        update_policy=old.update_policy or job.update_policy,
        reset_counts=old.reset_counts or job.reset_counts,
        lo_ms=flag.merge(old.lo_ms, due_ms),
        hi_ms=flag.merge(old.hi_ms, due_ms),
    )
