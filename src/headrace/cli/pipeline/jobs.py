"""`headrace pipeline jobs`: brings the tables of jobs and attempts to the last event, and shows the outcomes."""

from headrace.cli.options import Json, Url
from headrace.cli.output import Output
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
    Tenants,
    engine,
)
from headrace.cli.pipeline.session import PipelineRequest, open_events
from headrace.cli.pipeline.table_files import ROWS_SHOWN, say_tables, write_document
from headrace.model.times import duration_text


def jobs(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    days: Days = 7,
    limit: Rows = ROWS_SHOWN,
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
