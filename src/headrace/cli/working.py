"""Runs a worker for the command line: says what it is, tells what it does, and counts at the end."""

import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from headrace.model.secrets import scrubbed, shown

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.fields import WorkerFields
    from headrace.worker.health import Totals
    from headrace.worker.notices import Listener
    from headrace.worker.worker import Worker

KINDS_NAMED_MAX = 12


class Telling(Struct, frozen=True):
    """How a worker tells of itself."""

    format: Literal["text", "json"]
    level: str
    payloads: bool
    jobs: bool
    """Whether single jobs are told of."""
    metrics_host: str
    metrics_port: int | None


async def work(app: "App", name: str | None, config: "WorkerFields", until_idle: bool, telling: Telling) -> None:
    """Run a worker until it is told to stop or, with `until_idle`, nothing is due."""
    from headrace.worker.logs import setup_logs

    with ExitStack() as stack:
        level = getattr(logging, telling.level.upper())
        logs = stack.enter_context(
            setup_logs(telling.format, sys.stderr, payloads=telling.payloads, jobs=telling.jobs, level=level)
        )
        listeners: list[Listener] = [*logs.listeners]
        metrics = None
        if telling.metrics_port is not None:
            from headrace.worker.metrics import Metrics

            metrics = Metrics()
            listeners.append(metrics)
        async with app.built(listeners=listeners, **config) as worker:
            serving = None
            if metrics is not None and telling.metrics_port is not None:
                server = metrics.serve(telling.metrics_host, telling.metrics_port, worker.health)
                stack.callback(server.close)
                serving = f"http://{telling.metrics_host}:{server.port}/metrics"
            if telling.format == "text":
                print(greeting(app, name, worker, until_idle, serving), file=sys.stderr, flush=True)
            await worker.run(until_idle=until_idle, signals=True)
    print(closing(worker, telling.format), flush=True)


def greeting(app: "App", name: str | None, worker: "Worker", until_idle: bool, serving: str | None) -> str:
    """What a person should know of a worker that starts."""
    settings = worker.settings
    kinds = app.registry.kinds
    more = f" and {len(kinds) - KINDS_NAMED_MAX} more" if len(kinds) > KINDS_NAMED_MAX else ""
    share = {queue: f" (share {weight})" if settings.is_weighted else "" for queue, weight in settings.queues.items()}
    tenant = {queue: "" if queue.tenant == app.maker.tenant else f" of {queue.tenant}" for queue in settings.queues}
    facts = {
        "app": name or "none, only what --register names",
        "store": shown(app.url or ""),
        "queues": ", ".join(f"{queue.full_name}{tenant[queue]}{share[queue]}" for queue in settings.queues),
        "kinds": ", ".join(kinds[:KINDS_NAMED_MAX]) + more,
        "capacity": f"{settings.capacity} at once, {settings.threads} of them in threads",
        "metrics": serving,
        "to stop": "Ctrl-C; it also ends when nothing is due" if until_idle else "Ctrl-C",
    }
    lines = [f"  {label:9} {told}" for label, told in facts.items() if told is not None]
    return scrubbed("\n".join((f"worker {settings.name}", *lines)))


def closing(worker: "Worker", log: str) -> str:
    """What became of the jobs of a worker that has ended."""
    totals = worker.health().totals
    if log == "json":
        counts = msgspec.structs.asdict(totals)
        return msgspec.json.encode({"event": "totals", "worker": worker.settings.name, **counts}).decode()
    return totals_text(totals)


def totals_text(totals: "Totals") -> str:
    """The totals as a sentence; what did not happen is not told."""
    found = msgspec.structs.asdict(totals)
    claimed = found.pop("claimed")
    told = ", ".join(f"{count:,} {name}" for name, count in found.items() if count)
    return f"{claimed:,} claimed: {told}" if told else f"{claimed:,} claimed"
