"""The program of a worker process: it finds the app, runs a worker, and answers its supervisor."""

import asyncio
import importlib
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from headrace.app.app import App
from headrace.app.program import seldom_collecting
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.validate import bounded_repr
from headrace.worker.counts import WorkerCounts
from headrace.worker.logs import JobLog, default_format, is_logging_set_up, setup_logs
from headrace.worker.pools import main_module
from headrace.worker.supervisor.child import SupervisorLink
from headrace.worker.supervisor.messages import WorkerSpec, failed_of

if TYPE_CHECKING:
    from headrace.worker.events import Listener


def main(fd: int) -> None:
    """Run a worker until the supervisor says stop."""
    link = SupervisorLink(fd)
    orders = link.orders()
    if orders is None:
        return
    sys.path[:] = map(os.fsdecode, orders.setup.path)
    sys.argv[:] = map(os.fsdecode, orders.setup.argv)
    try:
        with ExitStack() as stack:
            app = _app(orders)
            listeners = _logs(orders, stack)
            asyncio.run(_work(app, orders, link, listeners))
    except HeadraceError as error:
        link.send(failed_of(error))
        sys.exit(1)


def app_of_program(orders: WorkerSpec) -> App:
    """The app of a program; the words are the name of its module, and its name there."""
    module, name = orders.source.words
    if module == "__main__":
        path = orders.setup.main_path
        main_module.bring(orders.setup.main_name, None if path is None else os.fsdecode(path))
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, App):
        raise BadConfig(f"a worker process finds no app {name!r} in {module}; make it at the top of the module")
    return found


def _app(orders: WorkerSpec) -> App:
    module, _, function = orders.source.builder.partition(":")
    app: App = getattr(importlib.import_module(module), function)(orders)
    if missing := [kind for kind in orders.kinds if kind not in app.registry.kinds]:
        raise BadConfig(
            f"a worker process does not find the jobs {bounded_repr(missing)} in the app; put @app.job above functions"
            " at the top of a module that is imported with the app"
        )
    return app.at(orders.url)


def _logs(orders: WorkerSpec, stack: ExitStack) -> "list[Listener]":
    """Log as the supervisor does; as the program does where it has set that up where it is imported."""
    chosen = orders.setup.logs
    if chosen is not None:
        stream = getattr(sys, chosen.stream)
        stack.enter_context(setup_logs(chosen.format, stream, level=chosen.level, process=orders.number))
    elif not is_logging_set_up():
        stack.enter_context(setup_logs(default_format(sys.stderr), process=orders.number))
    return [JobLog(payloads=orders.payloads)] if orders.jobs else []


async def _work(app: App, orders: WorkerSpec, link: SupervisorLink, listeners: "list[Listener]") -> None:
    counts = WorkerCounts()
    config = msgspec.structs.asdict(orders.config())
    async with app.built(
        listeners=[*listeners, counts] if orders.counts else listeners, wait=orders.wait, **config
    ) as worker:
        link.serve(worker, counts)
        try:
            with seldom_collecting():
                await worker.run(thorough=orders.is_thorough, signals=True)
        finally:
            link.report(worker, counts)
