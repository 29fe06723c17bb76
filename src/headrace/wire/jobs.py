"""Requests that enqueue, find, cancel and remove jobs, and their answers."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import asdict

from headrace.model.errors import Refused
from headrace.model.job import NO_HEADERS, Job, UpdateRunAt, new_job
from headrace.model.names import DEFAULT_QUEUE, Queue
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.results import Cancellation, Enqueued, Removed
from headrace.wire.content import ByteContent, JsonContent, read_content
from headrace.wire.queues import QueueField, queue_body

_POLICY_FIELDS = Policy.__struct_fields__


class NewJob(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A job to enqueue. Settings left out follow the queue's configuration; instants are milliseconds since 1970."""

    kind: str
    queue: QueueField = DEFAULT_QUEUE
    payload: JsonContent = UNSET
    payload_base64: ByteContent = UNSET
    id: str | None = None
    id_given: bool = True
    """False for an id that the sender drew at random: then it is not part of the work behind an idempotency key."""
    run_at_ms: int | None = None
    delay_ms: int | None = None
    priority: int | None = None
    timeout_ms: int | None = None
    max_attempts: int | None = None
    max_stalls: int | None = None
    backoff_ms: int | None = None
    backoff_ms_max: int | None = None
    result_ttl_ms: int | None = None
    expires_at_ms: int | None = None
    tag: str | None = None
    headers: dict[str, str] = {}
    idempotency_key: str | None = None
    idempotency_ttl_ms: int | None = None
    update_payload: bool = True
    update_run_at: UpdateRunAt | None = None
    update_policy: bool = True
    reset_counts: bool = False

    def job(self, queue: Queue, fresh_id: str, *, packed: bool, traceparent: str | None = None) -> Job:
        """The job on its queue; raises `Refused` for invalid values."""
        payload = read_content("payload", self.payload, self.payload_base64, packed=packed)
        headers = self.headers
        if traceparent is not None and "traceparent" not in headers:
            headers = headers | {"traceparent": traceparent}
        settings = {name: value for name in _POLICY_FIELDS if (value := getattr(self, name)) is not None}
        fields: dict[str, Any] = {
            "run_at_ms": self.run_at_ms,
            "delay_ms": self.delay_ms,
            "policy": Policy(**settings) if settings else NO_POLICY,
            "tag": self.tag,
            "headers": headers or NO_HEADERS,
            "idempotency_key": self.idempotency_key,
            "idempotency_ttl_ms": self.idempotency_ttl_ms,
            "update_payload": self.update_payload,
            "update_run_at": self.update_run_at,
            "update_policy": self.update_policy,
            "reset_counts": self.reset_counts,
        }
        data = b"null" if payload is None else payload
        if self.id is not None and not self.id_given:
            return Job(queue=queue, id=self.id, kind=self.kind, payload=data, id_given=False, **fields)
        return new_job(queue, self.kind, data, fresh_id=fresh_id, id=self.id, **fields)

    @staticmethod
    def of(job: Job) -> "NewJob":
        """The request that enqueues a job, for MessagePack."""
        return NewJob(
            kind=job.kind,
            queue=queue_body(job.queue),
            payload_base64=job.payload,
            id=job.id,
            id_given=job.id_given,
            run_at_ms=job.run_at_ms,
            delay_ms=job.delay_ms,
            tag=job.tag,
            headers=job.headers,
            idempotency_key=job.idempotency_key,
            idempotency_ttl_ms=job.idempotency_ttl_ms,
            update_payload=job.update_payload,
            update_run_at=job.update_run_at,
            update_policy=job.update_policy,
            reset_counts=job.reset_counts,
            **asdict(job.policy),
        )


class NewJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to enqueue, each decoded by itself: an invalid one does not spoil the others."""

    jobs: list[Raw]


class PackedJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """The same, as `stores/http` sends it."""

    jobs: list[NewJob]


class ItemProblem(Struct, frozen=True):
    """Why one item of a batch is invalid."""

    type: str
    detail: str


class EnqueueAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer to one job: `status` as in the store, or `invalid` with the problem."""

    id: str | None
    queue: str
    status: Literal[
        "created", "updated", "blocked", "duplicate", "conflict", "wrong_shards", "full", "invalid", "unknown"
    ]
    until_ms: int | None = None
    problem: ItemProblem | None = None

    @staticmethod
    def of(answer: Enqueued, queue: str) -> "EnqueueAnswer":
        """The answer of the store."""
        return EnqueueAnswer(answer.id, queue, answer.status, answer.until_ms)

    def enqueued(self) -> Enqueued:
        """The answer as the store gave it; raises `Refused` for an invalid job."""
        if self.id is None or self.status in ("invalid", "unknown"):
            problem = self.problem or ItemProblem("invalid", "the job is invalid")
            raise Refused(problem.type, problem.detail)
        return Enqueued(self.id, self.status, self.until_ms)  # type: ignore[arg-type]  # checked above


class EnqueueAnswers(Struct, frozen=True):
    """The answers to a batch, in its order."""

    results: list[EnqueueAnswer]


class IdsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs by their ids."""

    ids: list[str]
    shards: int | None = None


class FindBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs by their ids, with or without payloads and results; with `ahead`, 20 at most and their turns."""

    ids: list[str]
    content: bool = True
    shards: int | None = None
    ahead: bool = False


class CancelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs to cancel; with `running`, active ones are asked to stop."""

    ids: list[str]
    running: bool = False
    shards: int | None = None


class CancelAnswer(Struct, frozen=True):
    """The answers to a cancel, in the order of the ids."""

    results: list[Cancellation]


class RemoveAnswer(Struct, frozen=True):
    """The answers to a removal, in the order of the ids."""

    results: list[Removed]


class EndedBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Waits until one of the jobs may have ended."""

    ids: list[str]
    timeout_ms: int
    shards: int | None = None


class EndedAnswer(Struct, frozen=True):
    """Whether one of the jobs may have ended."""

    ended: bool


class RepairBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Repairs expired leases and drops what is past its retention."""

    limit: int = 100
    shards: int | None = None


def new_job_decoder(*, packed: bool) -> "msgspec.json.Decoder[NewJob] | msgspec.msgpack.Decoder[NewJob]":
    """Decodes one job of a batch."""
    return _PACKED_JOB if packed else _JSON_JOB


_JSON_JOB, _PACKED_JOB = msgspec.json.Decoder(NewJob), msgspec.msgpack.Decoder(NewJob)
