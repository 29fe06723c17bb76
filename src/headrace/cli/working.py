"""Runs a worker for the command line: says what it is, tells what it does, and counts at the end."""

import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields
    from headrace.worker.events import Listener
    from headrace.worker.health import Totals
    from headrace.worker.logging import Logs

NO_APP = "none, only what --register names"


class Telling(Struct, frozen=True):
    """How a worker tells of itself."""

    format: Literal["text", "json"]
    level: str
    payloads: bool
    jobs: bool
    """Whether single jobs are told of."""
    metrics_host: str
    metrics_port: int | None


async def work(
    app: "App", name: str | None, config: "WorkerFields", telling: Telling, *, until_idle: bool, wait: bool
) -> None:
    """Run a worker until it is told to stop or, with `until_idle`, nothing is due."""
    from headrace.app.program import greeting, rare_collection

    with ExitStack() as stack:
        listeners: list[Listener] = [*stack.enter_context(_logs(telling)).listeners]
        metrics = None
        if telling.metrics_port is not None:
            from headrace.worker.metrics import Metrics

            metrics = Metrics()
            listeners.append(metrics)
        async with app.build_worker(listeners=listeners, wait=wait, **config) as worker:
            serving = None
            if metrics is not None and telling.metrics_port is not None:
                server = metrics.serve(telling.metrics_host, telling.metrics_port, worker.health)
                stack.callback(server.close)
                serving = f"http://{telling.metrics_host}:{server.port}/metrics"
            if telling.format == "text":
                told = greeting(app, name or NO_APP, worker.settings, until_idle=until_idle, serving=serving)
                print(told, file=sys.stderr, flush=True)
            with rare_collection():
                await worker.run(until_idle=until_idle, signals=True)
    print(closing(worker.settings.name, worker.health().totals, telling.format), flush=True)


async def supervise(
    app: "App",
    name: str | None,
    words: list[str],
    processes: int,
    config: "WorkerFields",
    telling: Telling,
    *,
    until_idle: bool,
    wait: bool,
) -> None:
    """The same in several processes, which make the app of `words`; this one watches over them."""
    from headrace.app.program import build_supervisor, greeting
    from headrace.worker.supervisor.messages import AppSource

    with ExitStack() as stack:
        stack.enter_context(_logs(telling))
        supervisor = build_supervisor(
            app,
            processes,
            AppSource("headrace.cli.trying:app_of_command", words),
            config,
            until_idle=until_idle,
            wait=wait,
            jobs=telling.jobs,
            payloads=telling.payloads,
            counts=telling.metrics_port is not None,
        )
        serving = None
        if telling.metrics_port is not None:
            from headrace.worker.metrics import SummedMetrics

            server = SummedMetrics(supervisor.poll).serve(telling.metrics_host, telling.metrics_port)
            stack.callback(server.close)
            serving = f"http://{telling.metrics_host}:{server.port}/metrics"
        if telling.format == "text":
            told = greeting(
                app, name or NO_APP, supervisor.settings, processes=processes, until_idle=until_idle, serving=serving
            )
            print(told, file=sys.stderr, flush=True)
        await supervisor.run(signals=True)
    print(closing(supervisor.settings.name, supervisor.health().totals, telling.format), flush=True)


def _logs(telling: Telling) -> "Logs":
    from headrace.worker.logging import setup_logs

    level = getattr(logging, telling.level.upper())
    return setup_logs(telling.format, sys.stderr, payloads=telling.payloads, jobs=telling.jobs, level=level)


def closing(worker: str, totals: "Totals", log: str) -> str:
    """What became of the jobs of a worker that has ended."""
    if log == "json":
        counts = msgspec.structs.asdict(totals)
        return msgspec.json.encode({"event": "totals", "worker": worker, **counts}).decode()
    return totals_text(totals)


def totals_text(totals: "Totals") -> str:
    """The totals as a sentence; what did not happen is not told."""
    found = msgspec.structs.asdict(totals)
    claimed = found.pop("claimed")
    told = ", ".join(f"{count:,} {name}" for name, count in found.items() if count)
    return f"{claimed:,} claimed: {told}" if told else f"{claimed:,} claimed"
