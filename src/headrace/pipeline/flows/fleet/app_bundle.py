"""Packs an app for Spark's executors: by name if they can import it, else pickled with everything it uses."""

import importlib
import io
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from msgspec import Struct
from pyspark.cloudpickle.cloudpickle import Pickler

from headrace.app.app import App
from headrace.app.decorators import FailHandler
from headrace.app.discovery import load_app
from headrace.app.job_function import JobFunction
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.validate import cut
from headrace.pipeline.source.store_access import this_host
from headrace.worker.handlers import Handler, handler_of

MAIN_MODULES = ("__main__", "__mp_main__")
"""Modules with another content in another process."""
_APP = "headrace-app"
"""The persistent id of the app, which is another object on the executor."""


class AppBundle(Struct, frozen=True):
    """An app for the executors."""

    name: str | None
    """As in `shop.jobs:app`; None for an app by value."""
    modules: tuple[str, ...]
    """Modules of its functions, imported as well: the app's own module need not import them."""
    path: tuple[str, ...]
    """The driver's module search path, for executors on the same host."""
    value: bytes = b""

    def load(self, url: str, packed_on: str) -> App:
        """The app, with its jobs at `url`; raises `BadConfig` where its modules cannot be imported."""
        if packed_on == this_host():
            # After the executor's own path: packages that were installed for it or shipped to it come first.
            missing = [each for each in self.path if each not in sys.path]
            sys.path += missing
            # For handlers in separate processes.
            current = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = os.pathsep.join((*([current] if current else []), *missing))
        importlib.invalidate_caches()
        if self.name is not None:
            try:
                app = load_app(self.name)
            except BadConfig as refused:
                raise _not_importable(self.name, str(refused)) from refused
            app.use_url(url)
            self._import_modules()
            return app
        self._import_modules()
        try:
            return unpickle_app(self.value, url)
        except ModuleNotFoundError as error:
            raise _not_importable(f"module {error.name!r}", "functions of the app use it") from error

    def _import_modules(self) -> None:
        for module in self.modules:
            try:
                importlib.import_module(module)
            except Exception as error:
                raise _not_importable(module, _one_line(error)) from error


def pack(app: App | str) -> tuple[App, AppBundle]:
    """The app, and its bundle; raises `BadConfig` for an app that does not exist or cannot be sent."""
    path = tuple(dict.fromkeys(str(Path(each).absolute()) for each in ("", *sys.path)))
    if isinstance(app, str):
        loaded = load_app(app)
        return loaded, AppBundle(app, _modules(loaded), path)
    name = _name_of(app)
    if name is not None and _is_importable(app):
        return app, AppBundle(name, _modules(app), path)
    modules = {job.handler.function.__module__ for job in _jobs(app) if _is_importable_job(job)}
    return app, AppBundle(None, tuple(sorted(modules)), path, pickle_app(app))


def pickle_app(app: App) -> bytes:
    """An app by value; raises `BadConfig` if something that its functions use cannot be pickled."""
    maker = app.maker
    jobs = [app.registry.find(kind) for kind in app.registry.kinds]
    fails = [_PickledFail(each.queue, each.has_own_shards, _pickled(each.handler)) for each in app.registry.fails]
    try:
        settings = _dump(app, (maker.tenant, maker.default_queue, maker.codec))
        return _dump(app, (settings, _dump(app, (jobs, fails, app.middleware_stack))))
    except BadConfig:
        raise
    except Exception as error:
        raise BadConfig(
            "an app outside a module is pickled for Spark's executors, and something that its functions use cannot be"
            f" pickled ({cut(_one_line(error), 300)}); put the app into a module and name it, as in"
            " shop.jobs:app"
        ) from error


def unpickle_app(value: bytes, url: str) -> App:
    """The app of `pickle_app`, with its jobs at `url`."""
    settings, functions = pickle.loads(value)  # noqa: S301  (made by the driver)
    tenant, queue, codec = pickle.loads(settings)  # noqa: S301
    app = App(url, tenant=tenant, queue=queue, codec=codec)
    jobs, fails, middleware = _AppUnpickler(io.BytesIO(functions), app).load()
    _register(app, jobs, fails, middleware)
    return app


def _register(
    app: App, jobs: Sequence[JobFunction[..., Any]], fails: "Sequence[_PickledFail]", middleware: Sequence[Any]
) -> None:
    for job in jobs:
        if job.app is not app and app.url is not None:
            job.app.use_url(app.url)  # the app of a module: its jobs must be enqueued in the same store
        app.registry.add(job)
    for fail in fails:
        app.registry.add_fail(FailHandler(fail.queue, fail.has_own_shards, fail.handler.restore()))
    for each in middleware:
        app.middleware(each)


class _AppPickler(Pickler):
    """Pickles functions that executors cannot import by value, and the app's jobs so that they can be called."""

    def __init__(self, file: io.BytesIO, app: App) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._app = app

    def persistent_id(self, obj: object) -> str | None:
        return _APP if obj is self._app else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, JobFunction) and obj.app is self._app and not _is_importable_job(obj):
            # An empty object first: a function may name itself, and its job, among its globals.
            return _empty_job, (type(obj),), _job_state(obj), None, None, _set_job_state
        reduced: Any = super().reducer_override(obj)  # type: ignore[no-untyped-call]
        if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) > 2:
            # msgspec's cache of a class cannot be pickled; msgspec makes it anew.
            [attributes, *_] = reduced[2]
            attributes.pop("__msgspec_cache__", None)
        return reduced


class _AppUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, app: App) -> None:
        super().__init__(file)
        self._app = app

    def persistent_load(self, pid: Any) -> App:  # noqa: ARG002 - there is one
        return self._app


class _PickledHandler(Struct, frozen=True):
    """The arguments of `handler_of`."""

    kind: str
    function: Callable[..., Any]
    hints: dict[str, Any]
    weight: int
    codec: Any
    style: Any

    def restore(self) -> Handler:
        # Type hints were resolved on the driver, where their names are known.
        self.function.__annotations__ = self.hints
        return handler_of(self.kind, self.function, weight=self.weight, codec=self.codec, style=self.style)


class _PickledFail(Struct, frozen=True):
    """A fail handler by value."""

    queue: Any
    has_own_shards: bool
    handler: _PickledHandler


def _pickled(handler: Handler) -> _PickledHandler:
    if handler.mode == "process":
        raise BadConfig(
            f"the handler of {handler.kind!r} must run in a separate process, which cannot find it in"
            f" {handler.function.__module__}; put it into a module that Spark's executors can import"
        )
    function = handler.function
    hints = get_type_hints(function, include_extras=True)
    return _PickledHandler(handler.kind, function, hints, handler.weight, handler.codec, handler.arguments.style)


def _job_state(job: JobFunction[..., Any]) -> tuple[Any, ...]:
    return job.app, _pickled(job.handler), job.job_options


def _empty_job(cls: type[JobFunction[..., Any]]) -> JobFunction[..., Any]:
    return cls.__new__(cls)


def _set_job_state(job: JobFunction[..., Any], state: tuple[Any, ...]) -> None:
    app, handler, options = state
    JobFunction.__init__(job, app, handler.restore(), options)


def _dump(app: App, value: object) -> bytes:
    file = io.BytesIO()
    _AppPickler(file, app).dump(value)  # type: ignore[no-untyped-call]
    return file.getvalue()


def _is_importable_job(job: JobFunction[..., Any]) -> bool:
    """Whether a job is found by its name, in a module that can be imported."""
    function = job.handler.function
    if function.__module__ in MAIN_MODULES:
        return False
    value: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is job


def _jobs(app: App) -> list[JobFunction[..., Any]]:
    return [job for kind in app.registry.kinds if (job := app.registry.find(kind)) is not None]


def _functions(app: App) -> list[Callable[..., Any]]:
    jobs = [job.handler.function for job in _jobs(app)]
    fails = [fail.handler.function for fail in app.registry.fails]
    return [*jobs, *fails, *app.middleware_stack]


def _modules(app: App) -> tuple[str, ...]:
    modules = (getattr(function, "__module__", None) for function in _functions(app))
    return tuple(sorted({module for module in modules if module and module not in MAIN_MODULES}))


def _is_importable(app: App) -> bool:
    for function in _functions(app):
        qualname = getattr(function, "__qualname__", "<")
        if "<" in qualname or getattr(function, "__module__", None) in (None, *MAIN_MODULES):
            return False
    return True


def _name_of(app: App) -> str | None:
    """The name of an app that an importable module holds, preferably one that also holds its functions."""
    names = [
        (module_name, name)
        for module_name, module in list(sys.modules.items())
        if module_name not in MAIN_MODULES and module is not None
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is app
    ]
    own_modules = _modules(app)
    # Other modules may only have imported it, and may be missing on the executors.
    names.sort(key=lambda each: each[0] not in own_modules)
    return ":".join(names[0]) if names else None


def _one_line(error: Exception) -> str:
    return redact(" ".join(f"{type(error).__name__}: {error}".split()))


def _not_importable(what: str, why: str) -> BadConfig:
    return BadConfig(
        f"Spark's executors cannot import {what} ({cut(why, 300)}); install it there, or ship its files with"
        " --conf spark.submit.pyFiles=…, spark-submit --py-files or spark.addArtifacts"
    )
