"""Runs a worker as a program of its own: it says what it is and logs what it does, where nobody has set up logging."""

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headrace.app.collector import seldom_collecting
from headrace.model.secrets import scrubbed, shown
from headrace.worker.logs import JobLog, chosen_logs, default_format, is_logging_set_up, setup_logs

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.fields import WorkerFields
    from headrace.worker.notices import Listener
    from headrace.worker.worker import Worker

KINDS_NAMED_MAX = 12


async def run_program(
    app: "App", *, until_idle: bool, wait: bool, listeners: "Sequence[Listener]", config: "WorkerFields"
) -> None:
    """Run a worker until it is told to stop or, with `until_idle`, nothing is due.

    A program that has set up logging is left as it is, and gets the events of single jobs as records.
    """
    out = sys.stderr
    with ExitStack() as stack:
        told: Sequence[Listener] = ()
        greets = False
        if not is_logging_set_up():
            shape = default_format(out)
            told, greets = stack.enter_context(setup_logs(shape, out)).listeners, shape == "text"
        elif chosen_logs() is None:
            told = (JobLog(),)
        if any(isinstance(each, JobLog) for each in listeners):
            told = ()
        in_main = threading.current_thread() is threading.main_thread()
        async with app.built(listeners=(*told, *listeners), wait=wait, **config) as worker:
            if greets:
                print(greeting(app, None, worker, until_idle=until_idle), file=out, flush=True)
            with seldom_collecting():
                await worker.run(until_idle=until_idle, signals=in_main)


def greeting(
    app: "App", name: str | None, worker: "Worker", *, until_idle: bool = False, serving: str | None = None
) -> str:
    """What a person should know of a worker that starts; `name` is that of the app, `serving` where its metrics are."""
    settings = worker.settings
    kinds = app.registry.kinds
    more = f" and {len(kinds) - KINDS_NAMED_MAX} more" if len(kinds) > KINDS_NAMED_MAX else ""
    share = {queue: f" (share {weight})" if settings.is_weighted else "" for queue, weight in settings.queues.items()}
    tenant = {queue: "" if queue.tenant == app.maker.tenant else f" of {queue.tenant}" for queue in settings.queues}
    facts = {
        "app": name,
        "store": shown(app.url or ""),
        "queues": ", ".join(f"{queue.full_name}{tenant[queue]}{share[queue]}" for queue in settings.queues),
        "kinds": ", ".join(kinds[:KINDS_NAMED_MAX]) + more,
        "capacity": f"{settings.capacity} at once, {settings.threads} of them in threads",
        "metrics": serving,
        "to stop": "Ctrl-C; it also ends when nothing is due" if until_idle else "Ctrl-C",
    }
    lines = [f"  {label:9} {told}" for label, told in facts.items() if told is not None]
    return scrubbed("\n".join((f"worker {settings.name}", *lines)))
