"""Answers that show jobs: records, finished jobs and dead letters, with their payloads and results."""

from typing import Literal

from msgspec import UNSET, Struct

from headrace.model.decision import Reason
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import Record, State
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.results import Found, Page
from headrace.wire.content import ByteContent, ErrorBody, JsonContent, read_content, write_content


class RecordAnswer(Struct, frozen=True, kw_only=True):
    """The record of a job; `payload` is left out where content was not asked for."""

    id: str
    kind: str
    run_at_ms: int
    enqueued_at_ms: int
    payload_bytes: int
    payload: JsonContent = UNSET
    payload_base64: ByteContent = UNSET
    policy: Policy = NO_POLICY
    tag: str | None = None
    headers: dict[str, str] = {}
    attempts: int = 0
    stalls: int = 0
    error: ErrorBody | None = None
    failed_at_ms: int | None = None
    order_key: int | None = None

    @staticmethod
    def of(record: Record, *, packed: bool, content: bool = True) -> "RecordAnswer":
        """A record with or without its payload."""
        payload, payload_base64 = write_content(record.payload, packed=packed) if content else (UNSET, UNSET)
        return RecordAnswer(
            id=record.id,
            kind=record.kind,
            run_at_ms=record.run_at_ms,
            enqueued_at_ms=record.enqueued_at_ms,
            payload_bytes=len(record.payload),
            payload=payload,
            payload_base64=payload_base64,
            policy=record.policy,
            tag=record.tag,
            headers=record.headers,
            attempts=record.attempts,
            stalls=record.stalls,
            error=error_body(record.error),
            failed_at_ms=record.failed_at_ms,
            order_key=record.order_key,
        )

    def record(self) -> Record:
        """The record, from MessagePack."""
        return Record(
            id=self.id,
            kind=self.kind,
            payload=read_content("payload", self.payload, self.payload_base64, packed=True) or b"",
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


class FinishedAnswer(Struct, frozen=True, kw_only=True):
    """A finished job with its result."""

    id: str
    state: Literal["done", "cancelled"]
    kind: str
    tag: str | None
    enqueued_at_ms: int
    ended_at_ms: int
    until_ms: int
    pinned: bool
    attempts: int
    stalls: int
    result: JsonContent = UNSET
    result_base64: ByteContent = UNSET

    @staticmethod
    def of(finished: FinishedJob, *, packed: bool, content: bool = True) -> "FinishedAnswer":
        """A finished job with or without its result."""
        result, result_base64 = write_content(finished.result, packed=packed) if content else (UNSET, UNSET)
        return FinishedAnswer(
            id=finished.id,
            state=finished.state,
            kind=finished.kind,
            tag=finished.tag,
            enqueued_at_ms=finished.enqueued_at_ms,
            ended_at_ms=finished.ended_at_ms,
            until_ms=finished.until_ms,
            pinned=finished.pinned,
            attempts=finished.attempts,
            stalls=finished.stalls,
            result=result,
            result_base64=result_base64,
        )

    def finished_job(self) -> FinishedJob:
        """The finished job, from MessagePack."""
        return FinishedJob(
            self.id,
            self.state,
            self.kind,
            self.tag,
            self.enqueued_at_ms,
            self.ended_at_ms,
            self.until_ms,
            self.pinned,
            self.attempts,
            self.stalls,
            read_content("result", self.result, self.result_base64, packed=True),
        )


class DeadLetterAnswer(Struct, frozen=True, kw_only=True):
    """A dead letter: its key, the record of its job, and the cause."""

    key: str
    record: RecordAnswer
    reason: Reason
    error: ErrorBody
    died_at_ms: int
    until_ms: int

    @staticmethod
    def of(dead_letter: DeadLetter, *, packed: bool, content: bool = True) -> "DeadLetterAnswer":
        """A dead letter with or without the payload of its job."""
        return DeadLetterAnswer(
            key=str(dead_letter.key),
            record=RecordAnswer.of(dead_letter.record, packed=packed, content=content),
            reason=dead_letter.reason,
            error=ErrorBody.of(dead_letter.error),
            died_at_ms=dead_letter.died_at_ms,
            until_ms=dead_letter.until_ms,
        )

    def dead_letter(self) -> DeadLetter:
        """The dead letter, from MessagePack."""
        key = DeadLetterKey.parse(self.key) or DeadLetterKey(0, 0)
        error = self.error.job_error()
        return DeadLetter(key, self.record.record(), self.reason, error, self.died_at_ms, self.until_ms)


class DeadLetterRows(Struct, frozen=True):
    """A page of dead letters."""

    rows: list[DeadLetterAnswer]
    cursor: str | None

    def page(self) -> Page[DeadLetter]:
        """The page, from MessagePack."""
        return Page([each.dead_letter() for each in self.rows], self.cursor)


class JobAnswer(Struct, frozen=True, kw_only=True):
    """Everything known of one id. A reader gets no token: it may not settle."""

    id: str
    state: State
    record: RecordAnswer | None = None
    blocked_job: RecordAnswer | None = None
    worker: str | None = None
    fence: int | None = None
    lease_expires_at_ms: int | None = None
    cancel_asked: bool = False
    finished_job: FinishedAnswer | None = None
    dead_letters: list[DeadLetterAnswer] = []
    why: str | None = None
    ahead: int | None = None
    """How many ready jobs will be handed out before this one, where it was asked for."""

    @staticmethod
    def of(found: Found, *, packed: bool, content: bool = True) -> "JobAnswer":
        """A job with or without payloads and results."""
        record, blocked, finished = found.record, found.blocked_job, found.finished_job
        return JobAnswer(
            id=found.id,
            state=found.state,
            record=None if record is None else RecordAnswer.of(record, packed=packed, content=content),
            blocked_job=None if blocked is None else RecordAnswer.of(blocked, packed=packed, content=content),
            worker=found.worker,
            fence=found.fence,
            lease_expires_at_ms=found.lease_expires_at_ms,
            cancel_asked=found.cancel_asked,
            finished_job=None if finished is None else FinishedAnswer.of(finished, packed=packed, content=content),
            dead_letters=[DeadLetterAnswer.of(each, packed=packed, content=content) for each in found.dead_letters],
            why=found.why,
            ahead=found.ahead,
        )

    def found(self) -> Found:
        """The job, from MessagePack."""
        return Found(
            self.id,
            self.state,
            None if self.record is None else self.record.record(),
            None if self.blocked_job is None else self.blocked_job.record(),
            self.worker,
            self.fence,
            self.lease_expires_at_ms,
            self.cancel_asked,
            None if self.finished_job is None else self.finished_job.finished_job(),
            tuple(each.dead_letter() for each in self.dead_letters),
            self.why,
            self.ahead,
        )


class FoundJobs(Struct, frozen=True):
    """Jobs in the order of the ids asked for, null for an unknown one."""

    rows: list[JobAnswer | None]


class JobRows(Struct, frozen=True):
    """A page of jobs."""

    rows: list[JobAnswer]
    cursor: str | None

    def page(self) -> Page[Found]:
        """The page, from MessagePack."""
        return Page([each.found() for each in self.rows], self.cursor)


class ScanAnswer(Struct, frozen=True):
    """A part of a scan, as of an event of the shard's journal."""

    rows: list[JobAnswer]
    cursor: str | None
    epoch: int
    as_of_seq: int


def error_body(error: JobError | None) -> ErrorBody | None:
    """The body of an error, if there is one."""
    return None if error is None else ErrorBody.of(error)
