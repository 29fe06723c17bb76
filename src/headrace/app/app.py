"""The app: wires functions, clients and workers to one store."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from headrace.app.connections import BorrowedStore, Connections
from headrace.app.decorators import FailDecorator, FailFields, JobDecorator, JobFields, WorkerFields, with_tenant
from headrace.app.discovery import url_of
from headrace.app.job_function import AsyncJobFunction, JobFunction, P, PlainJobFunction, R
from headrace.app.registry import Registry, in_place
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.client.options import JobMaker
from headrace.feeds.context import Instance
from headrace.model.clock import Clock, SystemClock
from headrace.model.ids import random_bytes
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT, Queue
from headrace.model.redact import redact_url
from headrace.stores.contract.store import Store
from headrace.worker.handlers import Handlers
from headrace.worker.middleware import Middleware

if TYPE_CHECKING:
    from headrace.feeds.blocking import BlockingFeeds
    from headrace.feeds.feeds import Feeds
    from headrace.worker.events import Listener
    from headrace.worker.worker import OpenStore, Worker

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class App:
    """Makes jobs of functions, and knows their store.

    `url` is where the jobs are: `sqlite:///jobs.db`, `redis://host`, `postgres://user@host/database`, `memory://`.
    Without one it is HEADRACE_URL of the environment, read when the store is first needed, else a file `headrace.db`
    in the working directory. `tenant` and `queue` hold for functions that do not say otherwise.

    Nothing is opened before it is needed; each event loop gets connections of its own, which are closed with it. An app
    may be forked and pickled: the other process opens its own. A pickle carries the settings and not the functions.
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
        self._connections = Connections(self._settled_url, self._client_of)
        self._blocking: dict[str, BlockingClient] = {}
        self._instance = Instance()
        self._lent: list[BorrowedStore] = []

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

        A coroutine function runs on the worker's event loop, a plain one in a thread, and with `process=True` either
        in a process of its own. `kind` names its jobs (the function's name when not given) and `weight` says how much
        of a worker's capacity one takes; the rest are `Options` of all its jobs. Raises `BadConfig` for a function
        that cannot be a job, and for a kind that another function has.
        """
        decorate = JobDecorator(self, fields)
        return decorate if function is None else decorate(function)

    @overload
    def fail_handler(self, function: F, /) -> F: ...
    @overload
    def fail_handler(self, /, **fields: Unpack[FailFields]) -> FailDecorator: ...
    def fail_handler(self, function: F | None = None, /, **fields: Unpack[FailFields]) -> F | FailDecorator:
        """Let a function be told of deaths: `@app.fail_handler(queue="mail")` on `def bury(id, payload, error)`.

        `payload` is that of the job that died, `error` says why: annotate it with `DeathInfo`, or leave it a dict. The
        telling is itself a job with a patient policy, on the fail queue, put there in the same step as the death.
        """
        decorate = FailDecorator(self, fields)
        return decorate if function is None else decorate(function)

    def middleware(self, function: M) -> M:
        """Wrap `async def m(context, call_next)` around all handlers of this app, inside those that came before."""
        self._middleware.append(function)
        return function

    @property
    def wrapping(self) -> Sequence[Middleware]:
        """What is wrapped around all its handlers, the outermost first."""
        return tuple(self._middleware)

    @property
    def url(self) -> str | None:
        """Where its jobs are: as given, or as found when the store was first needed; None before that."""
        return self._url

    def at(self, url: str) -> Self:
        """The same app with its jobs at `url`, whatever it was given; for whoever starts it, before it opens any."""
        self._url = url
        return self

    @property
    def is_lent(self) -> bool:
        """Whether it uses a store that was lent to it, see `using`."""
        return bool(self._lent)

    @property
    def maker(self) -> JobMaker:
        """Makes the jobs of this app."""
        return self._lent[-1].maker if self._lent else self._maker

    @property
    def handlers(self) -> Handlers:
        """The handlers of all functions, for a `Worker` of your own making."""
        return self.registry.handlers(in_place) if self._lent else self.registry.handlers()

    @contextmanager
    def using(self, store: Store, clock: Clock | None = None) -> Iterator[None]:
        """While the block is open, all clients and workers of this app use this open store instead of the URL.

        For tests: `headrace.testing` brings a store that every event loop and thread may ask. Nothing else is opened,
        and the store is not closed. Jobs get their ids by `clock`. Handlers that ask for a process of their own run in
        this one, since another would not have the store. Blocks may be nested; the innermost holds.
        """
        below, ticking = self._maker, clock or SystemClock()
        maker = JobMaker(
            tenant=below.tenant, queue=below.default_queue, codec=below.codec, clock=ticking, entropy=random_bytes
        )
        lent = BorrowedStore(store, maker, lambda store: self._client_of(store, ticking))
        self._lent.append(lent)
        try:
            yield
        finally:
            self._lent.remove(lent)
            lent.blocking.close()

    async def client(self) -> Client:
        """The client of the running event loop; opened by the first call and shared by all of the loop's tasks."""
        return await self._source.client()

    @property
    def blocking(self) -> BlockingClient:
        """The client for programs without an event loop; shared by all threads, open until the program ends."""
        if self._lent:
            return self._lent[-1].blocking
        url, maker = self._settled_url(), self.maker
        if url not in self._blocking:
            new = BlockingClient(url, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec)
            # One step, so that threads get the same; a lock could be held by another thread when a process is forked.
            self._blocking.setdefault(url, new)
        return self._blocking[url]

    async def feeds(self) -> "Feeds":
        """The live feeds of the app's tenant, in its store, for the running event loop: `await feeds.feed("news")`."""
        # Programs that only send jobs do without feeds.
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
        """Work beside the block, as in the lifespan of a web program: `async with app.worker(capacity=50):`.

        Running handlers are waited for at its end, for the grace time. Signals are left to the program. `listeners`
        hear of all that the worker does, see `headrace.worker.events`.
        """
        async with self.built(listeners=listeners, **config) as worker, worker:
            yield worker

    async def work(
        self,
        *,
        until_idle: bool = False,
        wait: bool = True,
        listeners: "Sequence[Listener]" = (),
        **config: Unpack[WorkerFields],
    ) -> None:
        """Work on the jobs of this app until told to stop; the settings are those of `WorkerConfig`.

        In the main thread of a program the first SIGTERM or SIGINT stops with the grace time, the second at once. With
        `until_idle` it returns as soon as nothing is due, which is for tests and scripts. A store that is away at the
        start is waited for as it is later; without `wait` it raises `StoreUnavailable`.
        """
        in_main = threading.current_thread() is threading.main_thread()
        async with self.built(listeners=listeners, wait=wait, **config) as worker:
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
        """`work` for a program without an event loop, as `headrace worker` is one: it says what it works on, and writes
        a line when a job is claimed and when it is over, as text to a terminal, else as JSON.

        A program that has set up logging, for the logger `headrace` or for all, gets the same as records of its own.

        With more than one of `processes`, that many are started, each with a worker of these settings, and this one
        watches over them: what dies is started anew, and a signal stops all. They import the module of the app, so a
        program calls this behind `if __name__ == "__main__":`. Listeners cannot follow the jobs there.
        """
        from headrace.app.program import run_program, run_supervisor

        if processes == 1:
            asyncio.run(run_program(self, until_idle=until_idle, wait=wait, listeners=listeners, config=config))
        else:
            asyncio.run(
                run_supervisor(self, processes, until_idle=until_idle, wait=wait, listeners=listeners, config=config)
            )

    @asynccontextmanager
    async def built(
        self,
        *,
        listeners: "Sequence[Listener]" = (),
        middleware: Sequence[Middleware] = (),
        store: Store | None = None,
        handlers: Handlers | None = None,
        chance: random.Random | None = None,
        wait: bool = False,
        **config: Unpack[WorkerFields],
    ) -> "AsyncIterator[Worker]":
        """A worker that has not started, on a store that is open as long as the block; `work` for whoever wants to ask
        the worker how it is: `async with app.built() as worker: await worker.run()`.

        `middleware` goes around that of the app. It works on `store` with `handlers` where they are given, and `chance`
        draws its lots. With `wait` the worker opens its store itself when it runs, and waits for one that is away.
        """
        # Programs that only send jobs do without the machinery that runs them.
        from headrace.worker.config import WorkerConfig
        from headrace.worker.worker import Worker

        settings = WorkerConfig(**with_tenant(config, self.maker.tenant))
        source = self._source
        async with AsyncExitStack() as stack:
            there: Store | OpenStore = source.opened
            if store is not None:
                there = store
            elif not wait:
                there = await stack.enter_async_context(source.opened())
            yield Worker(
                there,
                handlers or self.handlers,
                settings,
                reopen=source.reopen if store is None else None,
                middleware=(*middleware, *self._middleware),
                listeners=listeners,
                chance=chance,
            )

    async def close(self) -> None:
        """Close what the running event loop has opened; what is asked for later is opened anew."""
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        maker = self.maker
        # The URL that holds here: the environment of another machine may say nothing, or something else.
        return _remade, (url_of(self._url), maker.tenant, maker.default_queue, maker.codec)

    def __repr__(self) -> str:
        return f"<App at {redact_url(url_of(self._url))} with {len(self.registry)} jobs>"

    @property
    def _source(self) -> Connections | BorrowedStore:
        return self._lent[-1] if self._lent else self._connections

    def _client_of(self, store: Store, clock: Clock | None = None) -> Client:
        maker = self._maker
        return Client(store, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec, clock=clock)

    def _settled_url(self) -> str:
        # Once it was needed it does not change: all loops and threads of a program meet in one store.
        self._url = url_of(self._url)
        return self._url


def _remade(url: str, tenant: str, queue: str | Queue, codec: Codec) -> App:
    return App(url, tenant=tenant, queue=queue, codec=codec)
