"""What a drain has done: every delivery with its outcome, and the errors of those that failed."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from headrace.app.app import App
from headrace.app.registry import in_worker_process
from headrace.client.codec import RAW
from headrace.model import outcome as model
from headrace.model.claim import Claim
from headrace.model.errors import JobFailed, Refused
from headrace.model.names import Queue
from headrace.testing.store import KitStore
from headrace.worker.context import Context
from headrace.worker.events import JobsClaimed, WorkerEvent
from headrace.worker.exceptions import HandlerEnd
from headrace.worker.handlers import Handlers
from headrace.worker.middleware import Next

if TYPE_CHECKING:
    from headrace.worker.worker import Worker


Outcome = Literal["done", "retried", "released", "dead", "cancelled", "lost"]
FAILED = ("retried", "dead")


class DrainedJob(Struct, frozen=True):
    """One delivery: a job that was tried twice is there twice."""

    id: str
    kind: str
    queue: Queue
    attempt: int
    """Which attempt it was, from 1 on."""
    outcome: Outcome
    """`done`, `retried`, `released`, `dead`, `cancelled`; `lost` when the store did not accept how it ended."""
    error: BaseException | None = None
    """What the handler raised; a `JobFailed` where the worker itself ended the attempt (its time was over, say)."""
    result: Any = None
    """What the handler returned, as it comes back from the store."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r} on {self.queue.full_name!r}, attempt {self.attempt}: {self.outcome}"


class Drained(Struct, frozen=True):
    """The deliveries of one drain, in the order in which they were handed out."""

    jobs: list[DrainedJob]

    @property
    def counts(self) -> dict[str, int]:
        """How many deliveries ended how; what did not occur is not in it: `{"done": 2, "retried": 1}`."""
        return dict(Counter(job.outcome for job in self.jobs))

    def of(self, outcome: Outcome) -> list[DrainedJob]:
        """The deliveries that ended so."""
        return [job for job in self.jobs if job.outcome == outcome]

    @property
    def done(self) -> list[DrainedJob]:
        """The deliveries that ended well."""
        return self.of("done")

    @property
    def retried(self) -> list[DrainedJob]:
        """The attempts that failed, and are to be tried again."""
        return self.of("retried")

    @property
    def released(self) -> list[DrainedJob]:
        """The deliveries that ended with `Release`, and count nothing."""
        return self.of("released")

    @property
    def dead(self) -> list[DrainedJob]:
        """The attempts that failed and were the last."""
        return self.of("dead")

    @property
    def cancelled(self) -> list[DrainedJob]:
        """The deliveries that ended because the job was cancelled."""
        return self.of("cancelled")

    @property
    def failed(self) -> list[DrainedJob]:
        """The attempts that failed, whatever came of it."""
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
    """Attempts failed while a test drained: holds what the handlers raised, with their tracebacks, and the `drained`.

    A test that is about failures drains with `raising=False` and looks at the outcomes.
    """

    def __new__(cls, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> Self:  # noqa: ARG004
        """A group of the errors; what was drained comes along."""
        return super().__new__(cls, message, errors)

    def __init__(self, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> None:
        super().__init__(message, errors)
        self.drained = drained or Drained([])

    def derive(self, errors: Sequence[Exception]) -> "JobsFailed":  # type: ignore[override]  # errors of jobs only
        """The same about some of the errors."""
        return JobsFailed(self.message, errors, self.drained)


def users_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames above those of the handler; whole where there are no others."""
    own = trace
    while own is not None and str(own.tb_frame.f_globals.get("__name__", "")).startswith("headrace."):
        own = own.tb_next
    return own or trace


def failure_of(drained: Drained) -> JobsFailed | None:
    """What to raise when a test did not expect failures; None when there was none."""
    failed = drained.failed
    if not failed:
        return None
    told = f"{len(failed)} of {len(drained)} deliveries failed; drain with raising=False to look at their outcomes"
    return JobsFailed(told, [_raisable(job) for job in failed], drained)


def _raisable(job: DrainedJob) -> Exception:
    error = job.error
    if not isinstance(error, Exception):
        # A handler that raised SystemExit or the like must not end the test run.
        wrapped = RuntimeError(f"the handler raised {error!r}")
        wrapped.__cause__ = error
        error = wrapped
    error.__traceback__ = users_own(error.__traceback__)
    note = str(job)
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


LEASE = "1d"
"""Longer than a debugger stands in a handler, and than a handler moves the clock."""
NAMED_MAX = 5

Delivery = tuple[str, str, str, int]
"""Tenant, queue, id and fence."""


def light_handlers(app: App) -> Handlers:
    """The handlers of an app for a worker of few units: each runs here, and takes one."""
    return app.registry.handlers(lambda handler: replace(in_worker_process(handler), weight=1))


class NoJitter(random.Random):
    """Draws the whole of every backoff, so that a test can tell when a retry is due."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002 - the signature is that of the lots
        """The larger of the two."""
        return b


class DrainListener:
    """Middleware around all others that keeps what handlers raise."""

    def __init__(self) -> None:
        self.errors: dict[Delivery, BaseException] = {}

    async def __call__(self, context: Context, call_next: Next) -> Any:
        """Pass everything on as it is."""
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
        """Why a delivery failed; what the worker says where no handler raised."""
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
        self._wanted = None if queues is None else [self._meant(queue) for queue in queues]
        self._watch = DrainListener()
        self._taken: list[Claim] = []
        self._worker: Worker | None = None

    async def run(self, ahead_ms: int) -> Drained:
        """Work, and move the clock from due time to due time, until it stands `ahead_ms` later."""
        clock = self._store.clock
        until_ms = clock.now_ms() + ahead_ms
        while True:
            queues = self._queues()
            if await self._store.is_due(queues):
                await self._work(queues)
            if not set(self._queues()) <= set(queues):
                continue  # a handler has sent something where nobody looked yet
            next_at_ms = await self._store.next_at_ms(queues)
            if next_at_ms is None or next_at_ms > until_ms:
                break
            clock.move_to(max(next_at_ms, clock.now_ms()))
        if ahead_ms:
            clock.move_to(max(until_ms, clock.now_ms()))  # a handler may have moved it further
        return Drained([self._drained(claim) for claim in self._taken])

    def _queues(self) -> list[Queue]:
        """Where the app's functions are at home, and wherever else their jobs were sent; deaths where they are told."""
        handlers = self._handlers
        homes = dict.fromkeys(handlers.queues)
        for sent in list(self._store.ledger.sent):
            if handlers.find(sent.queue, sent.record.kind) is not None:
                homes[sent.queue] = None
        fail_queues = handlers.fail_queues
        if self._wanted is not None:
            return [*self._wanted, *(queue for queue in fail_queues if queue.main_queue in self._wanted)]
        return [*homes, *(queue for queue in fail_queues if queue not in homes)]

    def _meant(self, wish: str | Queue) -> Queue:
        meant = self._app.maker.queue(wish)
        # A function may have said into how many shards its queue is cut.
        known = {(queue.tenant, queue.name): queue for queue in self._handlers.queues}
        return meant if isinstance(wish, Queue) else known.get((meant.tenant, meant.name), meant)

    async def _work(self, queues: list[Queue]) -> None:
        async with self._app.build_worker(
            listeners=[self._hear],
            middleware=[self._watch],
            rng=NoJitter(0),
            queues=queues,
            handlers=self._handlers,
            capacity=self._capacity,
            name="headrace-testing",
            lease=LEASE,
        ) as self._worker:
            await self._worker.run(until_idle=True)
        if len(self._taken) > self._limit:
            raise Refused("too_many_deliveries", self._told_limit())

    def _hear(self, notice: WorkerEvent) -> None:
        if isinstance(notice, JobsClaimed):
            self._taken.extend(notice.claims)
            if len(self._taken) > self._limit and self._worker is not None:
                self._worker.stop(0)

    def _told_limit(self) -> str:
        kinds = Counter(claim.record.kind for claim in self._taken).most_common(NAMED_MAX)
        named = ", ".join(f"{kind} {count:,} times" for kind, count in kinds)
        return (
            f"drain stopped after {self._limit:,} deliveries, and more is due ({named}); a job that sends or releases"
            " itself never ends: drain in smaller steps of time, or raise limit="
        )

    def _drained(self, claim: Claim) -> DrainedJob:
        record, queue = claim.record, claim.lease.queue
        settlement, answer = self._store.ledger.settled.get(claim.lease.token, (None, None))
        if settlement is None or answer is None:
            return DrainedJob(record.id, record.kind, queue, record.attempts + 1, "lost")
        outcome = settlement.outcome
        result = None
        if isinstance(outcome, model.Done) and outcome.result is not None:
            result = self._decoded(claim, outcome.result)
        assert answer.ok  # the ledger keeps no others
        status: Any = answer.status
        error = self._watch.error_of(claim, outcome)
        return DrainedJob(record.id, record.kind, queue, record.attempts + 1, status, error, result)

    def _decoded(self, claim: Claim, result: bytes) -> Any:
        handler = self._handlers.find(claim.lease.queue, claim.record.kind)
        if handler is None:
            return result
        return handler.codec.decode(result, bytes if handler.codec is RAW else handler.arguments.result_type)
