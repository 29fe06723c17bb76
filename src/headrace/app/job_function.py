"""A function that is also a job: calling it calls it, enqueueing it lets a worker call it."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast

from headrace.app.pickling import PickledFunction, pickled_function
from headrace.client.blocking import BlockingHandle
from headrace.client.handle import Handle
from headrace.client.options import JobMaker, OptionFields, Options
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr
from headrace.worker.handlers import Handler

if TYPE_CHECKING:
    from headrace.app.app import App

P = ParamSpec("P")
R = TypeVar("R")
Item = Job | Mapping[str, Any]
"""A job that was made by `job`, or the arguments of a call by name."""


class Maker(Generic[P, R]):
    """Makes jobs of one kind; arguments that do not fit the function raise `Refused` (`bad_arguments`)."""

    def __init__(self, origin: "JobFunction[P, R]", options: Options, said: frozenset[str] = frozenset()) -> None:
        self._origin = origin
        self._options = options
        self._like: tuple[JobMaker, Job] | None = None
        self.said = said
        """The names of the options that `.options(…)` has set."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._origin, self._options, self.said)

    @property
    def function(self) -> "JobFunction[P, R]":
        """The function that does its jobs."""
        return self._origin

    @property
    def given(self) -> Options:
        """The options that its jobs have."""
        return self._options

    @property
    def queue(self) -> Queue:
        """Where its jobs are sent."""
        return self._origin.app.maker.job_of(self._origin.kind, b"", self._options).queue

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Make a job and send nothing: for `enqueue_many`, `Client.send` and `Client.enqueue_on`."""
        return self._job_of(self._origin.handler.arguments.encode(args, kwargs))

    def _job_of(self, payload: bytes) -> Job:
        """A job with this payload; all jobs of a function are alike but for payload and id, and are made after one."""
        maker, options = self._origin.app.maker, self._options
        if self._like is None or self._like[0] is not maker:
            if options.id is not None or options.idempotency_key is not None or options.headers is not None:
                return maker.job_of(self._origin.handler.kind, payload, options)
            self._like = maker, maker.job_of(self._origin.handler.kind, b"null", options)
        return maker.job_like(self._like[1], payload)

    def _made(self, item: Item) -> Job:
        handler = self._origin.handler
        if type(item) is dict or isinstance(item, Mapping):
            return self._job_of(handler.arguments.encode((), item))
        if getattr(item, "kind", None) != handler.kind:
            raise Refused(
                "bad_arguments",
                f"a job of kind {handler.kind!r} or its arguments by name were wanted; found {bounded_repr(item)}; jobs"
                " of several kinds are sent with the client's enqueue_many",
            )
        return item


class Sender(Maker[P, R]):
    """Makes and sends jobs of one kind, typed like the function that does them."""

    @property
    def blocking(self) -> "BlockingSender[P, R]":
        """The same without an event loop: `welcome.blocking.enqueue(user_id=42)`, from any thread."""
        return BlockingSender(self._origin, self._options, self.said)

    def options(self, **options: Unpack[OptionFields]) -> "Sender[P, R]":
        """The same with other options: `welcome.options(delay="5m", id="u-42").enqueue(user_id=42)`; see `Options`."""
        return Sender(self._origin, Options(**options).over(self._options), self.said.union(options))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Send a job; returns when the store has it. `await handle.result()` waits for what the function returns."""
        job = self.job(*args, **kwargs)
        client = await self._origin.app.client()
        handler = self._origin.handler
        sent: Handle[R] = await client.send(job, type=handler.arguments.result_type, codec=handler.codec)
        return sent

    async def enqueue_many(
        self, items: Iterable[Item], *, progress: Callable[[int], None] | None = None
    ) -> list[Handle[R]]:
        """Send any number of jobs in as few calls as possible; all of them are made before the first is sent.

        Nothing is raised for a job that the store refuses: look at `ok` and `status` of its handle; see
        `Client.enqueue_many`.
        """
        jobs = [self._made(item) for item in items]
        client = await self._origin.app.client()
        handler = self._origin.handler
        type, codec = handler.arguments.result_type, handler.codec
        return await client.enqueue_many(jobs, progress=progress, type=type, codec=codec)

    async def handle(self, id: str) -> Handle[R]:
        """A handle of a job that was sent before, by this program or another; looks at nothing."""
        client = await self._origin.app.client()
        handler = self._origin.handler
        return client.handle(self.queue, id, type=handler.arguments.result_type, codec=handler.codec)


class BlockingSender(Maker[P, R]):
    """A `Sender` for threads: every method waits for its answer. May be shared by threads, forked and pickled."""

    def options(self, **options: Unpack[OptionFields]) -> Self:
        """The same with other options; see `Options`."""
        return type(self)(self._origin, Options(**options).over(self._options), self.said.union(options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> BlockingHandle[R]:
        """Send a job; returns when the store has it. `handle.result()` waits for what the function returns."""
        handler = self._origin.handler
        job = self.job(*args, **kwargs)
        return self._origin.app.blocking.send(job, type=handler.arguments.result_type, codec=handler.codec)

    def enqueue_many(
        self, items: Iterable[Item], *, progress: Callable[[int], None] | None = None
    ) -> list[BlockingHandle[R]]:
        """Send any number of jobs in as few calls as possible; see `Sender.enqueue_many`."""
        jobs = [self._made(item) for item in items]
        client = self._origin.app.blocking
        handler = self._origin.handler
        type, codec = handler.arguments.result_type, handler.codec
        return [
            BlockingHandle(client, each.queue, each.id, each.status, type, codec, each.error)
            for each in client.enqueue_many(jobs, progress=progress)
        ]

    def handle(self, id: str) -> BlockingHandle[R]:
        """A handle of a job that was sent before, by this program or another; looks at nothing."""
        handler = self._origin.handler
        return self._origin.app.blocking.handle(self.queue, id, type=handler.arguments.result_type, codec=handler.codec)


class JobFunction(Sender[P, R]):
    """What `@app.job` makes of a function. It can be sent from here, called as before, and carried to other processes,
    where it is found by its name; where there is no such name, it can be sent and not called."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, app: "App", handler: Handler, options: Options) -> None:
        super().__init__(self, options)
        self.app = app
        self.handler = handler
        functools.update_wrapper(cast("Any", self), handler.function)

    @property
    def kind(self) -> str:
        """What its jobs are called in the store."""
        return self.handler.kind

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_function, (type(self), self.app, pickled_function(self.handler, self._options))

    def __repr__(self) -> str:
        return f"<job {self.kind!r} on queue {self.queue.name!r}>"


class AsyncJobFunction(JobFunction[P, R]):
    """A job function whose calls are awaited."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function, here and now."""
        answer: Coroutine[Any, Any, R] = self.__wrapped__(*args, **kwargs)
        return answer


class PlainJobFunction(JobFunction[P, R]):
    """A job function whose calls return at once what it returns; a worker runs it in a thread or process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        answer: R = self.__wrapped__(*args, **kwargs)
        return answer


def restored_function(cls: type[JobFunction[..., Any]], app: "App", was: PickledFunction) -> JobFunction[..., Any]:
    """A job function that arrived from another process: the one of that name, else one that can only be sent."""
    found = was.find()
    if isinstance(found, JobFunction) and found.kind == was.kind:
        return found
    return cls(app, was.handler(), was.options)


def check_function(function: Any, use: str) -> None:
    """Raise `BadConfig` for what cannot be a handler: workers find it by its name, and call it once for each job."""
    name = getattr(function, "__qualname__", None)
    if isinstance(function, JobFunction):
        wrong = f"{name} is a job already"
    elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif not callable(function) or inspect.isclass(function) or name is None:
        wrong = f"{bounded_repr(function)} is no function"
    elif name.endswith("<lambda>"):
        wrong = "a lambda has no name"
    elif "." in name and not name.rpartition(".")[0].endswith("<locals>"):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        wrong = f"{name} yields, and a job returns once"
    else:
        return
    raise BadConfig(f"{use} takes a function, plain or async; {wrong}; define one with def at the top of a module")
