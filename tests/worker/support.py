"""Jobs, handlers, workers with short intervals, and a recorder of events, for the tests of the worker."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import fields

from headrace.model.finished import DeadLetter
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.policy import Policy
from headrace.model.results import Found
from headrace.stores.contract.store import Store
from headrace.worker.config import WorkerConfig
from headrace.worker.events import WorkerEvent
from headrace.worker.handlers import Handler, Handlers, Middleware, handler_of
from headrace.worker.worker import OpenStore, Worker

N = TypeVar("N")
MAIL = Queue("mail")
SOON_S = 10.0
"""How long a test waits for an expected event."""
_POLICY = frozenset(field.name for field in fields(Policy))


def job(id: str, kind: str = "work", *, queue: Queue = MAIL, payload: bytes = b"{}", **given: Any) -> Job:
    """A job, with the fields of its policy beside its own."""
    policy = Policy(**{name: value for name, value in given.items() if name in _POLICY})
    own = {name: value for name, value in given.items() if name not in _POLICY}
    return Job(queue=queue, id=id, kind=kind, payload=payload, policy=policy, **own)


def jobs(count: int, kind: str = "work", **given: Any) -> list[Job]:
    """Jobs with the ids 0, 1, 2 and so on."""
    return [job(str(number), kind, **given) for number in range(count)]


def build_handlers(*queues: Queue, **functions: Callable[..., Any] | Handler) -> Handlers:
    """Handlers by kind, for jobs of these queues or of MAIL."""
    handlers = Handlers()
    for kind, function in functions.items():
        handler = function if isinstance(function, Handler) else handler_of(kind, function)
        handlers.register(handler, *(queues or (MAIL,)))
    return handlers


class EventRecorder:
    """A listener that keeps all events."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._arrived = asyncio.Event()

    def __call__(self, event: WorkerEvent) -> None:
        self.events.append(event)
        self._arrived.set()

    def of_type(self, kind: type[N]) -> list[N]:
        """The events of a type."""
        return [event for event in self.events if isinstance(event, kind)]

    async def wait_for(self, kind: type[N], matches: Callable[[N], bool] = lambda _: True) -> N:
        """Wait for a matching event and return the first."""
        async with asyncio.timeout(SOON_S):
            while True:
                for event in self.of_type(kind):
                    if matches(event):
                        return event
                self._arrived.clear()
                await self._arrived.wait()


def build_worker(
    store: Store | OpenStore,
    handlers: Handlers,
    *listeners: Callable[[WorkerEvent], None],
    middleware: Sequence[Middleware] = (),
    rng: random.Random | None = None,
    reopen: Callable[[], Any] | None = None,
    **config: Any,
) -> Worker:
    """A worker that polls often and has its own seed."""
    settings = WorkerConfig(**{"name": "worker-1", "poll": "50ms", "grace": "5s", **config})
    return Worker(
        store,
        handlers,
        settings,
        listeners=listeners,
        middleware=middleware,
        rng=rng or random.Random(1),
        reopen=reopen,
    )


async def run_until_idle(
    store: Store, handlers: Handlers, *listeners: Callable[[WorkerEvent], None], **given: Any
) -> Worker:
    """Run a worker until nothing is due, and return it."""
    worker = build_worker(store, handlers, *listeners, **given)
    async with asyncio.timeout(SOON_S):
        await worker.run(until_idle=True)
    return worker


async def find(store: Store, id: str, queue: Queue = MAIL) -> Found:
    """A job as the store has it."""
    [found] = await store.reads.find(queue, [id])
    assert found is not None
    return found


async def dead_letters(store: Store, queue: Queue = MAIL) -> list[DeadLetter]:
    """The dead letters of a queue."""
    return list((await store.dead.list(queue)).rows)
