"""Runs a worker as a program of its own: it says what it is and logs what it does, where nobody has set up logging."""

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
from headrace.worker.logs import JobLog, chosen_logs, default_format, is_logging_set_up, setup_logs
from headrace.worker.pools import main_module
from headrace.worker.pools.process import setup_of_program
from headrace.worker.supervisor.messages import AppSource, WorkerSpec, portable
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
    """Run a worker until it is told to stop or, with `until_idle`, nothing is due.

    A program that has set up logging is left as it is, and gets the events of single jobs as records.
    """
    with ExitStack() as stack:
        told, greets = _logged(stack)
        if any(isinstance(each, JobLog) for each in listeners):
            told = ()
        async with app.built(listeners=(*told, *listeners), wait=wait, **config) as worker:
            if greets:
                print(greeting(app, None, worker.settings, until_idle=until_idle), file=sys.stderr, flush=True)
            with seldom_collecting():
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
    """The same in several processes, none of which is this one."""
    if listeners:
        raise BadConfig(
            f"listeners hear of the jobs in their own process, and the jobs run in {processes} others; leave the"
            " listeners out, or run one process"
        )
    with ExitStack() as stack:
        told, greets = _logged(stack)
        supervisor = supervisor_of(
            app, processes, source_in_program(app), config, until_idle=until_idle, wait=wait, jobs=bool(told)
        )
        if greets:
            text = greeting(app, None, supervisor.settings, processes=processes, until_idle=until_idle)
            print(text, file=sys.stderr, flush=True)
        await supervisor.run(signals=_is_main_thread())


def _logged(stack: ExitStack) -> "tuple[Sequence[Listener], bool]":
    """What logs single jobs, and whether a person is greeted; sets up logging where the program has not."""
    if not is_logging_set_up():
        shape = default_format(sys.stderr)
        return stack.enter_context(setup_logs(shape, sys.stderr)).listeners, shape == "text"
    return ((JobLog(),) if chosen_logs() is None else ()), False


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
    """What a person should know of a worker that starts; `name` is that of the app, `serving` where its metrics are."""
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
    lines = [f"  {label:9} {told}" for label, told in facts.items() if told is not None]
    return redact("\n".join((f"worker {settings.name}", *lines)))


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


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Keep the collector from modules and handlers, which stay, and from jobs, which free themselves.

    For programs that are a worker and nothing else: the collector is the whole process's. One that a program has turned
    off, or set to look as seldom, is left as it is, and so is that of a program whose worker is in another thread.
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
