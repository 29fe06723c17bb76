"""Enqueues jobs, and finds, cancels and removes them and waits for their results, on an event loop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from headrace.client import tracing
from headrace.client.batching import Coalescer, Sent, is_lost, send_many, unanswered_error
from headrace.client.codec import JSON, Codec
from headrace.client.handle import Handle, outcome_of, wait_for
from headrace.client.options import JobMaker, OptionFields
from headrace.model.clock import Clock, SystemClock
from headrace.model.errors import Refused
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT, Queue, random_bytes
from headrace.model.results import Cancellation, Enqueued, Found, Removed
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store

R = TypeVar("R")


class Client:
    """Sends jobs to an open store. Belongs to the store's event loop; it does not close the store.

    `tenant` and `queue` are the defaults of its jobs. Where a method takes a queue, a name means the queue
    of that name with the client's tenant and one shard; give a `Queue` for others.
    """

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = DEFAULT_TENANT,
        queue: str | Queue = DEFAULT_QUEUE,
        codec: Codec = JSON,
        clock: Clock | None = None,
        entropy: Callable[[int], bytes] = random_bytes,
    ) -> None:
        self.store = store
        self.maker = JobMaker(tenant=tenant, queue=queue, codec=codec, clock=clock or SystemClock(), entropy=entropy)
        self._coalescer = Coalescer(store.jobs)

    def job(self, kind: str, payload: object = None, **options: Unpack[OptionFields]) -> Job:
        """Make a job for `send` and `enqueue_many`, without sending it. Raises `Refused` for invalid values."""
        return self.maker.job(kind, payload, **options)

    async def enqueue(self, kind: str, payload: object = None, **options: Unpack[OptionFields]) -> Handle[Any]:
        """Send a job to the workers that handle `kind`; the options are the fields of `Options`.

        Raises `Refused` if the store does not accept it: `conflict` (its idempotency key was used for other work),
        `wrong_shards`, `full`.
        """
        return await self.send(self.maker.job(kind, payload, **options))

    @overload
    async def send(self, job: Job, *, type: type[R], codec: Codec | None = None) -> Handle[R]: ...
    @overload
    async def send(self, job: Job, *, type: Any = Any, codec: Codec | None = None) -> Handle[Any]: ...
    async def send(self, job: Job, *, type: Any = Any, codec: Codec | None = None) -> Handle[Any]:
        """Send a job built by `job`, as `enqueue` does; its result is decoded as `type`.

        Jobs sent by several tasks at the same time go to the store together.
        """
        send = self._coalescer.send
        recording = tracing.tracer()
        answer = await (send(job) if recording is None else tracing.traced_enqueue(recording, job, send))
        if not answer.ok:
            raise _refusal(job, answer)
        return Handle(self, job.queue, answer.id, answer.status, type, codec)

    async def enqueue_many(
        self,
        jobs: Iterable[Job],
        *,
        progress: Callable[[int], None] | None = None,
        type: Any = Any,
        codec: Codec | None = None,
    ) -> list[Handle[Any]]:
        """Send any number of jobs in as few calls as possible; handles in the order of the jobs, whose results are
        decoded as `type`.

        A refused job raises nothing: check `ok` and `status` of its handle. If the store cannot be reached or does not
        answer, sending stops with `OutcomeUnknown`, which has the handles `known` and the ids `unknown`, or with
        `StoreUnavailable` if nothing was changed. The rest of `jobs` was not sent. `progress` is called with the number
        of jobs answered so far. Several calls are in flight at once, so on a store of several servers or connections a
        later thousand may overtake an earlier one; jobs with the same id keep their order.
        """
        recording = tracing.tracer()
        if recording is None:
            sent, complete = await send_many(self.store.jobs, jobs, progress)
        else:
            send = partial(send_many, self.store.jobs, progress=progress)
            sent, complete = await tracing.traced_enqueue_many(recording, jobs, send)
        if complete:
            return self._handles(sent, type, codec)
        raise unanswered_error(sent, [*self._handles([each for each in sent if not is_lost(each[1])], type, codec)])

    def _handles(self, sent: Sent, kind: Any = Any, codec: Codec | None = None) -> list[Handle[Any]]:
        return [
            Handle(self, job.queue, outcome.id, outcome.status, kind, codec)
            if isinstance(outcome, Enqueued)
            else Handle(
                self, job.queue, job.id, "refused", kind, codec, outcome if isinstance(outcome, Refused) else None
            )
            for job, outcome in sent
        ]

    async def enqueue_on(self, connection: Any, jobs: Sequence[Job]) -> list[Handle[Any]]:
        """Send jobs as part of your own transaction, on your connection to the store's database.

        They are enqueued if it commits, and discarded if it rolls back. PostgreSQL only; at most 1,000 a call.
        """
        enqueue_on = getattr(self.store, "enqueue_on", None)
        if enqueue_on is None:
            raise Refused(
                "no_transactions",
                f"{type(self.store).__name__} cannot enqueue on your connection; use a store in PostgreSQL, or enqueue"
                " after your commit",
            )
        recording = tracing.tracer()
        if recording is None:
            answers: list[Enqueued] = await enqueue_on(connection, jobs)
        else:
            answers = await tracing.traced_enqueue_many(
                recording, jobs, lambda traced: enqueue_on(connection, list(traced))
            )
        return self._handles(list(zip(jobs, answers, strict=True)))

    def handle(self, queue: str | Queue, id: str, *, type: Any = Any, codec: Codec | None = None) -> Handle[Any]:
        """A handle of a job sent earlier, by this program or another; makes no call to the store."""
        return Handle(self, self.maker.queue(queue), id, type=type, codec=codec)

    async def cancel(self, queue: str | Queue, *ids: str, running: bool = False) -> list[Cancellation]:
        """End waiting jobs; with `running`, also ask active ones to stop. Answers in the order of the ids."""
        target = self.maker.queue(queue)
        return [each for part in _parts(ids) for each in await self.store.jobs.cancel(target, part, running=running)]

    async def remove(self, queue: str | Queue, *ids: str) -> list[Removed]:
        """Delete everything of these jobs: record, blocked job, finished job, dead letters. A running handler goes on
        without a lease."""
        target = self.maker.queue(queue)
        return [each for part in _parts(ids) for each in await self.store.jobs.remove(target, part)]

    async def find(self, queue: str | Queue, *ids: str) -> list[Found | None]:
        """Everything the store knows of each job; None for an unknown id."""
        target = self.maker.queue(queue)
        return [each for part in _parts(ids) for each in await self.store.reads.find(target, part)]

    async def result(
        self,
        queue: str | Queue,
        id: str,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - its TimeoutError has the state of the job
        type: Any = Any,
        codec: Codec | None = None,
        blocked_job: bool = False,
    ) -> Any:
        """Wait until the job has ended and return its result; see `Handle.result`. `blocked_job` waits for the blocked
        job of the id instead."""
        timeout_ms = None if timeout is None else duration_ms("timeout", timeout)
        found = await wait_for(self.store, self.maker.queue(queue), id, timeout_ms, blocked_job=blocked_job)
        return outcome_of(found, codec or self.maker.codec, type, blocked_job=blocked_job)


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), BATCH_MAX):
        yield ids[start : start + BATCH_MAX]


def _refusal(job: Job, answer: Enqueued) -> Refused:
    queue = f"queue {job.queue.full_name!r} of tenant {job.queue.tenant!r}"
    match answer.status:
        case "conflict":
            reason = (
                f"idempotency key {job.idempotency_key!r} of job {job.id!r} was used for other work on {queue};"
                " use another key"
            )
        case "full":
            reason = f"{queue} is full; send job {job.id!r} again later, add workers, or raise the queue's waiting_max"
        case _:
            reason = (
                f"{queue} has another number of shards than {job.queue.shards}, so job {job.id!r} cannot be added;"
                " use the number that it was created with"
            )
    return Refused(answer.status, reason)
