"""What the tests of the worker share: jobs, workers on a short leash, and an ear for notices."""

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
from headrace.worker.handlers import Handler, Handlers, handler_of
from headrace.worker.middleware import Middleware
from headrace.worker.worker import OpenStore, Worker

N = TypeVar("N")
MAIL = Queue("mail")
SOON_S = 10.0
"""How long a test waits for what must happen."""
_POLICY = frozenset(field.name for field in fields(Policy))


def job(id: str, kind: str = "work", *, queue: Queue = MAIL, payload: bytes = b"{}", **given: Any) -> Job:
    """A job, with the fields of its policy beside its own."""
    policy = Policy(**{name: value for name, value in given.items() if name in _POLICY})
    own = {name: value for name, value in given.items() if name not in _POLICY}
    return Job(queue=queue, id=id, kind=kind, payload=payload, policy=policy, **own)


def jobs(count: int, kind: str = "work", **given: Any) -> list[Job]:
    """Jobs with the ids 0, 1, 2 and so on."""
    return [job(str(number), kind, **given) for number in range(count)]


def handling(*homes: Queue, **functions: Callable[..., Any] | Handler) -> Handlers:
    """Handlers by kind, at home in these queues, or in MAIL."""
    handlers = Handlers()
    for kind, function in functions.items():
        handler = function if isinstance(function, Handler) else handler_of(kind, function)
        handlers.register(handler, *(homes or (MAIL,)))
    return handlers


class Ear:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.notices: list[WorkerEvent] = []
        self._news = asyncio.Event()

    def __call__(self, notice: WorkerEvent) -> None:
        self.notices.append(notice)
        self._news.set()

    def told(self, kind: type[N]) -> list[N]:
        """What was told of a kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def hear(self, kind: type[N], is_it: Callable[[N], bool] = lambda _: True) -> N:
        """Wait until something like this was told, and answer the first."""
        async with asyncio.timeout(SOON_S):
            while True:
                for notice in self.told(kind):
                    if is_it(notice):
                        return notice
                self._news.clear()
                await self._news.wait()


def worker_of(
    store: Store | OpenStore,
    handlers: Handlers,
    *listeners: Callable[[WorkerEvent], None],
    middleware: Sequence[Middleware] = (),
    chance: random.Random | None = None,
    reopen: Callable[[], Any] | None = None,
    **config: Any,
) -> Worker:
    """A worker that looks often and draws lots of its own."""
    settings = WorkerConfig(**{"name": "worker-1", "poll": "50ms", "grace": "5s", **config})
    return Worker(
        store,
        handlers,
        settings,
        listeners=listeners,
        middleware=middleware,
        rng=chance or random.Random(1),
        reopen=reopen,
    )


async def work_off(store: Store, handlers: Handlers, *listeners: Callable[[WorkerEvent], None], **given: Any) -> Worker:
    """Let a worker do what is due, and answer it."""
    worker = worker_of(store, handlers, *listeners, **given)
    async with asyncio.timeout(SOON_S):
        await worker.run(until_idle=True)
    return worker


async def find(store: Store, id: str, queue: Queue = MAIL) -> Found:
    """All that is known of a job."""
    [found] = await store.reads.find(queue, [id])
    assert found is not None
    return found


async def dead_letters(store: Store, queue: Queue = MAIL) -> list[DeadLetter]:
    """The dead letters of a queue."""
    return list((await store.dead.list(queue)).rows)
