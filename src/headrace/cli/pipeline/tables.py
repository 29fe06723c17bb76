"""`headrace pipeline jobs`, `errors`, `usage` and `views`: updates tables and shows an excerpt; prints SQL views."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from headrace.cli.options import ALL, AppName, Json, Url, option_groups
from headrace.cli.output import Output, counted, one_line
from headrace.cli.pipeline.options import (
    Days,
    EventOptions,
    Queues,
    Rebuild,
    Rows,
    Samples,
    SparkOptions,
    Tenants,
    spark_url,
)
from headrace.cli.pipeline.session import PipelineRequest, check_store, open_events, short_path
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.times import duration_text
from headrace.pipeline.packages import needing_spark

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]", help="Your app as module:name, such as app:app; or give --app.", show_default=False
    ),
]
ROWS_SHOWN = 20
Row = dict[str, Any]


@option_groups
def jobs(
    *,
    source: EventOptions,
    rebuild: Rebuild = False,
    days: Days = 7,
    limit: Rows = ROWS_SHOWN,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Write a row per job and per attempt, and show the outcomes.

    Only new events of the history are read. The overview is about jobs that are open or ended on the last days.

    Example: headrace pipeline jobs --queue mail
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.tables.summary import by_kind, top
        from headrace.pipeline.tables.write import read_table, write_jobs

        work.line.stage(f"jobs and attempts, from {work.source}")
        counts, data_dir = write_jobs(work.spark, work.events, request.data_dir, rebuild=rebuild), request.data_dir
        work.line.stage("counting")
        both = (read_table(work.spark, data_dir, name, days=days) for name in ("jobs", "attempts"))
        frame = by_kind(*both)
        rows, more = top(frame, limit)
    write_document(output, request, work.events.origin, {"jobs": counts.jobs, "attempts": counts.attempts}, kinds=rows)
    output.table(
        ("queue", "kind", "jobs#", "open#", "done#", "dead#", "wait p50#", "p95#", "run p50#", "p95 #"),
        [
            (
                *(f"{row['tenant']}/{row['queue']}", row["kind"], row["jobs"], row["open"], row["done"], row["dead"]),
                *(_time(row[name]) for name in ("wait_p50", "wait_p95", "run_p50", "run_p95")),
            )
            for row in rows
        ],
        empty="no job is in these events",
    )
    say_tables(output, request, work.source, {"jobs": counts.jobs, "attempts": counts.attempts}, more, "errors")


def _time(ms: int | None) -> str | None:
    return None if ms is None else duration_text(ms)


@option_groups
def errors(
    *,
    source: EventOptions,
    rebuild: Rebuild = False,
    samples: Samples = 3,
    limit: Rows = ROWS_SHOWN,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Write failures grouped by error, with counts and examples.

    Errors that differ only in numbers, ids and addresses are one group. Each group has a fingerprint, counts, the
    first and last instant, and the last jobs with this error.

    Example: headrace pipeline errors --tenant acme --samples 5
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.tables.errors import error_groups
        from headrace.pipeline.tables.summary import top
        from headrace.pipeline.tables.write import read_table, write_errors

        work.line.stage(f"errors, from {work.source}")
        count = write_errors(work.spark, work.events, request.data_dir, rebuild=rebuild)
        rows, more = top(error_groups(read_table(work.spark, request.data_dir, "errors"), samples), limit)
    for row in rows:
        row["template"] = redact(row["template"])
        row["sample_jobs"] = [{**each, "message": redact(each["message"] or "")} for each in row["sample_jobs"]]
    write_document(output, request, work.events.origin, {"errors": count}, errors=rows)
    output.table(
        ("failures#", "deaths#", "jobs#", "tenant", "kinds", "last seen", "a job", "error"),
        [_cells(row) for row in rows],
        empty="nothing failed",
    )
    say_tables(output, request, work.source, {"errors": count}, more, "report")


def _cells(row: Row) -> tuple[object, ...]:
    sample = row["sample_jobs"][0] if row["sample_jobs"] else None
    return (
        *(row["failures"], row["deaths"], row["jobs"], row["tenant"], ", ".join(row["kinds"])),
        f"{row['last_seen']:%Y-%m-%d %H:%M:%S}",
        None if sample is None else one_line(sample["id"]),
        one_line(f"{row['error_class']}: {row['template']}"),
    )


@option_groups
def usage(
    *,
    source: EventOptions,
    rebuild: Rebuild = False,
    limit: Rows = ROWS_SHOWN,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Write the usage of each tenant by day.

    Usage is jobs, deliveries, running time and bytes.

    Example: headrace pipeline usage --limit 100
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.tables.summary import latest_days, top
        from headrace.pipeline.tables.usage import tenant_usage
        from headrace.pipeline.tables.write import read_table, write_usage

        work.line.stage(f"usage, from {work.source}")
        count = write_usage(work.spark, work.events, request.data_dir, rebuild=rebuild)
        rows, more = top(latest_days(tenant_usage(read_table(work.spark, request.data_dir, "usage"))), limit)
    write_document(output, request, work.events.origin, {"usage": count}, usage=rows)
    names = ("day", "tenant", "events", "enqueued", "done", "dead", "cancelled", "deliveries", "retried", "stalled")
    output.table(
        ("day", "tenant", *(f"{name}#" for name in names[2:]), "run time#", "payload bytes#"),
        [(*(row[name] for name in names), duration_text(row["run_ms"]), row["payload_bytes"]) for row in rows],
        empty="nothing was used",
    )
    say_tables(output, request, work.source, {"usage": count}, more, "report")


def views(
    target: Target = None,
    app: AppName = None,
    url: Url = None,
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    json: Json = False,
) -> None:
    """Print SQL that creates typed views of a store.

    Payloads and results are structs with the types of the app's annotations. Run the SQL with spark-sql, in a notebook
    or over JDBC: it needs Headrace where Spark runs. A URL with a password is not printed: the session takes it from
    HEADRACE_URL.

    Example: headrace pipeline views app:app > views.sql
    """
    output, name = Output(json=json), target or app
    if name is None:
        raise BadConfig(
            "views need an app, whose annotations give the types; name it as in: headrace pipeline views app:app"
        )
    with needing_spark():
        from headrace.pipeline.sql_views import app_types, shown_options, view_statements
    store = spark_url(url)
    check_store(store, new=False)
    statements = dict(view_statements(shown_options(store, tenant, queue), app_types(name)))
    output.document({"views": [{"name": view, "sql": sql} for view, sql in statements.items()]})
    for sql in statements.values():
        output.say(f"{sql};")


def write_document(
    output: Output, request: PipelineRequest, origin: str, counts: dict[str, int], **rows: Sequence[Row]
) -> None:
    """Write the JSON document: the tables with their row counts, and the shown rows."""
    tables = {name: {"rows": count, "folder": str(request.data_dir.location(name))} for name, count in counts.items()}
    output.document({"origin": origin, "tables": tables, **rows})


def say_tables(
    output: Output, request: PipelineRequest, source: str, counts: dict[str, int], more: int, next_command: str
) -> None:
    """Say the source of the tables, their row counts and their folders."""
    if more:
        output.say(f"and {more:,} more; --limit shows them")
    output.say(f"from {source}:")
    for name, count in counts.items():
        output.say(f"  {counted(count, 'row')} in {short_path(request.data_dir.location(name))}")
    say_selection(output, request, *counts)
    output.hint(f"next: {request.words(next_command)}")


def say_selection(output: Output, request: PipelineRequest, *tables: str) -> None:
    """Say which tables now hold one tenant or queue only."""
    selections = [("tenant", request.tenant), ("queue", request.queue)]
    selection = " and ".join(f"{what} {name}" for what, name in selections if name != ALL)
    if selection:
        names = " and ".join(filter(None, (", ".join(tables[:-1]), tables[-1])))
        output.hint(f"{names} now {'hold' if tables[1:] else 'holds'} {selection} alone; another --dir keeps both")
