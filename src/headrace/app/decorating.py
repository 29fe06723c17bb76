"""The decorators of an app: they check a function and take it into the registry."""

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from headrace.app.fields import OF_ONE_JOB, FailFields, JobFields
from headrace.app.function import AsyncJobFunction, JobFunction, PlainJobFunction, check_function
from headrace.app.registry import FailHandler, place
from headrace.app.sender import P, R
from headrace.client.options import Options
from headrace.model.errors import BadConfig, Refused
from headrace.worker.handlers import FAIL_KIND, handler_of

if TYPE_CHECKING:
    from headrace.app.app import App

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
