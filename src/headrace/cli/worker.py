"""`headrace worker`: runs the jobs of an app until it is told to stop, and tells what it does."""

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
            help="Claim from this queue; again for more, the first comes first. NAME=WEIGHT gives shares instead."
            " Without it: the queues of the app's jobs.",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            help="Whose the queues are: those that are named, else the app's, by their names; as the app says when not"
            " given.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="How the worker is called; host and process when not given.")
    ] = None,
    capacity: Annotated[
        int, typer.Option("--capacity", "--concurrency", "-c", help="Jobs at once, each counted by its weight.")
    ] = DEFAULT.capacity,
    threads: Annotated[int, typer.Option("--threads", help="Plain functions at once.")] = DEFAULT.threads,
    processes: Annotated[
        int,
        typer.Option(
            "--processes", min=1, max=PROCESSES_MAX, help="Run so many workers, each in a process of its own."
        ),
    ] = 1,
    pool_size: Annotated[
        int | None,
        typer.Option("--pool-size", help="Handlers with process=True at once; one per core when not given."),
    ] = DEFAULT.pool_size,
    lease: Annotated[
        str, typer.Option("--lease", help="After this long without a sign of life, other workers may take over.")
    ] = str(DEFAULT.lease),
    heartbeat: Annotated[
        str | None,
        typer.Option("--heartbeat", help="How often leases are extended; a third of the lease when not given."),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", help="How long running jobs may go on when the worker is asked to stop.")
    ] = str(DEFAULT.grace),
    poll: Annotated[str, typer.Option("--poll", help="How often an idle worker asks although nobody woke it.")] = str(
        DEFAULT.poll
    ),
    repair: Annotated[str, typer.Option("--repair", help="How often queues are swept of what is over.")] = str(
        DEFAULT.repair
    ),
    jobs_per_pool_process: Annotated[
        int | None,
        typer.Option("--jobs-per-pool-process", help="Replace a process of the pool after so many jobs."),
    ] = DEFAULT.jobs_per_pool_process,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End as soon as nothing is due.")] = False,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="End with 3 where the store is away at the start, instead of waiting for it."),
    ] = False,
    register: Annotated[
        list[str] | None,
        typer.Option(
            "--register",
            metavar="KIND=echo|fail|sleep",
            help="Run jobs of a kind by a handler for trying things out; no app is needed then.",
        ),
    ] = None,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option(
            "--log", help="How the log on stderr is written; text in a terminal, else json.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --log json.")] = False,
    log_level: Annotated[Level, typer.Option("--log-level", help="From where on things are told.")] = "info",
    log_payloads: Annotated[bool, typer.Option("--log-payloads", help="Show payloads in the log.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No lines about single jobs.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65_535, help="Serve /metrics and /health there; 0 takes any free port."
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="The address for it; 0.0.0.0 is all of this machine.")
    ] = "127.0.0.1",
) -> None:
    """Run the jobs of an app.

    Ctrl-C or SIGTERM: nothing more is claimed and running jobs may end; once more ends at once. A store that is away
    is waited for. The log goes to stderr, and a line of totals to stdout when the worker has ended.
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

    shape = "json" if json else log or default_format(sys.stderr)
    telling = Telling(shape, log_level, log_payloads, not quiet, metrics_host, metrics_port)
    app_name, registered = target or app, register or []
    found = _app(context, app_name, url, registered)
    if processes == 1:
        running = work(found, app_name, config, telling, until_idle=until_idle, wait=not no_wait)
    else:
        words = [app_name or "", *registered]
        running = supervise(found, app_name, words, processes, config, telling, until_idle=until_idle, wait=not no_wait)
    asyncio.run(running)


def queue_selection(texts: list[str]) -> "QueueSelection":
    """Names in their order; with a weight behind one of them, shares for all."""
    shares: dict[QueueRef, int] = {}
    for text in texts:
        name, sign, weight = text.partition("=")
        if sign and not (weight.isascii() and weight.isdigit()):
            raise BadConfig(f"--queues wants NAME or NAME=WEIGHT with a whole number; found {bounded_repr(text)}")
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
            ' pyproject.toml as app = "app:app"; headrace init writes a first one'
        )
    if registered:
        from headrace.cli.sample_handlers import register

        register(found, registered)
    if not len(found.handlers):
        raise BadConfig(f"{name} has no jobs; put @app.job above a function, in a module that {name} imports")
    return found


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
            AppSource("headrace.cli.sample_handlers:app_of_command", words),
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
