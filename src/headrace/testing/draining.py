"""Drains a store: lets the real worker do all that is due, and moves the clock to what is due next."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.app.app import App
from headrace.app.registry import in_place
from headrace.client.codec import RAW
from headrace.model import outcome as model
from headrace.model.claim import Claim
from headrace.model.errors import JobFailed, Refused
from headrace.model.names import Queue
from headrace.testing.drained import Drained, DrainedJob
from headrace.testing.store import KitStore
from headrace.worker.context import Context
from headrace.worker.events import Notice, Taken
from headrace.worker.exceptions import HandlerEnd
from headrace.worker.handlers import Handlers
from headrace.worker.middleware import Next

if TYPE_CHECKING:
    from headrace.worker.worker import Worker

LEASE = "1d"
"""Longer than a debugger stands in a handler, and than a handler moves the clock."""
NAMED_MAX = 5

Delivery = tuple[str, str, str, int]
"""Tenant, queue, id and fence."""


def light_handlers(app: App) -> Handlers:
    """The handlers of an app for a worker of few units: each runs here, and takes one."""
    return app.registry.handlers(lambda handler: replace(in_place(handler), weight=1))


class NoJitter(random.Random):
    """Draws the whole of every backoff, so that a test can tell when a retry is due."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002 - the signature is that of the lots
        """The larger of the two."""
        return b


class Watch:
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
        if not isinstance(outcome, model.Retry | model.Fail):
            return None
        lease = claim.lease
        raised = self.errors.get((lease.queue.tenant, lease.queue.full_name, lease.id, lease.fence))
        if raised is None or isinstance(raised, asyncio.CancelledError):
            return JobFailed(lease.id, "failed" if isinstance(outcome, model.Fail) else "attempt", outcome.error)
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
        self._watch = Watch()
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
        companions = handlers.companions
        if self._wanted is not None:
            return [*self._wanted, *(queue for queue in companions if queue.sibling in self._wanted)]
        return [*homes, *(queue for queue in companions if queue not in homes)]

    def _meant(self, wish: str | Queue) -> Queue:
        meant = self._app.maker.queue(wish)
        # A function may have said into how many shards its queue is cut.
        known = {(queue.tenant, queue.name): queue for queue in self._handlers.queues}
        return meant if isinstance(wish, Queue) else known.get((meant.tenant, meant.name), meant)

    async def _work(self, queues: list[Queue]) -> None:
        async with self._app.built(
            listeners=[self._hear],
            middleware=[self._watch],
            chance=NoJitter(0),
            queues=queues,
            handlers=self._handlers,
            capacity=self._capacity,
            name="headrace-testing",
            lease=LEASE,
        ) as self._worker:
            await self._worker.run(until_idle=True)
        if len(self._taken) > self._limit:
            raise Refused("too_many_deliveries", self._told_limit())

    def _hear(self, notice: Notice) -> None:
        if isinstance(notice, Taken):
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
