"""A function that is also a job: a call runs it here, `enqueue` sends it to a worker."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast

from headrace.app.pickling import PickledFunction, pickle_function
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
"""A job built by `job`, or the arguments of a call by name."""


class JobTemplate(Generic[P, R]):
    """A job function with options, from which jobs are built; wrong arguments raise `Refused` (`bad_arguments`)."""

    def __init__(
        self, function: "JobFunction[P, R]", options: Options, option_names: frozenset[str] = frozenset()
    ) -> None:
        self._function = function
        self._options = options
        self._sample: tuple[JobMaker, Job] | None = None
        self.option_names = option_names
        """The options set by `.options(…)`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._function, self._options, self.option_names)

    @property
    def function(self) -> "JobFunction[P, R]":
        """The function that runs the jobs."""
        return self._function

    @property
    def job_options(self) -> Options:
        """The options of its jobs."""
        return self._options

    @property
    def queue(self) -> Queue:
        """The queue that its jobs are sent to."""
        return self._function.app.maker.job_of(self._function.kind, b"", self._options).queue

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Build a job without sending it: for `enqueue_many`, `Client.send` and `Client.enqueue_on`."""
        return self._build(self._function.handler.arguments.encode(args, kwargs))

    def _build(self, payload: bytes) -> Job:
        """A job with this payload. Jobs of a function differ in payload and id only, so all copy one sample."""
        maker, options = self._function.app.maker, self._options
        if self._sample is None or self._sample[0] is not maker:
            if options.id is not None or options.idempotency_key is not None or options.headers is not None:
                return maker.job_of(self._function.handler.kind, payload, options)
            self._sample = maker, maker.job_of(self._function.handler.kind, b"null", options)
        return maker.job_like(self._sample[1], payload)

    def _build_from(self, item: Item) -> Job:
        handler = self._function.handler
        if type(item) is dict or isinstance(item, Mapping):
            return self._build(handler.arguments.encode((), item))
        if getattr(item, "kind", None) != handler.kind:
            raise Refused(
                "bad_arguments",
                f"expected a job of kind {handler.kind!r} or a mapping of its arguments; found {bounded_repr(item)};"
                " send jobs of several kinds with the client's enqueue_many",
            )
        return item


class Sender(JobTemplate[P, R]):
    """Builds and sends jobs of one kind, typed like the function that runs them."""

    @property
    def blocking(self) -> "BlockingSender[P, R]":
        """The same for code without an event loop: `welcome.blocking.enqueue(user_id=42)`, from any thread."""
        return BlockingSender(self._function, self._options, self.option_names)

    def options(self, **options: Unpack[OptionFields]) -> "Sender[P, R]":
        """The same with other options: `welcome.options(delay="5m", id="u-42").enqueue(user_id=42)`; see `Options`."""
        return Sender(self._function, Options(**options).over(self._options), self.option_names.union(options))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Send a job; returns as soon as it is stored. `await handle.result()` waits for the function's result."""
        job = self.job(*args, **kwargs)
        client = await self._function.app.client()
        handler = self._function.handler
        sent: Handle[R] = await client.send(job, type=handler.arguments.result_type, codec=handler.codec)
        return sent

    async def enqueue_many(
        self, items: Iterable[Item], *, progress: Callable[[int], None] | None = None
    ) -> list[Handle[R]]:
        """Send any number of jobs in as few calls as possible; all of them are built before the first is sent.

        A refused job raises nothing: check `ok` and `status` of its handle; see `Client.enqueue_many`.
        """
        jobs = [self._build_from(item) for item in items]
        client = await self._function.app.client()
        handler = self._function.handler
        type, codec = handler.arguments.result_type, handler.codec
        return await client.enqueue_many(jobs, progress=progress, type=type, codec=codec)

    async def handle(self, id: str) -> Handle[R]:
        """A handle of a job sent earlier, by this program or another; makes no call to the store."""
        client = await self._function.app.client()
        handler = self._function.handler
        return client.handle(self.queue, id, type=handler.arguments.result_type, codec=handler.codec)


class BlockingSender(JobTemplate[P, R]):
    """A `Sender` for threads: every method blocks until it has its result. May be shared by threads, forked and
    pickled."""

    def options(self, **options: Unpack[OptionFields]) -> Self:
        """The same with other options; see `Options`."""
        return type(self)(self._function, Options(**options).over(self._options), self.option_names.union(options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> BlockingHandle[R]:
        """Send a job; returns as soon as it is stored. `handle.result()` waits for the function's result."""
        handler = self._function.handler
        job = self.job(*args, **kwargs)
        return self._function.app.blocking.send(job, type=handler.arguments.result_type, codec=handler.codec)

    def enqueue_many(
        self, items: Iterable[Item], *, progress: Callable[[int], None] | None = None
    ) -> list[BlockingHandle[R]]:
        """Send any number of jobs in as few calls as possible; see `Sender.enqueue_many`."""
        jobs = [self._build_from(item) for item in items]
        client = self._function.app.blocking
        handler = self._function.handler
        type, codec = handler.arguments.result_type, handler.codec
        return [
            BlockingHandle(client, each.queue, each.id, each.status, type, codec, each.error)
            for each in client.enqueue_many(jobs, progress=progress)
        ]

    def handle(self, id: str) -> BlockingHandle[R]:
        """A handle of a job sent earlier, by this program or another; makes no call to the store."""
        handler = self._function.handler
        return self._function.app.blocking.handle(
            self.queue, id, type=handler.arguments.result_type, codec=handler.codec
        )


class JobFunction(Sender[P, R]):
    """The result of `@app.job`: can be sent, called as before, and pickled. Another process looks it up by name; if the
    name is missing there, it can be sent, but not called."""

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
        """The kind of its jobs in the store."""
        return self.handler.kind

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_function, (type(self), self.app, pickle_function(self.handler, self._options))

    def __repr__(self) -> str:
        return f"<job {self.kind!r} on queue {self.queue.name!r}>"


class AsyncJobFunction(JobFunction[P, R]):
    """A job function whose calls are awaited."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function in this process."""
        coroutine: Coroutine[Any, Any, R] = self.__wrapped__(*args, **kwargs)
        return coroutine


class PlainJobFunction(JobFunction[P, R]):
    """A job function of a plain function; a worker runs it in a thread or process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process."""
        result: R = self.__wrapped__(*args, **kwargs)
        return result


def restore_function(cls: type[JobFunction[..., Any]], app: "App", pickled: PickledFunction) -> JobFunction[..., Any]:
    """Unpickle a job function: the function of that name, else a function that can be sent, but not called."""
    found = pickled.find()
    if isinstance(found, JobFunction) and found.kind == pickled.kind:
        return found
    return cls(app, pickled.handler(), pickled.options)


def check_function(function: Any, use: str) -> None:
    """Raise `BadConfig` for an unfit handler: a worker finds it by its name, and calls it once for each job."""
    name = getattr(function, "__qualname__", None)
    if isinstance(function, JobFunction):
        wrong = f"{name} is a job already"
    elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif not callable(function) or inspect.isclass(function) or name is None:
        wrong = f"{bounded_repr(function)} is not a function"
    elif name.endswith("<lambda>"):
        wrong = "a lambda has no name"
    elif "." in name and not name.rpartition(".")[0].endswith("<locals>"):
        wrong = f"{name} is a method, and a worker has no object to call it on"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        wrong = f"{name} yields, and a job returns once"
    else:
        return
    raise BadConfig(f"{use} takes a function, plain or async; {wrong}; define one with def at the top of a module")
