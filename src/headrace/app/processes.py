"""Runs an app's worker in several processes: makes the supervisor, and says how others find the app."""

import os
import sys
from typing import TYPE_CHECKING

from headrace.app.decorators import with_tenant
from headrace.app.project import is_memory, url_of
from headrace.model.errors import BadConfig
from headrace.model.limits import PROCESSES_MAX
from headrace.model.validate import bounded_repr
from headrace.worker.config import WorkerConfig, settings_of
from headrace.worker.pools import main_module
from headrace.worker.pools.process import setup_of_program
from headrace.worker.supervisor.messages import AppSource, WorkerSpec, portable
from headrace.worker.supervisor.supervisor import ProcessSupervisor

MAIN = "__main__"

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields


def supervisor_of(
    app: "App",
    count: int,
    source: AppSource,
    config: "WorkerFields",
    *,
    until_idle: bool,
    wait: bool,
    jobs: bool = True,
    payloads: bool = False,
    counts: bool = False,
) -> ProcessSupervisor:
    """The supervisor of `count` processes, each with a worker of this configuration; `source` says where they find the
    app. Refuses what could not work in any of them. Call it when the log is set up, so that theirs looks the same."""
    main_module.check_is_program()
    if type(count) is not int or not 1 <= count <= PROCESSES_MAX:
        raise BadConfig(f"processes must be a whole number from 1 to {PROCESSES_MAX}; found {bounded_repr(count)}")
    url = url_of(app.url)
    if app.is_lent or is_memory(url):
        raise BadConfig(
            f"{count} worker processes need a store that all of them can open, and a store in memory is seen by one"
            " alone; name another, such as sqlite:///headrace.db, or run one process"
        )
    if config.get("pool_size") is None:
        # The cores are there once, for the pools of all.
        config = {**config, "pool_size": max((os.cpu_count() or 1) // count, 1)}
    wanted = WorkerConfig(**with_tenant(config, app.maker.tenant))
    handlers = app.handlers
    settings = settings_of(wanted, handlers.queues, handlers.fail_queues, os.urandom(3).hex())

    def order(number: int, is_again: bool) -> WorkerSpec:
        return WorkerSpec(
            setup=setup_of_program(),
            number=number,
            source=source,
            url=url,
            kinds=app.registry.kinds,
            settings=portable(settings),
            shares=list(settings.queues.items()),
            name=None if wanted.name is None else f"{wanted.name}:{number}",
            is_thorough=until_idle,
            wait=wait or is_again,  # what was there at the start is waited for later
            jobs=jobs,
            payloads=payloads,
            counts=counts,
        )

    return ProcessSupervisor(order, count, settings, until_idle=until_idle)


def source_in_program(app: "App") -> AppSource:
    """Where other processes find an app of the running program: the module that has it at its top."""
    modules = [name for name, module in list(sys.modules.items()) if _has(module, app)]
    if not modules:
        raise BadConfig(
            "worker processes do not find the app; make it at the top of a module, as in: app = App(), and its jobs"
            " there"
        )
    # The main program is run once more in each process, up to its guard: only where its own functions are the jobs.
    homes = {job.__module__ for kind in app.registry.kinds if (job := app.registry.find(kind)) is not None}
    modules.sort(key=lambda name: (name == MAIN) != (MAIN in homes))
    module = modules[0]
    name = next(name for name, value in vars(sys.modules[module]).items() if value is app)
    return AppSource("headrace.app.worker_process:app_of_program", [module, name])


def _has(module: object, app: "App") -> bool:
    return any(value is app for value in list(getattr(module, "__dict__", {}).values()))
