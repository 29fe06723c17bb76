"""Reads the result of a job, at once or as soon as the job has ended."""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from headrace.client.codec import RAW
from headrace.client.handle import outcome_of, wait_for
from headrace.inspect.details import UnknownJob
from headrace.inspect.job_ids import find_job, whole_id
from headrace.inspect.jobs import ErrorView
from headrace.inspect.lookup import queues_of
from headrace.inspect.views import encoded_view
from headrace.model.errors import JobCancelled, JobFailed, Refused
from headrace.model.outcome import JobError
from headrace.model.redact import redact
from headrace.stores.contract.store import Store


class ResultView(Struct, frozen=True, kw_only=True):
    """The result of a job, or why there is none."""

    id: str
    queue: str | None
    status: str
    result: Raw | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    error: ErrorView | UnsetType | None = UNSET
    message: str | UnsetType = UNSET


class JobResult(Struct, frozen=True, kw_only=True):
    """The result of a job, or why there is none."""

    status: Literal["done", "dead", "cancelled", "not_ended", "not_found", "nothing_kept"]
    id: str
    queue: str | None = None
    result: bytes | None = None
    reason: str | None = None
    error: JobError | None = None
    message: str = ""

    def view(self) -> ResultView:
        """The JSON of the result."""
        if self.status == "done":
            return ResultView(id=self.id, queue=self.queue, status=self.status, result=encoded_view(self.result))
        return ResultView(
            id=self.id,
            queue=self.queue,
            status=self.status,
            reason=self.reason,
            error=ErrorView.of(self.error),
            message=redact(self.message),
        )


async def read_result(store: Store, tenant: str, queue: str | None, id: str, *, wait_ms: int) -> JobResult:
    """The result of a job that ends within `wait_ms`."""
    queues = await queues_of(store, tenant, queue)
    id = await whole_id(store, queues, id)
    located = await find_job(store, queues, id)
    if located is None:
        unknown = UnknownJob(id=id, queues=[each.full_name for each in queues])
        return JobResult(status="not_found", id=id, message=unknown.text(tenant))
    owner, name = located[0], located[0].full_name
    try:
        found = await wait_for(store, owner, id, wait_ms, blocked_job=False)
        result = outcome_of(found, RAW, bytes, blocked_job=False)
        return JobResult(status="done", id=id, queue=name, result=result)
    except JobFailed as failed:
        message = str(failed)
        return JobResult(status="dead", id=id, queue=name, reason=failed.reason, error=failed.error, message=message)
    except JobCancelled as cancelled:
        return JobResult(status="cancelled", id=id, queue=name, message=str(cancelled))
    except TimeoutError as late:
        return JobResult(status="not_ended", id=id, queue=name, message=str(late))
    except Refused as refused:
        match refused.reason:
            case "not_found" | "nothing_kept" as status:
                return JobResult(status=status, id=id, queue=name, message=str(refused))
        raise
