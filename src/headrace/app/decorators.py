"""The decorators of an app, `@app.job` and `@app.fail_handler`, and the registry of the functions they check."""

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast, overload

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.app.job_function import AsyncJobFunction, JobFunction, P, PlainJobFunction, R, check_function
from headrace.client.arguments import Style
from headrace.client.codec import Codec
from headrace.client.options import OptionFields, Options
from headrace.model.errors import BadConfig, Refused
from headrace.model.names import FAIL_KIND, Queue
from headrace.model.times import Duration
from headrace.worker.config import QueueSelection
from headrace.worker.handlers import Handler, Handlers, handler_of

if TYPE_CHECKING:
    from headrace.app.app import App


class JobFields(OptionFields, total=False):
    """The default options of a function's jobs, and how the function is run."""

    kind: str | None
    """The kind of its jobs; the function's name by default."""
    process: bool
    """Whether it runs in its own process, which can be killed at the time-out."""
    weight: int
    """Units of a worker's capacity that a job takes."""
    codec: Codec | None
    style: Style
    """`named` (the payload is an object of arguments by name), `whole` (it is the one argument) or `listed`."""


class FailFields(TypedDict, total=False):
    """The queue whose dead letters a fail handler gets, and how it is run."""

    queue: str | Queue | None
    tenant: str | None
    shards: int | None
    process: bool
    weight: int


class DeathInfo(Struct, frozen=True, kw_only=True):
    """The cause of a job's death, third argument of a fail handler.

    `reason` is `attempts`, `stalls`, `failed` or `expired`; `cls` and `message` describe the last error.
    """

    cls: str = field(name="class")
    message: str
    reason: str


class WorkerFields(TypedDict, total=False):
    """The fields of `WorkerConfig`."""

    queues: QueueSelection | None
    tenant: str | None
    name: str | None
    capacity: int
    threads: int
    pool_size: int | None
    lease: Duration
    heartbeat: Duration | None
    grace: Duration
    poll: Duration
    repair: Duration
    jobs_per_pool_process: int | None


SINGLE_JOB_OPTIONS = ("run_at", "expires_at", "idempotency_key")
"""Options that make no sense for all jobs of a function."""


def with_tenant(config: WorkerFields, tenant: str) -> WorkerFields:
    """The settings of an app's worker: queues named without a tenant belong to the app's tenant."""
    if config.get("queues") is None or config.get("tenant") is not None:
        return config
    return {**config, "tenant": tenant}


F = TypeVar("F", bound=Callable[..., Any])
HANDLER_FIELDS = ("kind", "process", "weight", "codec", "style")


class JobDecorator:
    """`@app.job(…)`: turns a function into a job."""

    def __init__(self, app: "App", fields: JobFields) -> None:
        self._app = app
        self._fields = fields

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine function is a function that returns a coroutine
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainJobFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> JobFunction[..., Any]:
        """Register the function and return it as a job."""
        check_function(function, "@app.job")
        app, fields = self._app, self._fields
        kind = fields.get("kind") or function.__name__
        try:
            handler = handler_of(
                kind,
                function,
                process=fields.get("process", False),
                weight=fields.get("weight", 1),
                codec=fields.get("codec") or app.maker.codec,
                style=fields.get("style", "named"),
            )
            options = self._options()
            app.maker.job_of(kind, b"", options)  # refuses options that no job of this function could have
        except (Refused, TypeError) as error:
            raise BadConfig(f"{describe(function)} cannot be a job: {error}") from error
        cls = AsyncJobFunction if inspect.iscoroutinefunction(function) else PlainJobFunction
        job: JobFunction[..., Any] = cls(app, handler, options)
        app.registry.add(job)
        return job

    def _options(self) -> Options:
        options = {
            name: value for name, value in self._fields.items() if name not in HANDLER_FIELDS and value is not None
        }
        for name in SINGLE_JOB_OPTIONS:
            if name in options:
                raise TypeError(f"{name} is for one job and not for all of a function; give it with .options({name}=…)")
        return Options(**cast("Any", options))


class FailDecorator:
    """`@app.fail_handler(…)`: calls a function for each dead letter, and returns the function unchanged."""

    def __init__(self, app: "App", fields: FailFields) -> None:
        self._app = app
        self._fields = fields

    def __call__(self, function: F, /) -> F:
        """Register the function and return it unchanged."""
        check_function(function, "@app.fail_handler")
        fields = self._fields
        shards = fields.get("shards")
        try:
            handler = handler_of(
                FAIL_KIND,
                function,
                process=fields.get("process", False),
                weight=fields.get("weight", 1),
                style="listed",
            )
            options = Options(queue=fields.get("queue"), tenant=fields.get("tenant"), shards=shards)
            queue = self._app.maker.job_of(FAIL_KIND, b"", options).queue
        except Refused as error:
            raise BadConfig(f"{describe(function)} cannot be a fail handler: {error}") from error
        has_own_shards = shards is not None or queue.shards > 1
        self._app.registry.add_fail(FailHandler(queue, has_own_shards, handler))
        return function


class FailHandler(Struct, frozen=True):
    """A function called for each dead letter of a queue."""

    queue: Queue
    has_own_shards: bool
    """Whether the decorator sets the number of shards; else it is that of the queue's job functions."""
    handler: Handler


class Registry:
    """The functions of an app. Registering a function again, as when a notebook cell runs twice, replaces it."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobFunction[..., Any]] = {}
        self._fails: dict[tuple[str, str], FailHandler] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def kinds(self) -> list[str]:
        """The kinds of all jobs, in order of definition."""
        return list(self._jobs)

    @property
    def fails(self) -> list[FailHandler]:
        """The fail handlers."""
        return list(self._fails.values())

    def find(self, kind: str) -> JobFunction[..., Any] | None:
        """The job function of a kind."""
        return self._jobs.get(kind)

    def add(self, job: JobFunction[..., Any]) -> None:
        """Register a job function; raises `BadConfig` if another function has its kind."""
        known = self._jobs.get(job.kind)
        if known is not None and not _is_same(known.handler, job.handler):
            raise BadConfig(
                f"two functions have the kind {job.kind!r}: {describe(known.__wrapped__)} and"
                f" {describe(job.__wrapped__)}; give one of them another kind"
            )
        self._jobs[job.kind] = job

    def add_fail(self, fail: FailHandler) -> None:
        """Register a fail handler; raises `BadConfig` if its queue has another."""
        name = fail.queue.tenant, fail.queue.name
        known = self._fails.get(name)
        if known is not None and not _is_same(known.handler, fail.handler):
            raise BadConfig(
                f"two functions handle the dead letters of queue {fail.queue.name!r}:"
                f" {describe(known.handler.function)} and {describe(fail.handler.function)};"
                " a queue has one fail handler"
            )
        self._fails[name] = fail

    def handlers(self, changed: Callable[[Handler], Handler] = lambda handler: handler) -> Handlers:
        """The handlers for a worker, each passed through `changed`."""
        handlers = Handlers()
        for job in self._jobs.values():
            handlers.register(changed(job.handler), job.queue)
        homes = {(queue.tenant, queue.name): queue for queue in handlers.queues}
        for name, fail in self._fails.items():
            handlers.register_fail(
                changed(fail.handler), fail.queue if fail.has_own_shards else homes.get(name, fail.queue)
            )
        return handlers


def describe(function: Callable[..., Any]) -> str:
    """A function's name, file and line."""
    name = f"{function.__module__}.{function.__qualname__}"
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def in_worker_process(handler: Handler) -> Handler:
    """The same handler, run in the worker's own process."""
    if handler.mode != "process":
        return handler
    return replace(handler, mode="async" if inspect.iscoroutinefunction(handler.function) else "thread")


def _is_same(known: Handler, new: Handler) -> bool:
    return known.target == new.target
