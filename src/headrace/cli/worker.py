"""`headrace worker`: runs the jobs of an app until it is stopped, and logs what it does."""

import asyncio
import logging
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from msgspec import Struct

from headrace.cli.options import AppName, Url, load_placed_app, place_app, worker_tenant
from headrace.cli.parse import typed_duration
from headrace.model.errors import BadConfig
from headrace.model.limits import PROCESSES_MAX
from headrace.model.validate import bounded_repr
from headrace.worker.config import WorkerConfig

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields
    from headrace.worker.config import QueueRef, QueueSelection
    from headrace.worker.events import Listener
    from headrace.worker.health import Totals
    from headrace.worker.logging import Logs


DEFAULT = WorkerConfig()
Level = Literal["debug", "info", "warning", "error"]


def command(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]", help="Your app as module:name, such as app:app; or give --app.", show_default=False
        ),
    ] = None,
    app: AppName = None,
    url: Url = None,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queues",
            "--queue",
            "-q",
            help="Claim from this queue; repeat for more, in order of priority. NAME=WEIGHT gives shares instead."
            " By default the queues of the app.",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            help="Tenant of the queues; by default as the app says.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the worker; host and process by default.")] = None,
    capacity: Annotated[
        int, typer.Option("--capacity", "--concurrency", "-c", help="Jobs to run at once, each counted by its weight.")
    ] = DEFAULT.capacity,
    threads: Annotated[int, typer.Option("--threads", help="Plain functions to run at once.")] = DEFAULT.threads,
    processes: Annotated[
        int,
        typer.Option("--processes", min=1, max=PROCESSES_MAX, help="Worker processes to run."),
    ] = 1,
    pool_size: Annotated[
        int | None,
        typer.Option("--pool-size", help="Handlers with process=True to run at once; one per core by default."),
    ] = DEFAULT.pool_size,
    lease: Annotated[
        str, typer.Option("--lease", help="Time without a heartbeat after which other workers may take over.")
    ] = str(DEFAULT.lease),
    heartbeat: Annotated[
        str | None,
        typer.Option("--heartbeat", help="Time between two extensions of leases; a third of the lease by default."),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", help="Time for running jobs to end when the worker is stopped.")
    ] = str(DEFAULT.grace),
    poll: Annotated[str, typer.Option("--poll", help="Time between two polls of an idle worker.")] = str(DEFAULT.poll),
    repair: Annotated[
        str, typer.Option("--repair", help="Time between two repairs: expired leases, records after their retention.")
    ] = str(DEFAULT.repair),
    jobs_per_pool_process: Annotated[
        int | None,
        typer.Option("--jobs-per-pool-process", help="Replace a process of the pool after this many jobs."),
    ] = DEFAULT.jobs_per_pool_process,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Exit as soon as no job is due.")] = False,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Exit with 3 if the store is unavailable at the start, instead of waiting."),
    ] = False,
    register: Annotated[
        list[str] | None,
        typer.Option(
            "--register",
            metavar="KIND=echo|fail|sleep",
            help="Run jobs of a kind by a sample handler, without an app.",
        ),
    ] = None,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log", help="Format of the log on stderr; text in a terminal, else json.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --log json.")] = False,
    log_level: Annotated[Level, typer.Option("--log-level", help="Lowest level to log.")] = "info",
    log_payloads: Annotated[bool, typer.Option("--log-payloads", help="Log payloads.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log no lines about single jobs.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65_535, help="Serve /metrics and /health on this port; 0 takes a free one."
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="Address for --metrics-port; 0.0.0.0 is every address of the machine.")
    ] = "127.0.0.1",
    metrics_queues: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics-queues", metavar="[TENANT/]NAME", help="Show the jobs of a queue in /metrics; NAME* is a prefix."
        ),
    ] = None,
) -> None:
    """Run the jobs of an app.

    After Ctrl-C or SIGTERM the worker claims no more jobs and lets running ones end; a second signal ends it at once. A
    worker waits for an unavailable store. The log goes to stderr, a line of totals to stdout at the end.

    Example: headrace worker app:app --capacity 50
    """
    config: WorkerFields = {
        "capacity": capacity,
        "threads": threads,
        "pool_size": pool_size,
        "lease": typed_duration(lease),
        "heartbeat": None if heartbeat is None else typed_duration(heartbeat),
        "grace": typed_duration(grace),
        "poll": typed_duration(poll),
        "repair": typed_duration(repair),
        "jobs_per_pool_process": jobs_per_pool_process,
    }
    if name is not None:
        config["name"] = name
    if queues:
        config["queues"] = queue_selection(queues)
    config["tenant"] = worker_tenant(context, queues, tenant)
    from headrace.worker.logging import default_format

    log_format = "json" if json else log or default_format(sys.stderr)
    watched = metrics_queues or []
    reporting = Reporting(log_format, log_level, log_payloads, not quiet, metrics_host, metrics_port, watched)
    app_name, registered = target or app, register or []
    found = _app(context, app_name, url, registered)
    if watched and (metrics_port is None or processes > 1):
        raise BadConfig("--metrics-queues needs --metrics-port and one process; or let headrace serve show the queues")
    if processes == 1:
        running = work(found, app_name, config, reporting, until_idle=until_idle, wait=not no_wait)
    else:
        words = [app_name or "", *registered]
        running = supervise(
            found, app_name, words, processes, config, reporting, until_idle=until_idle, wait=not no_wait
        )
    asyncio.run(running)


def queue_selection(texts: list[str]) -> "QueueSelection":
    """Queues in order of priority; shares if one of them has a weight."""
    shares: dict[QueueRef, int] = {}
    for text in texts:
        name, sign, weight = text.partition("=")
        if sign and not (weight.isascii() and weight.isdigit()):
            raise BadConfig(f"--queues must be NAME or NAME=WEIGHT with a whole number; found {bounded_repr(text)}")
        shares[name] = int(weight) if sign else 1
    return shares if any("=" in text for text in texts) else list(shares)


def _app(context: typer.Context, name: str | None, url: str | None, registered: list[str]) -> "App":
    if name is not None:
        found = load_placed_app(name, context, url)
    elif registered:
        from headrace.app.app import App

        found = place_app(App(), context, url)
    else:
        raise BadConfig(
            "a worker needs an app; name it as in: headrace worker app:app, or in the [tool.headrace] table of"
            ' pyproject.toml as app = "app:app"; headrace init writes one'
        )
    if registered:
        from headrace.cli.sample_handlers import register

        register(found, registered)
    if not len(found.handlers):
        raise BadConfig(f"{name} has no jobs; put @app.job above a function, in a module that {name} imports")
    return found


NO_APP = "none, only sample handlers"


class Reporting(Struct, frozen=True):
    """The log and the metrics of a worker."""

    format: Literal["text", "json"]
    level: str
    payloads: bool
    jobs: bool
    """Whether to log single jobs."""
    metrics_host: str
    metrics_port: int | None
    metrics_queues: list[str]


async def work(
    app: "App", name: str | None, config: "WorkerFields", reporting: Reporting, *, until_idle: bool, wait: bool
) -> None:
    """Run a worker until it is stopped or, with `until_idle`, no job is due."""
    from headrace.app.program import greeting, rare_collection

    with ExitStack() as stack:
        listeners: list[Listener] = [*stack.enter_context(_logs(reporting)).listeners]
        metrics = None
        if reporting.metrics_port is not None:
            from headrace.worker.metrics import Metrics

            metrics = Metrics()
            listeners.append(metrics)
        async with app.build_worker(listeners=listeners, wait=wait, **config) as worker:
            serving = None
            if metrics is not None and reporting.metrics_port is not None:
                if reporting.metrics_queues:
                    store = (await app.client()).store
                    metrics.watch(store, reporting.metrics_queues, config.get("tenant") or app.maker.tenant)
                server = metrics.serve(reporting.metrics_host, reporting.metrics_port, worker.health)
                stack.callback(server.close)
                serving = f"http://{reporting.metrics_host}:{server.port}/metrics"
            if reporting.format == "text":
                text = greeting(app, name or NO_APP, worker.settings, until_idle=until_idle, serving=serving)
                print(text, file=sys.stderr, flush=True)
            with rare_collection():
                await worker.run(until_idle=until_idle, signals=True)
    print(closing_line(worker.settings.name, worker.health().totals, reporting.format), flush=True)


async def supervise(
    app: "App",
    name: str | None,
    words: list[str],
    processes: int,
    config: "WorkerFields",
    reporting: Reporting,
    *,
    until_idle: bool,
    wait: bool,
) -> None:
    """Supervise workers in several processes, each of which loads the app of `words`."""
    from headrace.app.program import build_supervisor, greeting
    from headrace.worker.supervisor.messages import AppSource

    with ExitStack() as stack:
        stack.enter_context(_logs(reporting))
        supervisor = build_supervisor(
            app,
            processes,
            AppSource("headrace.cli.sample_handlers:app_of_command", words),
            config,
            until_idle=until_idle,
            wait=wait,
            jobs=reporting.jobs,
            payloads=reporting.payloads,
            counts=reporting.metrics_port is not None,
        )
        serving = None
        if reporting.metrics_port is not None:
            from headrace.worker.metrics import SummedMetrics

            server = SummedMetrics(supervisor.poll).serve(reporting.metrics_host, reporting.metrics_port)
            stack.callback(server.close)
            serving = f"http://{reporting.metrics_host}:{server.port}/metrics"
        if reporting.format == "text":
            text = greeting(
                app, name or NO_APP, supervisor.settings, processes=processes, until_idle=until_idle, serving=serving
            )
            print(text, file=sys.stderr, flush=True)
        await supervisor.run(signals=True)
    print(closing_line(supervisor.settings.name, supervisor.health().totals, reporting.format), flush=True)


def _logs(reporting: Reporting) -> "Logs":
    from headrace.worker.logging import setup_logs

    level = getattr(logging, reporting.level.upper())
    return setup_logs(reporting.format, sys.stderr, payloads=reporting.payloads, jobs=reporting.jobs, level=level)


def closing_line(worker: str, totals: "Totals", log: str) -> str:
    """The last line of a worker: its totals."""
    if log == "json":
        counts = msgspec.structs.asdict(totals)
        return msgspec.json.encode({"event": "totals", "worker": worker, **counts}).decode()
    return totals_text(totals)


def totals_text(totals: "Totals") -> str:
    """The totals as a sentence, without zeros."""
    found = msgspec.structs.asdict(totals)
    claimed = found.pop("claimed")
    counts = ", ".join(f"{count:,} {name}" for name, count in found.items() if count)
    return f"{claimed:,} claimed: {counts}" if counts else f"{claimed:,} claimed"
