"""`headrace pipeline jobs`, `errors` and `usage`: bring tables to the last event, and show them at a glance."""

from collections.abc import Sequence
from typing import Any

from headrace.cli.options import Json, Url
from headrace.cli.output import Output, counted, one_line
from headrace.cli.pipeline.options import (
    ALL,
    FOLDER,
    MASTER,
    Conf,
    Days,
    Dir,
    From,
    Master,
    Queues,
    Rebuild,
    Rows,
    Samples,
    Tenants,
    engine,
)
from headrace.cli.pipeline.session import PipelineRequest, open_events, short_path
from headrace.model.redact import redact
from headrace.model.times import duration_text

SHOWN = 20
Row = dict[str, Any]


def jobs(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    days: Days = 7,
    limit: Rows = SHOWN,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write a row per job and per attempt, and show the outcomes.

    Only new events of the history are read. The overview is about jobs that are open or ended on the last days.

    Example: headrace pipeline jobs --queue mail
    """
    output = Output(json=json)
    request = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
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
    _document(output, work.events.origin, {"jobs": counts.jobs, "attempts": counts.attempts}, request, kinds=rows)
    output.table(
        ("queue", "kind", "jobs#", "open#", "done#", "dead#", "wait p50#", "p95#", "ran p50#", "p95 #"),
        [
            (
                *(f"{row['tenant']}/{row['queue']}", row["kind"], row["jobs"], row["open"], row["done"], row["dead"]),
                *(_time(row[name]) for name in ("wait_p50", "wait_p95", "run_p50", "run_p95")),
            )
            for row in rows
        ],
        empty="no job is in these events",
    )
    _close(output, request, work.source, {"jobs": counts.jobs, "attempts": counts.attempts}, more, "errors")


def errors(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    samples: Samples = 3,
    limit: Rows = SHOWN,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write failures grouped by error, with counts and examples.

    Errors that differ only in numbers, ids and addresses are one group. Each group has a fingerprint, counts, the
    first and last instant, and the last jobs with this error.

    Example: headrace pipeline errors --tenant acme --samples 5
    """
    output = Output(json=json)
    request = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
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
    _document(output, work.events.origin, {"errors": count}, request, errors=rows)
    output.table(
        ("failures#", "deaths#", "jobs#", "tenant", "kinds", "last seen", "a job", "error"),
        [_error_cells(row) for row in rows],
        empty="nothing failed",
    )
    _close(output, request, work.source, {"errors": count}, more, "report")


def usage(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    limit: Rows = SHOWN,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write the usage of each tenant by day.

    Usage is jobs, deliveries, running time and bytes.

    Example: headrace pipeline usage --limit 100
    """
    output = Output(json=json)
    request = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.tables.summary import latest_days, top
        from headrace.pipeline.tables.usage import tenant_usage
        from headrace.pipeline.tables.write import read_table, write_usage

        work.line.stage(f"usage, from {work.source}")
        count = write_usage(work.spark, work.events, request.data_dir, rebuild=rebuild)
        rows, more = top(latest_days(tenant_usage(read_table(work.spark, request.data_dir, "usage"))), limit)
    _document(output, work.events.origin, {"usage": count}, request, usage=rows)
    names = ("day", "tenant", "events", "enqueued", "done", "dead", "cancelled", "deliveries", "retried", "stalled")
    output.table(
        ("day", "tenant", *(f"{name}#" for name in names[2:]), "ran#", "payload bytes#"),
        [(*(row[name] for name in names), duration_text(row["run_ms"]), row["payload_bytes"]) for row in rows],
        empty="nothing was used",
    )
    _close(output, request, work.source, {"usage": count}, more, "report")


def _document(
    output: Output, origin: str, counts: dict[str, int], request: PipelineRequest, **rows: Sequence[Row]
) -> None:
    tables = {name: {"rows": count, "folder": str(request.data_dir.table(name))} for name, count in counts.items()}
    output.document({"origin": origin, "tables": tables, **rows})


def _close(
    output: Output, request: PipelineRequest, source: str, counts: dict[str, int], more: int, following: str
) -> None:
    if more:
        output.say(f"and {more:,} more; --limit shows them")
    output.say(f"from {source}:")
    for name, count in counts.items():
        output.say(f"  {counted(count, 'row')} in {short_path(request.data_dir.table(name))}")
    tell_part(output, request, *counts)
    output.hint(f"next: {request.words(following)}")


def tell_part(output: Output, request: PipelineRequest, *names: str) -> None:
    """Say which tables now hold a part alone, whatever they held before."""
    asked_for = [("tenant", request.tenant), ("queue", request.queue)]
    of = " and ".join(f"{what} {name}" for what, name in asked_for if name != ALL)
    if of:
        tables = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        output.hint(f"{tables} now {'hold' if names[1:] else 'holds'} {of} alone; another --dir keeps both")


def _error_cells(row: Row) -> tuple[object, ...]:
    sample = row["sample_jobs"][0] if row["sample_jobs"] else None
    return (
        *(row["failures"], row["deaths"], row["jobs"], row["tenant"], ", ".join(row["kinds"])),
        f"{row['last_seen']:%Y-%m-%d %H:%M:%S}",
        None if sample is None else one_line(sample["id"]),
        one_line(f"{row['error_class']}: {row['template']}"),
    )


def _time(ms: int | None) -> str | None:
    return None if ms is None else duration_text(ms)
