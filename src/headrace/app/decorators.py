"""The decorators of an app: they check a function and take it into the registry."""

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast, overload

from msgspec import Struct, field

from headrace.app.job_function import AsyncJobFunction, JobFunction, P, PlainJobFunction, R, check_function
from headrace.app.registry import FailHandler, place
from headrace.client.arguments import Style
from headrace.client.codec import Codec
from headrace.client.options import OptionFields, Options
from headrace.model.errors import BadConfig, Refused
from headrace.model.names import Queue
from headrace.model.times import Duration
from headrace.worker.config import Wishes
from headrace.worker.handlers import FAIL_KIND, handler_of

if TYPE_CHECKING:
    from headrace.app.app import App


class JobFields(OptionFields, total=False):
    """The options that all jobs of a function have, unless `options` says otherwise; and how the function is run."""

    kind: str | None
    """What its jobs are called in the store; the function's name when not given."""
    process: bool
    """Whether it runs in a process of its own, which can be killed when its time is over."""
    weight: int
    """Units of a worker's capacity that it takes."""
    codec: Codec | None
    style: Style
    """`named` (the payload is an object of arguments by name), `whole` (it is the one argument) or `listed`."""


class FailFields(TypedDict, total=False):
    """Whose deaths a fail handler is told of, and how it is run."""

    queue: str | Queue | None
    tenant: str | None
    shards: int | None
    process: bool
    weight: int


class DeathInfo(Struct, frozen=True, kw_only=True):
    """Why a job died: annotate the third argument of a fail handler with it.

    `reason` is `attempts`, `stalls`, `failed` or `expired`; `cls` and `message` are those of the last error.
    """

    cls: str = field(name="class")
    message: str
    reason: str


class WorkerFields(TypedDict, total=False):
    """The fields of `WorkerConfig`."""

    queues: Wishes | None
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


OF_ONE_JOB = ("run_at", "expires_at", "idempotency_key")
"""Options that make no sense for all jobs of a function."""


def with_tenant(config: WorkerFields, tenant: str) -> WorkerFields:
    """The settings of an app's worker: queues that were named without a tenant are those of the app's."""
    if config.get("queues") is None or config.get("tenant") is not None:
        return config
    return {**config, "tenant": tenant}


F = TypeVar("F", bound=Callable[..., Any])
HOW = ("kind", "process", "weight", "codec", "style")


class JobDecorator:
    """`@app.job(…)`: makes a job of the function below it."""

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
        """The job that the function is from now on."""
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
            app.maker.job_of(kind, b"", options)  # what no job of this function could have is refused now
        except (Refused, TypeError) as error:
            raise BadConfig(f"{place(function)} cannot be a job: {error}") from error
        cls = AsyncJobFunction if inspect.iscoroutinefunction(function) else PlainJobFunction
        job: JobFunction[..., Any] = cls(app, handler, options)
        app.registry.add(job)
        return job

    def _options(self) -> Options:
        given = {name: value for name, value in self._fields.items() if name not in HOW and value is not None}
        for name in OF_ONE_JOB:
            if name in given:
                raise TypeError(f"{name} is for one job and not for all of a function; give it with .options({name}=…)")
        return Options(**cast("Any", given))


class FailDecorator:
    """`@app.fail_handler(…)`: has the function below it told of deaths, and leaves it as it is."""

    def __init__(self, app: "App", fields: FailFields) -> None:
        self._app = app
        self._fields = fields

    def __call__(self, function: F, /) -> F:
        """The function itself."""
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
            raise BadConfig(f"{place(function)} cannot be a fail handler: {error}") from error
        is_cut = shards is not None or queue.shards > 1
        self._app.registry.add_fail(FailHandler(queue, is_cut, handler))
        return function
