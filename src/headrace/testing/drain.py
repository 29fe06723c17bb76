"""Drains the store of a kit with workers of its app, and reports every delivery with its outcome."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from headrace.app.app import App
from headrace.app.decorators import in_worker_process
from headrace.client.codec import RAW
from headrace.model import outcome as model
from headrace.model.claim import Claim
from headrace.model.errors import JobFailed, Refused
from headrace.model.names import Queue
from headrace.testing.store import KitStore
from headrace.worker.context import Context
from headrace.worker.events import JobsClaimed, WorkerEvent
from headrace.worker.exceptions import HandlerEnd
from headrace.worker.handlers import Handlers, Next

if TYPE_CHECKING:
    from headrace.worker.worker import Worker


Outcome = Literal["done", "retried", "released", "dead", "cancelled", "lost"]
FAILED = ("retried", "dead")


class DrainedJob(Struct, frozen=True):
    """One delivery; a job with two attempts has two."""

    id: str
    kind: str
    queue: Queue
    attempt: int
    """The number of the attempt, from 1."""
    outcome: Outcome
    """`done`, `retried`, `released`, `dead`, `cancelled`; `lost` if the store refused the settlement."""
    error: BaseException | None = None
    """The handler's exception; a `JobFailed` if the worker ended the attempt, for example at the time-out."""
    result: Any = None
    """The handler's result, as decoded from the store."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r} on {self.queue.full_name!r}, attempt {self.attempt}: {self.outcome}"


class Drained(Struct, frozen=True):
    """The deliveries of one drain, in the order of their claims."""

    jobs: list[DrainedJob]

    @property
    def counts(self) -> dict[str, int]:
        """The number of deliveries by outcome, without zeros: `{"done": 2, "retried": 1}`."""
        return dict(Counter(job.outcome for job in self.jobs))

    def of(self, outcome: Outcome) -> list[DrainedJob]:
        """The deliveries with this outcome."""
        return [job for job in self.jobs if job.outcome == outcome]

    @property
    def done(self) -> list[DrainedJob]:
        """The deliveries that were done."""
        return self.of("done")

    @property
    def retried(self) -> list[DrainedJob]:
        """The attempts that failed and will be retried."""
        return self.of("retried")

    @property
    def released(self) -> list[DrainedJob]:
        """The deliveries that ended with `Release`."""
        return self.of("released")

    @property
    def dead(self) -> list[DrainedJob]:
        """The last attempts, which failed."""
        return self.of("dead")

    @property
    def cancelled(self) -> list[DrainedJob]:
        """The deliveries that ended because the job was cancelled."""
        return self.of("cancelled")

    @property
    def failed(self) -> list[DrainedJob]:
        """The attempts that failed, retried or dead."""
        return [job for job in self.jobs if job.outcome in FAILED]

    def __iter__(self) -> Iterator[DrainedJob]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def __bool__(self) -> bool:
        return bool(self.jobs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.jobs)) or "nothing was due"


class JobsFailed(ExceptionGroup[Exception]):
    """Attempts failed while a test drained: holds the errors of the handlers with their tracebacks, and `drained`.

    A test of failures drains with `raising=False` and checks the outcomes.
    """

    def __new__(cls, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> Self:  # noqa: ARG004
        """A group of the errors, with the drained deliveries."""
        return super().__new__(cls, message, errors)

    def __init__(self, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> None:
        super().__init__(message, errors)
        self.drained = drained or Drained([])

    def derive(self, errors: Sequence[Exception]) -> "JobsFailed":  # type: ignore[override]  # errors of jobs only
        """The same group with some of the errors."""
        return JobsFailed(self.message, errors, self.drained)


def handler_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the handler's first frame on; the whole one when no frame is outside of headrace."""
    own = trace
    while own is not None and str(own.tb_frame.f_globals.get("__name__", "")).startswith("headrace."):
        own = own.tb_next
    return own or trace


def failure_of(drained: Drained) -> JobsFailed | None:
    """The error for a test that did not expect failures; None if there were none."""
    failed = drained.failed
    if not failed:
        return None
    message = f"{len(failed)} of {len(drained)} deliveries failed; drain with raising=False to look at their outcomes"
    return JobsFailed(message, [_raisable(job) for job in failed], drained)


def _raisable(job: DrainedJob) -> Exception:
    error = job.error
    if not isinstance(error, Exception):
        # A handler that raised SystemExit or the like must not end the test run.
        wrapper = RuntimeError(f"the handler raised {error!r}")
        wrapper.__cause__ = error
        error = wrapper
    error.__traceback__ = handler_frames(error.__traceback__)
    note = str(job)
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


LEASE = "1d"
"""Longer than a stop in a debugger, and than a handler's move of the clock."""
NAMED_MAX = 5

Delivery = tuple[str, str, str, int]
"""Tenant, queue, id and fence."""


def light_handlers(app: App) -> Handlers:
    """The handlers of an app with weight one, in this process: a drain has few units."""
    return app.registry.handlers(lambda handler: replace(in_worker_process(handler), weight=1))


class NoJitter(random.Random):
    """Draws the full backoff, so that a test knows when a retry is due."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002 - the signature of random.Random
        """The larger of the two."""
        return b


class DrainListener:
    """Outermost middleware that keeps the errors of handlers."""

    def __init__(self) -> None:
        self.errors: dict[Delivery, BaseException] = {}

    async def __call__(self, context: Context, call_next: Next) -> Any:
        """Call the handler and record its error."""
        job = context.job
        try:
            result = await call_next(context)
        except BaseException as error:
            self.errors[job.tenant, job.queue, job.id, job.fence] = error
            raise
        if isinstance(result, HandlerEnd):
            self.errors[job.tenant, job.queue, job.id, job.fence] = result
        return result

    def error_of(self, claim: Claim, outcome: model.Outcome) -> BaseException | None:
        """The error of a failed delivery: the handler's, or the worker's when no handler raised."""
        if not isinstance(outcome, model.Retried | model.Failed):
            return None
        lease = claim.lease
        raised = self.errors.get((lease.queue.tenant, lease.queue.full_name, lease.id, lease.fence))
        if raised is None or isinstance(raised, asyncio.CancelledError):
            return JobFailed(lease.id, "failed" if isinstance(outcome, model.Failed) else "attempt", outcome.error)
        return raised


class Drain:
    """One drain of a kit's store by workers of its app."""

    def __init__(
        self, app: App, store: KitStore, *, limit: int, capacity: int, queues: Sequence[str | Queue] | None
    ) -> None:
        self._app = app
        self._store = store
        self._limit = limit
        self._capacity = capacity
        self._handlers = light_handlers(app)
        self._chosen = None if queues is None else [self._resolve_queue(queue) for queue in queues]
        self._listener = DrainListener()
        self._claims: list[Claim] = []
        self._worker: Worker | None = None

    async def run(self, ahead_ms: int) -> Drained:
        """Work, and move the clock from due time to due time, until it is `ahead_ms` later."""
        clock = self._store.clock
        until_ms = clock.now_ms() + ahead_ms
        while True:
            queues = self._queues()
            if await self._store.is_due(queues):
                await self._work(queues)
            if not set(self._queues()) <= set(queues):
                continue  # a handler sent a job to another queue
            next_at_ms = await self._store.next_at_ms(queues)
            if next_at_ms is None or next_at_ms > until_ms:
                break
            clock.move_to(max(next_at_ms, clock.now_ms()))
        if ahead_ms:
            clock.move_to(max(until_ms, clock.now_ms()))  # a handler may have moved it further
        return Drained([self._drained_job(claim) for claim in self._claims])

    def _queues(self) -> list[Queue]:
        """The queues of the app's functions, other queues that got their jobs, and the fail queues of both."""
        handlers = self._handlers
        queues = dict.fromkeys(handlers.queues)
        for sent in list(self._store.call_log.sent):
            if handlers.find(sent.queue, sent.record.kind) is not None:
                queues[sent.queue] = None
        fail_queues = handlers.fail_queues
        if self._chosen is not None:
            return [*self._chosen, *(queue for queue in fail_queues if queue.main_queue in self._chosen)]
        return [*queues, *(queue for queue in fail_queues if queue not in queues)]

    def _resolve_queue(self, name: str | Queue) -> Queue:
        queue = self._app.maker.queue(name)
        # A function may have set the number of shards of its queue.
        known = {(each.tenant, each.name): each for each in self._handlers.queues}
        return queue if isinstance(name, Queue) else known.get((queue.tenant, queue.name), queue)

    async def _work(self, queues: list[Queue]) -> None:
        async with self._app.build_worker(
            listeners=[self._on_event],
            middleware=[self._listener],
            rng=NoJitter(0),
            queues=queues,
            handlers=self._handlers,
            capacity=self._capacity,
            name="headrace-testing",
            lease=LEASE,
        ) as self._worker:
            await self._worker.run(until_idle=True)
        if len(self._claims) > self._limit:
            raise Refused("too_many_deliveries", self._limit_message())

    def _on_event(self, event: WorkerEvent) -> None:
        if isinstance(event, JobsClaimed):
            self._claims.extend(event.claims)
            if len(self._claims) > self._limit and self._worker is not None:
                self._worker.stop(0)

    def _limit_message(self) -> str:
        kinds = Counter(claim.record.kind for claim in self._claims).most_common(NAMED_MAX)
        named = ", ".join(f"{kind} {count:,} times" for kind, count in kinds)
        return (
            f"drain stopped after {self._limit:,} deliveries, and more is due ({named}); a job that sends or releases"
            " itself never ends: drain in smaller steps of time, or raise limit="
        )

    def _drained_job(self, claim: Claim) -> DrainedJob:
        record, queue = claim.record, claim.lease.queue
        settlement, answer = self._store.call_log.settled.get(claim.lease.token, (None, None))
        if settlement is None or answer is None:
            return DrainedJob(record.id, record.kind, queue, record.attempts + 1, "lost")
        outcome = settlement.outcome
        result = None
        if isinstance(outcome, model.Done) and outcome.result is not None:
            result = self._decode(claim, outcome.result)
        assert answer.ok  # the call log keeps no others
        status: Any = answer.status
        error = self._listener.error_of(claim, outcome)
        return DrainedJob(record.id, record.kind, queue, record.attempts + 1, status, error, result)

    def _decode(self, claim: Claim, result: bytes) -> Any:
        handler = self._handlers.find(claim.lease.queue, claim.record.kind)
        if handler is None:
            return result
        return handler.codec.decode(result, bytes if handler.codec is RAW else handler.arguments.result_type)
