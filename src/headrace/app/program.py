"""Runs a worker as a program of its own: it says what it is and logs what it does, where nobody has set up logging."""

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headrace.app.collector import seldom_collecting
from headrace.model.errors import BadConfig
from headrace.model.redact import redact, redact_url
from headrace.worker.logs import JobLog, chosen_logs, default_format, is_logging_set_up, setup_logs

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields
    from headrace.worker.config import WorkerSettings
    from headrace.worker.events import Listener

KINDS_NAMED_MAX = 12


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
    from headrace.app.processes import source_in_program, supervisor_of

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
