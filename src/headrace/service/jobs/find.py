"""Finds jobs by their ids, waits for their results, and cancels and removes them."""

from typing import Any, Literal

from msgspec import UNSET, Struct

from headrace.client.handle import wait_for
from headrace.inspect.jobs import ErrorView
from headrace.model.clock import monotonic_ms
from headrace.model.finished import DeadLetter
from headrace.model.limits import BATCH_MAX, POLL_MS_MAX, RESULT_POLL_MS_MAX
from headrace.model.results import Found, Repaired
from headrace.model.validate import check_batch, check_int, check_text
from headrace.service.jobs.settle import unknown_job
from headrace.service.operation import Call, Operation, Reply, scopes
from headrace.service.polls import first_of
from headrace.service.queue_names import path_queue
from headrace.wire.content import ByteContent, JsonContent, write_content
from headrace.wire.jobs import (
    CancelAnswer,
    CancelBody,
    EndedAnswer,
    EndedBody,
    FindBody,
    IdsBody,
    RemoveAnswer,
    RepairBody,
)
from headrace.wire.records import FoundJobs, JobAnswer


class ShowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether payloads and results are wanted."""

    content: bool = True


class ResultQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for a result."""

    wait_ms: int = 0


class ResultAnswer(Struct, frozen=True, kw_only=True):
    """The result of a job that has ended, or the error that it died of; `waiting` and `active` ones have neither."""

    id: str
    state: str
    result: JsonContent = UNSET
    result_base64: ByteContent = UNSET
    reason: str | None = None
    error: ErrorView | None = None
    why: str | None = None


async def find(call: Call) -> Reply:
    """Find jobs by id."""
    body: FindBody = call.body
    _check_ids(body.ids)
    queue = await path_queue(call, body.shards)
    found = await call.store.reads.find(queue, body.ids, ahead=body.ahead, now_ms=call.now_ms)
    return Reply(
        200,
        FoundJobs(
            [None if each is None else JobAnswer.of(each, packed=call.packed, content=body.content) for each in found]
        ),
    )


async def show(call: Call) -> Reply:
    """Show one job."""
    id = _path_id(call)
    [found] = await call.store.reads.find(await path_queue(call), [id], ahead=True, now_ms=call.now_ms)
    if found is None:
        raise unknown_job()
    return Reply(200, JobAnswer.of(found, packed=call.packed, content=call.query.content))


async def result(call: Call) -> Reply:
    """Wait for the result of a job."""
    wait_ms = call.query.wait_ms
    check_int("wait_ms", wait_ms, 0, RESULT_POLL_MS_MAX)
    queue, id = await path_queue(call), _path_id(call)
    started_ms = monotonic_ms()
    work = wait_for(call.store, queue, id, wait_ms, blocked_job=False)
    try:
        found = await first_of(work, *([] if call.gone is None else [call.gone]), call.service.shutdown.wait())
    except TimeoutError:
        found = None
    if found is None:
        [late] = await call.store.reads.find(queue, [id], now_ms=call.now_ms)
        if late is None:
            raise unknown_job()
        headers = ((b"retry-after", b"%d" % (0 if monotonic_ms() - started_ms < wait_ms else 1)),)
        return Reply(202, ResultAnswer(id=id, state=late.state, why=late.why), headers)
    return Reply(200, _result_answer(found, packed=call.packed))


def _result_answer(found: Found, *, packed: bool) -> ResultAnswer:
    newest: DeadLetter | None = max(found.dead_letters, key=lambda each: each.key.number, default=None)
    finished = found.finished_job
    if finished is None:
        assert newest is not None  # an ended job has left a finished job or a dead letter
        return ResultAnswer(id=found.id, state="dead", reason=newest.reason, error=ErrorView.of(newest.error))
    if finished.state == "cancelled":
        return ResultAnswer(id=found.id, state="cancelled")
    value, data = write_content(finished.result, packed=packed)
    return ResultAnswer(id=found.id, state="done", result=value, result_base64=data)


async def ended(call: Call) -> Reply:
    """Wait until one of some jobs may have ended."""
    body: EndedBody = call.body
    _check_ids(body.ids)
    check_int("timeout_ms", body.timeout_ms, 0, POLL_MS_MAX)
    queue = await path_queue(call, body.shards)
    ends: list[Any] = [] if call.gone is None else [call.gone]
    found = await first_of(
        call.store.signals.ended(queue, body.ids, body.timeout_ms), *ends, call.service.shutdown.wait()
    )
    return Reply(200, EndedAnswer(bool(found)))


async def cancel(call: Call) -> Reply:
    """Cancel jobs."""
    body: CancelBody = call.body
    _check_ids(body.ids)
    queue = await path_queue(call, body.shards)
    return Reply(
        200,
        CancelAnswer(list(await call.store.jobs.cancel(queue, body.ids, running=body.running, now_ms=call.now_ms))),
    )


class RunningBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether an active job is asked to stop."""

    running: bool = False


class CancelledJob(Struct, frozen=True):
    """The answer to the cancel of one job."""

    id: str
    status: Literal["cancelled", "asked", "active"]
    blocked_job: bool


async def cancel_one(call: Call) -> Reply:
    """Cancel the job in the path."""
    id, running = _path_id(call), call.body.running
    [answer] = await call.store.jobs.cancel(await path_queue(call), [id], running=running, now_ms=call.now_ms)
    if answer.status == "not_found":
        raise unknown_job()
    return Reply(200, CancelledJob(answer.id, answer.status, answer.blocked_job))


async def remove(call: Call) -> Reply:
    """Remove everything of jobs."""
    body: IdsBody = call.body
    _check_ids(body.ids)
    queue = await path_queue(call, body.shards)
    return Reply(200, RemoveAnswer(list(await call.store.jobs.remove(queue, body.ids, now_ms=call.now_ms))))


async def repair(call: Call) -> Reply:
    """Repair expired leases."""
    body: RepairBody = call.body
    check_int("limit", body.limit, 1, BATCH_MAX)
    queue = await path_queue(call, body.shards)
    return Reply(200, await call.store.jobs.repair(queue, limit=body.limit, now_ms=call.now_ms))


def _check_ids(ids: list[str]) -> None:
    check_batch("ids", len(ids), BATCH_MAX)
    for id in ids:
        check_text("id", id, 276)


def _path_id(call: Call) -> str:
    check_text("id", call.path["id"], 276)
    return call.path["id"]


_JOBS = "/queues/{queue}/jobs"
OPERATIONS = (
    Operation(
        name="find",
        method="POST",
        path=f"{_JOBS}/find",
        summary="Find up to 1,000 jobs by their ids.",
        scopes=scopes("enqueue", "read"),
        handler=find,
        body=FindBody,
        answers={200: FoundJobs},
        problems=("batch_too_large",),
    ),
    Operation(
        name="show",
        method="GET",
        path=f"{_JOBS}/{{id}}",
        summary="Show a job with everything that is known of it.",
        scopes=scopes("enqueue", "read"),
        handler=show,
        query=ShowQuery,
        answers={200: JobAnswer},
        problems=("unknown_job",),
    ),
    Operation(
        name="result",
        method="GET",
        path=f"{_JOBS}/{{id}}/result",
        summary="Wait for the result of a job; 202 while it has not ended.",
        scopes=scopes("enqueue", "read"),
        handler=result,
        query=ResultQuery,
        answers={200: ResultAnswer, 202: ResultAnswer},
        problems=("unknown_job", "nothing_kept", "too_many_polls"),
        is_poll=True,
    ),
    Operation(
        name="ended",
        method="POST",
        path=f"{_JOBS}/ended",
        summary="Wait until one of some jobs may have ended.",
        scopes=scopes("enqueue", "read"),
        handler=ended,
        body=EndedBody,
        answers={200: EndedAnswer},
        problems=("too_many_polls",),
        is_poll=True,
    ),
    Operation(
        name="cancel",
        method="POST",
        path=f"{_JOBS}/cancel",
        summary="Cancel up to 1,000 jobs.",
        scopes=scopes("enqueue", "admin"),
        handler=cancel,
        body=CancelBody,
        answers={200: CancelAnswer},
        problems=("batch_too_large",),
        rate="write",
    ),
    Operation(
        name="cancel_one",
        method="POST",
        path=f"{_JOBS}/{{id}}/cancel",
        summary="Cancel a job.",
        scopes=scopes("enqueue", "admin"),
        handler=cancel_one,
        body=RunningBody,
        answers={200: CancelledJob},
        problems=("unknown_job",),
        is_body_optional=True,
        rate="write",
    ),
    Operation(
        name="remove",
        method="POST",
        path=f"{_JOBS}/remove",
        summary="Remove everything of up to 1,000 jobs.",
        scopes=scopes("admin"),
        handler=remove,
        body=IdsBody,
        answers={200: RemoveAnswer},
        problems=("batch_too_large",),
        rate="write",
    ),
    Operation(
        name="repair",
        method="POST",
        path="/queues/{queue}/repair",
        summary="Return the jobs of expired leases, and drop what is past its retention.",
        scopes=scopes("claim", "admin"),
        handler=repair,
        body=RepairBody,
        answers={200: Repaired},
        is_body_optional=True,
        rate="write",
    ),
)
