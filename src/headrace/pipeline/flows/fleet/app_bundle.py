"""Cargo: an app on its way to Spark's executors, by its name where they can import it, else by value."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.app.app import App
from headrace.app.discovery import load_app
from headrace.app.job_function import JobFunction
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.validate import cut
from headrace.pipeline.flows.fleet.value import PROGRAM, is_found, packed, unpacked
from headrace.pipeline.source.store_access import this_host


class Cargo(Struct, frozen=True):
    """What travels of an app."""

    name: str | None
    """As in `shop.jobs:app`; None when it travels by value."""
    modules: tuple[str, ...]
    """That hold its functions: to be imported as well, since an app need not import those who use it."""
    path: tuple[str, ...]
    """Where the driver looks for modules: good on its own machine only."""
    value: bytes = b""

    def unpack(self, url: str, packed_on: str) -> App:
        """The app, with its jobs at `url`; raises `BadConfig` where its modules cannot be imported."""
        if packed_on == this_host():
            # Behind what is there: what was installed for the executors, or shipped to them, goes first.
            more = [each for each in self.path if each not in sys.path]
            sys.path += more
            # For handlers that run in processes of their own.
            known = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = os.pathsep.join((*([known] if known else []), *more))
        importlib.invalidate_caches()
        if self.name is not None:
            try:
                app = load_app(self.name)
            except BadConfig as refused:
                raise _cannot_import(self.name, str(refused)) from refused
            app.use_url(url)
            self._import()
            return app
        self._import()
        try:
            return unpacked(self.value, url)
        except ModuleNotFoundError as error:
            raise _cannot_import(f"module {error.name!r}", "functions of the app use it") from error

    def _import(self) -> None:
        for module in self.modules:
            try:
                importlib.import_module(module)
            except Exception as error:
                told = redact(" ".join(f"{type(error).__name__}: {error}".split()))
                raise _cannot_import(module, told) from error


def _cannot_import(what: str, why: str) -> BadConfig:
    return BadConfig(
        f"Spark's executors cannot import {what} ({cut(why, 300)}); install it there, or ship its files with"
        " --conf spark.submit.pyFiles=…, spark-submit --py-files or spark.addArtifacts"
    )


def pack(app: App | str) -> tuple[App, Cargo]:
    """An app and what travels of it; raises `BadConfig` for one that is not there, or cannot travel."""
    path = tuple(dict.fromkeys(str(Path(each).absolute()) for each in ("", *sys.path)))
    if isinstance(app, str):
        named = load_app(app)
        return named, Cargo(app, _modules(named), path)
    name = _name_of(app)
    if name is not None and _is_all_importable(app):
        return app, Cargo(name, _modules(app), path)
    found = {job.handler.function.__module__ for job in _jobs(app) if is_found(job)}
    return app, Cargo(None, tuple(sorted(found)), path, packed(app))


def _jobs(app: App) -> list[JobFunction[..., Any]]:
    return [job for kind in app.registry.kinds if (job := app.registry.find(kind)) is not None]


def _functions(app: App) -> list[Callable[..., Any]]:
    jobs = [job.handler.function for job in _jobs(app)]
    fails = [fail.handler.function for fail in app.registry.fails]
    return [*jobs, *fails, *app.middleware_stack]


def _modules(app: App) -> tuple[str, ...]:
    found = (getattr(function, "__module__", None) for function in _functions(app))
    return tuple(sorted({module for module in found if module and module not in PROGRAM}))


def _is_all_importable(app: App) -> bool:
    for function in _functions(app):
        qualname = getattr(function, "__qualname__", "<")
        if "<" in qualname or getattr(function, "__module__", None) in (None, *PROGRAM):
            return False
    return True


def _name_of(app: App) -> str | None:
    """Where an importable module holds this app: one that holds its functions, too, if there is such a one."""
    found = [
        (module_name, name)
        for module_name, module in list(sys.modules.items())
        if module_name not in PROGRAM and module is not None
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is app
    ]
    homes = _modules(app)
    # Others may have imported it, and may be what the executors do not have.
    found.sort(key=lambda each: each[0] not in homes)
    return ":".join(found[0]) if found else None
