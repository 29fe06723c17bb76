"""The main program of a worker process: finds the app, runs a worker, and reports to the supervisor."""

import asyncio
import importlib
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from headrace.app.app import App
from headrace.app.program import rare_collection
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.validate import bounded_repr
from headrace.worker.health import WorkerCounts
from headrace.worker.job_log import JobLog
from headrace.worker.logging import default_format, is_logging_set_up, setup_logs
from headrace.worker.pools import main_module
from headrace.worker.supervisor.messages import SupervisorLink, WorkerSpec, failure_of

if TYPE_CHECKING:
    from headrace.worker.events import Listener


def main(fd: int) -> None:
    """Run a worker until the supervisor stops it."""
    link = SupervisorLink(fd)
    spec = link.receive_spec()
    if spec is None:
        return
    sys.path[:] = map(os.fsdecode, spec.setup.path)
    sys.argv[:] = map(os.fsdecode, spec.setup.argv)
    try:
        with ExitStack() as stack:
            app = _build_app(spec)
            listeners = _set_up_logging(spec, stack)
            asyncio.run(_work(app, spec, link, listeners))
    except HeadraceError as error:
        link.send(failure_of(error))
        sys.exit(1)


def load_program_app(spec: WorkerSpec) -> App:
    """The app of a program; the arguments of its source are the module and the name there."""
    module, name = spec.source.arguments
    if module == "__main__":
        path = spec.setup.main_path
        main_module.load(spec.setup.main_name, None if path is None else os.fsdecode(path))
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, App):
        raise BadConfig(f"a worker process finds no app {name!r} in {module}; make it at the top of the module")
    return found


def _build_app(spec: WorkerSpec) -> App:
    module, _, function = spec.source.builder.partition(":")
    app: App = getattr(importlib.import_module(module), function)(spec)
    if missing := [kind for kind in spec.kinds if kind not in app.registry.kinds]:
        raise BadConfig(
            f"a worker process does not find the jobs {bounded_repr(missing)} in the app; put @app.job above functions"
            " at the top of a module that is imported with the app"
        )
    app.use_url(spec.url)
    return app


def _set_up_logging(spec: WorkerSpec, stack: ExitStack) -> "list[Listener]":
    """Log like the supervisor, or like the program if its import sets up logging."""
    chosen = spec.setup.logs
    if chosen is not None:
        stream = getattr(sys, chosen.stream)
        stack.enter_context(setup_logs(chosen.format, stream, level=chosen.level, process=spec.number))
    elif not is_logging_set_up():
        stack.enter_context(setup_logs(default_format(sys.stderr), process=spec.number))
    return [JobLog(payloads=spec.payloads)] if spec.jobs else []


async def _work(app: App, spec: WorkerSpec, link: SupervisorLink, listeners: "list[Listener]") -> None:
    counts = WorkerCounts()
    config = msgspec.structs.asdict(spec.config())
    async with app.build_worker(
        listeners=[*listeners, counts] if spec.counts else listeners, wait=spec.wait, **config
    ) as worker:
        link.serve(worker, counts)
        try:
            with rare_collection():
                await worker.run(thorough=spec.is_thorough, signals=True)
        finally:
            link.send_report(worker, counts)
