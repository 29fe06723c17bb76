"""An app by value: its functions with all that they use, for one of a notebook or of the program itself."""

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

from msgspec import Struct
from pyspark.cloudpickle.cloudpickle import Pickler

from headrace.app.app import App
from headrace.app.job_function import JobFunction
from headrace.app.registry import FailHandler
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.validate import cut
from headrace.worker.handlers import Handler, handler_of

APP = "headrace-app"
"""Stands for the app itself: at the other end it is another object."""
PROGRAM = ("__main__", "__mp_main__")
"""Modules that mean another program in another process."""


class _AppPickler(Pickler):
    """Pickles functions by value where nobody could import them, and the jobs of the app so that they can be called."""

    def __init__(self, file: io.BytesIO, app: App) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._app = app

    def persistent_id(self, obj: object) -> str | None:
        return APP if obj is self._app else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, JobFunction) and obj.app is self._app and not is_found(obj):
            # A shell first: a function may name itself, and its job, among its globals.
            return _shell, (type(obj),), _parts(obj), None, None, _fill
        reduced: Any = super().reducer_override(obj)  # type: ignore[no-untyped-call]
        if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) > 2:
            # What msgspec has learned of a class cannot travel, and is learned again.
            [attributes, *_] = reduced[2]
            attributes.pop("__msgspec_cache__", None)
        return reduced


class _AppUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, app: App) -> None:
        super().__init__(file)
        self._app = app

    def persistent_load(self, pid: Any) -> App:  # noqa: ARG002 - there is one
        return self._app


class _Fail(Struct, frozen=True):
    """A fail handler on its way."""

    queue: Any
    is_cut: bool
    parts: "_Handler"


class _Handler(Struct, frozen=True):
    """A handler on its way: what `handler_of` makes one of."""

    kind: str
    function: Callable[..., Any]
    hints: dict[str, Any]
    weight: int
    codec: Any
    style: Any

    def made(self) -> Handler:
        # Resolved where the names that annotations use are known.
        self.function.__annotations__ = self.hints
        return handler_of(self.kind, self.function, weight=self.weight, codec=self.codec, style=self.style)


def _carried(handler: Handler) -> _Handler:
    if handler.mode == "process":
        raise BadConfig(
            f"the handler of {handler.kind!r} is to run in a process of its own, which cannot find it in"
            f" {handler.function.__module__}; put it into a module that Spark's executors can import"
        )
    function = handler.function
    hints = get_type_hints(function, include_extras=True)
    return _Handler(handler.kind, function, hints, handler.weight, handler.codec, handler.arguments.style)


def is_found(job: JobFunction[..., Any]) -> bool:
    """Whether a job is found by its name, in a module that can be imported."""
    function = job.handler.function
    if function.__module__ in PROGRAM:
        return False
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is job


def _parts(job: JobFunction[..., Any]) -> tuple[Any, ...]:
    return job.app, _carried(job.handler), job.job_options


def _shell(cls: type[JobFunction[..., Any]]) -> JobFunction[..., Any]:
    return cls.__new__(cls)


def _fill(job: JobFunction[..., Any], parts: tuple[Any, ...]) -> None:
    app, carried, options = parts
    JobFunction.__init__(job, app, carried.made(), options)


def packed(app: App) -> bytes:
    """An app with all its functions; raises `BadConfig` for what cannot travel."""
    maker = app.maker
    jobs = [app.registry.find(kind) for kind in app.registry.kinds]
    fails = [_Fail(each.queue, each.has_own_shards, _carried(each.handler)) for each in app.registry.fails]
    try:
        settings = _pickled(app, (maker.tenant, maker.default_queue, maker.codec))
        return _pickled(app, (settings, _pickled(app, (jobs, fails, app.middleware_stack))))
    except BadConfig:
        raise
    except Exception as error:
        told = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        raise BadConfig(
            "an app that no module holds travels to Spark's executors by value, and something that its functions use"
            f" cannot travel ({cut(told, 300)}); put the app into a module and name it, as in shop.jobs:app"
        ) from error


def _pickled(app: App, value: object) -> bytes:
    file = io.BytesIO()
    _AppPickler(file, app).dump(value)  # type: ignore[no-untyped-call]
    return file.getvalue()


def unpacked(value: bytes, url: str) -> App:
    """The app that arrived, with its jobs at `url`."""
    settings, functions = pickle.loads(value)  # noqa: S301  (made by the driver)
    tenant, queue, codec = pickle.loads(settings)  # noqa: S301
    app = App(url, tenant=tenant, queue=queue, codec=codec)
    jobs, fails, middleware = _AppUnpickler(io.BytesIO(functions), app).load()
    _register(app, jobs, fails, middleware)
    return app


def _register(
    app: App, jobs: Sequence[JobFunction[..., Any]], fails: Sequence[_Fail], middleware: Sequence[Any]
) -> None:
    for job in jobs:
        if job.app is not app and app.url is not None:
            job.app.use_url(app.url)  # of a module, which made its own app: what it sends goes the same way
        app.registry.add(job)
    for fail in fails:
        app.registry.add_fail(FailHandler(fail.queue, fail.is_cut, fail.parts.made()))
    for each in middleware:
        app.middleware(each)
