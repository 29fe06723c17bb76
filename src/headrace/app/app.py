"""Turns functions into jobs, and connects clients and workers to one store."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from headrace.app.connections import BorrowedStore, Connections
from headrace.app.decorators import (
    FailDecorator,
    FailFields,
    JobDecorator,
    JobFields,
    Registry,
    WorkerFields,
    in_worker_process,
    with_tenant,
)
from headrace.app.discovery import url_of
from headrace.app.job_function import AsyncJobFunction, JobFunction, P, PlainJobFunction, R
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.client.options import JobMaker
from headrace.feeds.context import Instance
from headrace.model.clock import Clock, SystemClock
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT, Queue, random_bytes
from headrace.model.redact import redact_url
from headrace.stores.contract.store import Store
from headrace.worker.handlers import Handlers, Middleware

if TYPE_CHECKING:
    from headrace.feeds.blocking import BlockingFeeds
    from headrace.feeds.feeds import Feeds
    from headrace.worker.events import Listener
    from headrace.worker.worker import OpenStore, Worker

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class App:
    """Turns functions into jobs, and knows their store.

    `url` names the store: `sqlite:///jobs.db`, `redis://host`, `postgres://user@host/database`, `memory://`. The
    default is HEADRACE_URL of the environment, read when the store is first needed, else a file `headrace.db` in the
    working directory. `tenant` and `queue` are the defaults of all functions.

    Nothing is opened before it is needed; each event loop has its own connections, closed with the loop. An app may be
    forked and pickled: the new process opens its own connections. A pickle carries the settings, not the functions.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        queue: str | Queue = DEFAULT_QUEUE,
        codec: Codec = JSON,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self._maker = JobMaker(tenant=tenant, queue=queue, codec=codec, clock=SystemClock(), entropy=random_bytes)
        self.registry = Registry()
        self._url = url
        self._middleware = list(middleware)
        self._connections = Connections(self._resolve_url, self._new_client)
        self._blocking: dict[str, BlockingClient] = {}
        self._instance = Instance()
        self._borrowed: list[BorrowedStore] = []

    @overload
    def job(  # type: ignore[overload-overlap]  # a coroutine function is a function that returns a coroutine
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobFunction[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> PlainJobFunction[P, R]: ...
    @overload
    def job(self, /, **fields: Unpack[JobFields]) -> JobDecorator: ...
    def job(
        self, function: Callable[..., Any] | None = None, /, **fields: Unpack[JobFields]
    ) -> JobFunction[..., Any] | JobDecorator:
        """Make a job of a function: `@app.job`, or `@app.job(queue="mail", max_attempts=5, timeout="30s")`.

        A coroutine function runs on the worker's event loop, a plain function in a thread, and with `process=True`
        either runs in its own process. `kind` names the jobs (default: the function's name), `weight` is the capacity
        that a job takes; the rest are `Options` of all jobs. Raises `BadConfig` if the function cannot be a job, or
        another function has the kind.
        """
        decorate = JobDecorator(self, fields)
        return decorate if function is None else decorate(function)

    @overload
    def fail_handler(self, function: F, /) -> F: ...
    @overload
    def fail_handler(self, /, **fields: Unpack[FailFields]) -> FailDecorator: ...
    def fail_handler(self, function: F | None = None, /, **fields: Unpack[FailFields]) -> F | FailDecorator:
        """Call a function for each dead letter: `@app.fail_handler(queue="mail")` on `def bury(id, payload, error)`.

        `payload` is the payload of the dead job, `error` the cause of death: annotate it with `DeathInfo`, or leave it
        a dict. The call is a job on the fail queue, with many attempts, enqueued in the same step as the death.
        """
        decorate = FailDecorator(self, fields)
        return decorate if function is None else decorate(function)

    def middleware(self, function: M) -> M:
        """Wrap `async def m(context, call_next)` around all handlers of this app, inside earlier middleware."""
        self._middleware.append(function)
        return function

    @property
    def middleware_stack(self) -> Sequence[Middleware]:
        """The middleware around all handlers, outermost first."""
        return tuple(self._middleware)

    @property
    def url(self) -> str | None:
        """The URL of the store; None until it is set, or until the store is first needed."""
        return self._url

    def use_url(self, url: str) -> None:
        """Use the store at `url` from now on. Call this before the store is opened."""
        self._url = url

    @property
    def has_borrowed_store(self) -> bool:
        """Whether the app uses a store lent to it by `using`."""
        return bool(self._borrowed)

    @property
    def maker(self) -> JobMaker:
        """Builds the jobs of this app."""
        return self._borrowed[-1].maker if self._borrowed else self._maker

    @property
    def handlers(self) -> Handlers:
        """The handlers of all functions, for a `Worker` that you construct yourself."""
        return self.registry.handlers(in_worker_process) if self._borrowed else self.registry.handlers()

    @contextmanager
    def using(self, store: Store, clock: Clock | None = None) -> Iterator[None]:
        """Use this open store instead of the URL, in all clients and workers of this app, while the block is open.

        For tests: `headrace.testing` has a store for every event loop and thread. Nothing else is opened, and the
        store is not closed. Job ids come from `clock`. Handlers with `process=True` run in this process, since another
        process would not have the store. Blocks may be nested; the innermost wins.
        """
        defaults, clock = self._maker, clock or SystemClock()
        maker = JobMaker(
            tenant=defaults.tenant,
            queue=defaults.default_queue,
            codec=defaults.codec,
            clock=clock,
            entropy=random_bytes,
        )
        borrowed = BorrowedStore(store, maker, lambda store: self._new_client(store, clock))
        self._borrowed.append(borrowed)
        try:
            yield
        finally:
            self._borrowed.remove(borrowed)
            borrowed.blocking.close()

    async def client(self) -> Client:
        """The client of the running event loop; opened by the first call and shared by all tasks of the loop."""
        return await self._source.client()

    @property
    def blocking(self) -> BlockingClient:
        """The client for programs without an event loop; shared by all threads, open until the program ends."""
        if self._borrowed:
            return self._borrowed[-1].blocking
        url, maker = self._resolve_url(), self.maker
        if url not in self._blocking:
            client = BlockingClient(url, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec)
            # One step, so that threads get the same client; a lock could be held by another thread during a fork.
            self._blocking.setdefault(url, client)
        return self._blocking[url]

    async def feeds(self) -> "Feeds":
        """The live feeds of the app's tenant, for the running event loop: `await feeds.feed("news")`."""
        # Programs that only send jobs load no feeds.
        from headrace.feeds.feeds import Feeds

        return Feeds.of(await self.client(), instance=self._instance.name)

    @property
    def blocking_feeds(self) -> "BlockingFeeds":
        """The live feeds for programs without an event loop; shared by all threads."""
        from headrace.feeds.blocking import BlockingFeeds

        return BlockingFeeds.of(self.blocking, self._instance)

    @asynccontextmanager
    async def worker(
        self, *, listeners: "Sequence[Listener]" = (), **config: Unpack[WorkerFields]
    ) -> "AsyncIterator[Worker]":
        """Run a worker beside the block, as in the lifespan of a web program: `async with app.worker(capacity=50):`.

        The end of the block waits for running handlers, up to the grace time. Signals are not handled.
        `listeners` get every event of the worker, see `headrace.worker.events`.
        """
        async with self.build_worker(listeners=listeners, **config) as worker, worker:
            yield worker

    async def work(
        self,
        *,
        until_idle: bool = False,
        wait: bool = True,
        listeners: "Sequence[Listener]" = (),
        **config: Unpack[WorkerFields],
    ) -> None:
        """Run a worker on the jobs of this app until it is stopped; the settings are those of `WorkerConfig`.

        In the main thread of a program the first SIGTERM or SIGINT stops with the grace time, the second at once. With
        `until_idle` it returns as soon as nothing is due, for tests and scripts. Waits for a store that is unavailable
        at the start; with `wait=False` raises `StoreUnavailable`.
        """
        in_main = threading.current_thread() is threading.main_thread()
        async with self.build_worker(listeners=listeners, wait=wait, **config) as worker:
            await worker.run(until_idle=until_idle, signals=in_main)

    def run_worker(
        self,
        *,
        processes: int = 1,
        until_idle: bool = False,
        wait: bool = True,
        listeners: "Sequence[Listener]" = (),
        **config: Unpack[WorkerFields],
    ) -> None:
        """`work` for a program without an event loop, like `headrace worker`: it prints its queues and kinds, and logs
        each job when it is claimed and when it is settled, as text to a terminal, else as JSON.

        If the program has set up logging, for the logger `headrace` or for the root, it gets log records instead.

        With several `processes`, each runs a worker with these settings under this process as supervisor: a process
        that dies is restarted, and a signal stops all. They import the module of the app, so call this behind
        `if __name__ == "__main__":`. Listeners do not work across processes.
        """
        from headrace.app.program import run_program, run_supervisor

        if processes == 1:
            asyncio.run(run_program(self, until_idle=until_idle, wait=wait, listeners=listeners, config=config))
        else:
            asyncio.run(
                run_supervisor(self, processes, until_idle=until_idle, wait=wait, listeners=listeners, config=config)
            )

    @asynccontextmanager
    async def build_worker(
        self,
        *,
        listeners: "Sequence[Listener]" = (),
        middleware: Sequence[Middleware] = (),
        store: Store | None = None,
        handlers: Handlers | None = None,
        rng: random.Random | None = None,
        wait: bool = False,
        **config: Unpack[WorkerFields],
    ) -> "AsyncIterator[Worker]":
        """A worker that has not started, on a store that is open as long as the block, to read `worker.health()` while
        it runs: `async with app.build_worker() as worker: await worker.run()`.

        `middleware` goes around the app's own. `store` and `handlers` replace those of the app, `rng` draws jitter.
        With `wait` the worker opens the store when it runs, and waits until it is available.
        """
        # Programs that only send jobs load no worker.
        from headrace.worker.config import WorkerConfig
        from headrace.worker.worker import Worker

        settings = WorkerConfig(**with_tenant(config, self.maker.tenant))
        source = self._source
        async with AsyncExitStack() as stack:
            worker_store: Store | OpenStore = source.open_store
            if store is not None:
                worker_store = store
            elif not wait:
                worker_store = await stack.enter_async_context(source.open_store())
            yield Worker(
                worker_store,
                handlers or self.handlers,
                settings,
                reopen=source.reopen if store is None else None,
                middleware=(*middleware, *self._middleware),
                listeners=listeners,
                rng=rng,
            )

    async def close(self) -> None:
        """Close the client of the running event loop; a later call opens another."""
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        maker = self.maker
        # The resolved URL: the environment of another machine may name another store, or none.
        return _restore_app, (url_of(self._url), maker.tenant, maker.default_queue, maker.codec)

    def __repr__(self) -> str:
        return f"<App at {redact_url(url_of(self._url))} with {len(self.registry)} jobs>"

    @property
    def _source(self) -> Connections | BorrowedStore:
        return self._borrowed[-1] if self._borrowed else self._connections

    def _new_client(self, store: Store, clock: Clock | None = None) -> Client:
        maker = self._maker
        return Client(store, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec, clock=clock)

    def _resolve_url(self) -> str:
        # Fixed at the first use: all loops and threads of a program share one store.
        self._url = url_of(self._url)
        return self._url


def _restore_app(url: str, tenant: str, queue: str | Queue, codec: Codec) -> App:
    return App(url, tenant=tenant, queue=queue, codec=codec)
