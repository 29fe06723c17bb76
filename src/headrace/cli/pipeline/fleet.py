"""`headrace pipeline fleet`: runs the jobs of an app on Spark's executors."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.app.decorators import with_tenant
from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.options import AppName, Json, Url, load_placed_app, option_groups, worker_tenant
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import SparkOptions, spark_url
from headrace.cli.pipeline.progress import ProgressLine, StopSignal
from headrace.cli.pipeline.session import check_store, spark_session
from headrace.cli.worker import queue_selection
from headrace.model.errors import BadConfig
from headrace.model.limits import FLEET_WORKERS_MAX
from headrace.model.times import duration_ms, duration_text
from headrace.worker.config import WorkerConfig, settings_of

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.decorators import WorkerFields
    from headrace.pipeline.flows.fleet.report import FleetProgress, FleetReport

DEFAULT = WorkerConfig()
COLUMNS = ("worker", "deliveries#", "done#", "retried#", "stalled#", "dead#", "released#", "cancelled#")
WORKERS_SHOWN_MAX = 40

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]", help="Your app as module:name, such as app:app; or give --app.", show_default=False
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        max=FLEET_WORKERS_MAX,
        show_default=False,
        help="Number of workers; one per core of Spark by default.",
    ),
]
Until = Annotated[
    Literal["drained", "idle"],
    typer.Option("--until", help="Exit when no jobs are left (drained), or when none are due (idle)."),
]
RunOn = Annotated[bool, typer.Option("--run-on", help="Run until Ctrl-C.")]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        envvar="HEADRACE_PIPELINE_FLEET_FOR",
        show_default=False,
        help="Exit after this time: 90s, 10m, 1h.",
    ),
]
FleetQueues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        "-q",
        help="Queue to claim from, in this order; repeatable. NAME=WEIGHT claims by shares. By default, the queues of"
        " the app's jobs.",
    ),
]
TenantName = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        help="Tenant of the queues; that of the app by default.",
    ),
]
Capacity = Annotated[int, typer.Option("--capacity", "-c", help="Concurrent jobs of a worker, counted by weight.")]
Threads = Annotated[int, typer.Option("--threads", help="Threads of a worker for plain functions.")]
Lease = Annotated[
    str, typer.Option("--lease", help="Time without a heartbeat after which other workers may take over a job.")
]
Grace = Annotated[str, typer.Option("--grace", help="Time that running jobs have to finish when the fleet stops.")]


@option_groups
def fleet(
    *,
    context: typer.Context,
    target: Target = None,
    app: AppName = None,
    url: Url = None,
    workers: Workers = None,
    until: Until = "drained",
    run_on: RunOn = False,
    for_: For = None,
    queue: FleetQueues = None,
    tenant: TenantName = None,
    capacity: Capacity = DEFAULT.capacity,
    threads: Threads = DEFAULT.threads,
    lease: Lease = str(DEFAULT.lease),
    grace: Grace = str(DEFAULT.grace),
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Run the jobs of an app on Spark's executors.

    Each executor task runs a normal worker with leases and heartbeats. Ctrl-C stops claiming and lets running jobs
    finish; a second Ctrl-C exits at once. The report at the end is computed from the journal.

    Example: headrace pipeline fleet app:app --workers 8
    """
    output, name = Output(json=json), target or app
    if name is None:
        raise BadConfig(
            "a fleet needs an app; name it as in: headrace pipeline fleet app:app, or in the [tool.headrace] table of"
            ' pyproject.toml as app = "app:app"; headrace init writes a first one'
        )
    config: WorkerFields = {
        "capacity": capacity,
        "threads": threads,
        "lease": typed_duration(lease),
        "grace": typed_duration(grace),
    }
    if queue:
        config["queues"] = queue_selection(queue)
    config["tenant"] = worker_tenant(context, queue, tenant)
    for_ms = None if for_ is None else duration_ms("for", typed_duration(for_))
    loaded = _check(load_placed_app(name, context, url), name, config)
    check_store(spark_url(loaded.url), new=True)
    stopping, line = StopSignal(), ProgressLine(output)
    with spark_session(spark_options.engine, line, None) as spark:
        from headrace.pipeline.flows.fleet.run import run_fleet

        line.stage(f"running {name}")
        with stopping.handle_signals():
            report = run_fleet(
                spark,
                name,
                url=spark_url(loaded.url),
                workers=workers,
                until=None if run_on else until,
                for_ms=for_ms,
                on_progress=(
                    lambda progress: line.show_progress(
                        fleet_text(progress), progress.settled, progress.settled + progress.remaining
                    )
                )
                if line.shown
                else None,
                stopping=stopping.event,
                **config,
            )
    _show(output, report)
    if stopping.interrupted:
        return INTERRUPTED
    return NO if report.end_reason == "cancelled" else OK


def _check(app: "App", name: str, config: "WorkerFields") -> "App":
    """The app; refuses an app that cannot run as a fleet before Spark takes seconds to start."""
    if not len(app.handlers):
        raise BadConfig(f"{name} has no jobs; put @app.job above a function, in a module that {name} imports")
    settings_of(
        WorkerConfig(**with_tenant(config, app.maker.tenant)), app.handlers.queues, app.handlers.fail_queues, "fleet"
    )
    return app


def fleet_text(progress: "FleetProgress") -> str:
    """The progress of a fleet in one line."""
    dead = f" · {progress.dead:,} dead" if progress.dead else ""
    crashes = f" · {progress.crashes:,} crash{'' if progress.crashes == 1 else 'es'}" if progress.crashes else ""
    return (
        f"{progress.done:,} done{dead} · {progress.waiting:,} waiting · {progress.active:,} running"
        f" · {progress.jobs_per_s:,.0f}/s{crashes}"
    )


def _show(output: Output, report: "FleetReport") -> None:
    output.document(report)
    rows = [
        (each.worker, each.deliveries, each.done, each.retried, each.stalled, each.dead, each.released, each.cancelled)
        for each in report.workers[:WORKERS_SHOWN_MAX]
    ]
    if rows:
        output.table(COLUMNS, rows, empty="")
    if len(report.workers) > WORKERS_SHOWN_MAX:
        output.say(f"and {len(report.workers) - WORKERS_SHOWN_MAX:,} more; --json shows them all")
    output.say(f"fleet: {report.sentence()}")
    if report.run_p50_ms is not None and report.run_p95_ms is not None:
        median, p95 = duration_text(report.run_p50_ms), duration_text(report.run_p95_ms)
        output.say(f"  run time: median {median}, p95 {p95}")
    if report.end_reason == "cancelled":
        output.say("  its Spark jobs were cancelled from outside; open leases expire by themselves")
    if report.missed:
        output.hint(
            f"{report.missed:,} events were dropped from the journal before they were read; the counts lack them"
        )
    if report.dead:
        output.hint("next: headrace dead list")
