"""Runs a worker as a program, in one process or several: greets, sets up logging, and starts the supervisor."""

import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from headrace.app.decorators import with_tenant
from headrace.app.discovery import is_memory, url_of
from headrace.model.errors import BadConfig
from headrace.model.limits import COLLECT_AFTER, COLLECT_OLDER_AFTER, PROCESSES_MAX
from headrace.model.redact import redact, redact_url
from headrace.model.validate import bounded_repr
from headrace.worker.config import WorkerConfig, settings_of
from headrace.worker.job_log import JobLog
from headrace.worker.logging import current_setup, default_format, is_logging_set_up, setup_logs
from headrace.worker.pools import main_module
from headrace.worker.pools.process import setup_of_program
from headrace.worker.supervisor.messages import AppSource, WorkerSpec, without_queues
from headrace.worker.supervisor.supervisor import ProcessSupervisor

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields
    from headrace.worker.config import WorkerSettings
    from headrace.worker.events import Listener

KINDS_NAMED_MAX = 12
MAIN = "__main__"


async def run_program(
    app: "App", *, until_idle: bool, wait: bool, listeners: "Sequence[Listener]", config: "WorkerFields"
) -> None:
    """Run a worker until it is stopped or, with `until_idle`, nothing is due.

    A program that has set up logging keeps its set-up, and gets the events of single jobs as log records.
    """
    with ExitStack() as stack:
        job_logs, greets = _set_up_logging(stack)
        if any(isinstance(each, JobLog) for each in listeners):
            job_logs = ()
        async with app.build_worker(listeners=(*job_logs, *listeners), wait=wait, **config) as worker:
            if greets:
                print(greeting(app, None, worker.settings, until_idle=until_idle), file=sys.stderr, flush=True)
            with rare_collection():
                await worker.run(until_idle=until_idle, signals=_is_main_thread())


async def run_supervisor(
    app: "App",
    processes: int,
    *,
    until_idle: bool,
    wait: bool,
    listeners: "Sequence[Listener]",
    config: "WorkerFields",
) -> None:
    """Run a worker in each of several other processes."""
    if listeners:
        raise BadConfig(
            f"listeners do not work across processes, and the jobs run in {processes} of them; leave the listeners out,"
            " or run one process"
        )
    with ExitStack() as stack:
        job_logs, greets = _set_up_logging(stack)
        supervisor = build_supervisor(
            app, processes, find_source(app), config, until_idle=until_idle, wait=wait, jobs=bool(job_logs)
        )
        if greets:
            text = greeting(app, None, supervisor.settings, processes=processes, until_idle=until_idle)
            print(text, file=sys.stderr, flush=True)
        await supervisor.run(signals=_is_main_thread())


def _set_up_logging(stack: ExitStack) -> "tuple[Sequence[Listener], bool]":
    """Set up logging where the program has not; the listeners that log single jobs, and whether to print a greeting."""
    if not is_logging_set_up():
        log_format = default_format(sys.stderr)
        return stack.enter_context(setup_logs(log_format, sys.stderr)).listeners, log_format == "text"
    return ((JobLog(),) if current_setup() is None else ()), False


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def greeting(
    app: "App",
    name: str | None,
    settings: "WorkerSettings",
    *,
    processes: int = 1,
    until_idle: bool = False,
    serving: str | None = None,
) -> str:
    """The lines printed when a worker starts; `name` is that of the app, `serving` the address of its metrics."""
    kinds = app.registry.kinds
    more = f" and {len(kinds) - KINDS_NAMED_MAX} more" if len(kinds) > KINDS_NAMED_MAX else ""
    share = {queue: f" (share {weight})" if settings.is_weighted else "" for queue, weight in settings.queues.items()}
    tenant = {queue: "" if queue.tenant == app.maker.tenant else f" of {queue.tenant}" for queue in settings.queues}
    facts = {
        "app": name,
        "store": redact_url(app.url or ""),
        "queues": ", ".join(f"{queue.full_name}{tenant[queue]}{share[queue]}" for queue in settings.queues),
        "kinds": ", ".join(kinds[:KINDS_NAMED_MAX]) + more,
        "processes": None if processes == 1 else str(processes),
        "capacity": f"{settings.capacity} at once, {settings.threads} of them in threads"
        + ("" if processes == 1 else ", in each process"),
        "metrics": serving,
        "to stop": "Ctrl-C; it also ends when nothing is due" if until_idle else "Ctrl-C",
    }
    lines = [f"  {label:9} {text}" for label, text in facts.items() if text is not None]
    return redact("\n".join((f"worker {settings.name}", *lines)))


def build_supervisor(
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
    """The supervisor of `count` processes, each with a worker of this configuration; `source` tells them where the app
    is. Refuses settings that cannot work in any of them. Call it after logging is set up: the processes log in the same
    way."""
    main_module.check_is_program()
    if type(count) is not int or not 1 <= count <= PROCESSES_MAX:
        raise BadConfig(f"processes must be a whole number from 1 to {PROCESSES_MAX}; found {bounded_repr(count)}")
    url = url_of(app.url)
    if app.has_borrowed_store or is_memory(url):
        raise BadConfig(
            f"{count} worker processes cannot share a store in memory; use another store, such as"
            " sqlite:///headrace.db, or run one process"
        )
    if config.get("pool_size") is None:
        # The pools of all processes share the cores.
        config = {**config, "pool_size": max((os.cpu_count() or 1) // count, 1)}
    worker_config = WorkerConfig(**with_tenant(config, app.maker.tenant))
    handlers = app.handlers
    settings = settings_of(worker_config, handlers.queues, handlers.fail_queues, os.urandom(3).hex())

    def spec_of(number: int, is_restart: bool) -> WorkerSpec:
        return WorkerSpec(
            setup=setup_of_program(),
            number=number,
            source=source,
            url=url,
            kinds=app.registry.kinds,
            settings=without_queues(settings),
            shares=list(settings.queues.items()),
            name=None if worker_config.name is None else f"{worker_config.name}:{number}",
            is_thorough=until_idle,
            wait=wait or is_restart,  # the store was there when the first process started
            jobs=jobs,
            payloads=payloads,
            counts=counts,
        )

    return ProcessSupervisor(spec_of, count, settings, until_idle=until_idle)


def find_source(app: "App") -> AppSource:
    """Where other processes find an app of the running program: the module with the app at its top level."""
    modules = [name for name, module in list(sys.modules.items()) if _defines(module, app)]
    if not modules:
        raise BadConfig(
            "worker processes do not find the app; make it at the top of a module, as in: app = App(), and its jobs"
            " there"
        )
    # `__main__` is run once more in each process, up to its guard: prefer it only where it defines the jobs.
    homes = {job.__module__ for kind in app.registry.kinds if (job := app.registry.find(kind)) is not None}
    modules.sort(key=lambda name: (name == MAIN) != (MAIN in homes))
    module = modules[0]
    name = next(name for name, value in vars(sys.modules[module]).items() if value is app)
    return AppSource("headrace.app.worker_process:load_program_app", [module, name])


def _defines(module: object, app: "App") -> bool:
    return any(value is app for value in list(getattr(module, "__dict__", {}).values()))


@contextmanager
def rare_collection() -> Iterator[None]:
    """Run the garbage collector rarely: modules and handlers stay, and jobs are freed by their reference counts.

    For programs that only run a worker, since the setting is for the whole process. Does nothing if the program has
    turned off or slowed down the collector, or runs its worker in another thread.
    """
    before = gc.get_threshold()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not gc.isenabled() or not 0 < before[0] < COLLECT_AFTER:
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, COLLECT_OLDER_AFTER, COLLECT_OLDER_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
