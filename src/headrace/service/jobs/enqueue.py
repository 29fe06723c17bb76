"""Enqueues jobs: one with an idempotency key in its header, or a batch whose items are answered one by one."""

import re
from urllib.parse import quote

from msgspec.structs import replace

from headrace.client.batching import enqueue_batch
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, KEY_CHARS_MAX
from headrace.model.names import RANDOM_BYTES, random_bytes, uuid7
from headrace.model.results import Enqueued
from headrace.model.validate import check_batch
from headrace.service.body import decode
from headrace.service.operation import Call, Header, Operation, Reply, scopes
from headrace.service.problems import RequestProblem, problem_of, problem_of_refusal
from headrace.service.queue_names import queue_of_field
from headrace.wire.jobs import EnqueueAnswer, EnqueueAnswers, ItemProblem, NewJob, NewJobs, new_job_decoder

_KEY = re.compile(r'"((?:[^"\\]|\\["\\])*)"|([^"]*)')
_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_REFUSALS = {
    "conflict": ("idempotency_conflict", "the idempotency key was used for other work; use another key"),
    "full": ("full", "the queue is full; send the job again later, add workers, or raise its waiting_max"),
    "wrong_shards": ("wrong_shards", "the queue has another number of shards; leave 'shards' out, or use that number"),
}


async def enqueue(call: Call) -> Reply:
    """Enqueue one job."""
    body = _with_key(call, call.body)
    job = await _job(call, body)
    answer = await _send(call, job)
    if answer.status == "wrong_shards" and isinstance(body.queue, str):
        call.service.queues.forget(job.queue)
        job = await _job(call, body)
        answer = await _send(call, job)
    if answer.status in _REFUSALS:
        name, detail = _REFUSALS[answer.status]
        raise RequestProblem(name, detail, id=answer.id)
    id = answer.id if _PLAIN.fullmatch(answer.id) else quote(answer.id, safe="")
    location = f"/v1/queues/{job.queue.full_name}/jobs/{id}".encode()  # names of queues need no quoting
    headers: tuple[Header, ...] = ((b"location", location),)
    if answer.status == "duplicate":
        headers += ((b"idempotency-replayed", b"true"),)
    body_answer = EnqueueAnswer.of(answer, job.queue.full_name)
    return Reply(200 if answer.status == "duplicate" else 202, body_answer, headers)


async def _send(call: Call, job: Job) -> Enqueued:
    if (now_ms := call.now_ms) is not None:
        [answer] = await call.store.jobs.enqueue([job], now_ms=now_ms)
        return answer
    return await call.service.coalescer.send(job)


async def enqueue_many(call: Call) -> Reply:
    """Enqueue a batch; an invalid item spoils no other."""
    body: NewJobs = call.body
    if b"idempotency-key" in call.headers:
        raise RequestProblem(
            "key_on_batch", "a batch takes no Idempotency-Key header; give each job its idempotency_key"
        )
    check_batch("jobs", len(body.jobs), BATCH_MAX)
    answers: list[EnqueueAnswer | None] = [None] * len(body.jobs)
    jobs: list[Job] = []
    places: list[int] = []
    decoder = new_job_decoder(packed=call.read_format.is_packed)
    for place, raw in enumerate(body.jobs):
        try:
            jobs.append(await _job(call, decode(decoder, raw, NewJob)))
            places.append(place)
        except (Refused, RequestProblem) as error:
            answers[place] = _invalid(problem_of(error))
    for place, job, outcome in zip(places, jobs, await _enqueue_all(call, jobs), strict=True):
        answers[place] = _answer(call, job, outcome)
    return Reply(200, EnqueueAnswers([each for each in answers if each is not None]))


async def _enqueue_all(call: Call, jobs: list[Job]) -> list[Enqueued | HeadraceError]:
    if not jobs:
        return []
    if (now_ms := call.now_ms) is not None:
        return list(await call.store.jobs.enqueue(jobs, now_ms=now_ms))
    outcomes = await enqueue_batch(call.store.jobs, jobs)
    for outcome in outcomes:
        if isinstance(outcome, StoreUnavailable):
            raise outcome
    unknown = [job.id for job, outcome in zip(jobs, outcomes, strict=True) if isinstance(outcome, OutcomeUnknown)]
    if unknown:
        raise OutcomeUnknown(
            "the store was asked and did not answer",
            known=[each for each in outcomes if isinstance(each, Enqueued)],
            unknown=unknown,
        )
    return outcomes


def _answer(call: Call, job: Job, outcome: Enqueued | HeadraceError) -> EnqueueAnswer:
    if isinstance(outcome, Enqueued):
        if outcome.status == "wrong_shards":
            call.service.queues.forget(job.queue)
        return EnqueueAnswer.of(outcome, job.queue.full_name)
    problem = problem_of(outcome)
    return EnqueueAnswer(job.id, job.queue.full_name, "invalid", None, ItemProblem(problem.name, str(problem)))


def _invalid(problem: RequestProblem) -> EnqueueAnswer:
    return EnqueueAnswer(
        None, "", "invalid", None, ItemProblem(problem.members.get("reason") or problem.name, str(problem))
    )


async def _job(call: Call, body: NewJob) -> Job:
    queue = await queue_of_field(call, body.queue)
    fresh_id = uuid7(call.service.clock.now_ms(), random_bytes(RANDOM_BYTES))
    trace = call.headers.get(b"traceparent", b"")
    traceparent = trace.decode() if _TRACE.fullmatch(trace) else None
    return body.job(queue, fresh_id, packed=call.read_format.is_packed, traceparent=traceparent)


def _with_key(call: Call, body: NewJob) -> NewJob:
    """The job with the key of the header, which must not differ from its own."""
    given = call.headers.get(b"idempotency-key")
    if given is None:
        return body
    try:
        form = _KEY.fullmatch(given.decode())
    except UnicodeDecodeError:
        form = None
    if form is None:
        raise problem_of_refusal("bad_header", "the Idempotency-Key is not a text; quote it, or write it bare")
    key = form[2] if form[1] is None else re.sub(r"\\(.)", r"\1", form[1])
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise problem_of_refusal(
            "bad_idempotency_key", f"the Idempotency-Key must have 1 to {KEY_CHARS_MAX} characters; found {len(key)}"
        )
    if body.idempotency_key not in (None, key):
        raise problem_of_refusal(
            "bad_idempotency_key", "the Idempotency-Key differs from the member idempotency_key; give one of them"
        )
    return replace(body, idempotency_key=key)


OPERATIONS = (
    Operation(
        name="enqueue",
        method="POST",
        path="/jobs",
        summary="Enqueue a job.",
        scopes=scopes("enqueue"),
        handler=enqueue,
        body=NewJob,
        answers={202: EnqueueAnswer, 200: EnqueueAnswer},
        problems=("idempotency_conflict", "full", "wrong_shards"),
        rate="write",
    ),
    Operation(
        name="enqueue_many",
        method="POST",
        path="/jobs/batch",
        summary="Enqueue up to 1,000 jobs, each answered by itself.",
        scopes=scopes("enqueue"),
        handler=enqueue_many,
        body=NewJobs,
        answers={200: EnqueueAnswers},
        problems=("key_on_batch", "batch_too_large"),
        is_batch=True,
        rate="write",
    ),
)
