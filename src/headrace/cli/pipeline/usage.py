"""`headrace pipeline usage`: brings the table of usage to the last event, and shows the latest days."""

from headrace.cli.options import Json, Url
from headrace.cli.output import Output
from headrace.cli.pipeline.options import (
    ALL,
    FOLDER,
    MASTER,
    Conf,
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


def usage(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    limit: Rows = ROWS_SHOWN,
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
    write_document(output, request, work.events.origin, {"usage": count}, usage=rows)
    names = ("day", "tenant", "events", "enqueued", "done", "dead", "cancelled", "deliveries", "retried", "stalled")
    output.table(
        ("day", "tenant", *(f"{name}#" for name in names[2:]), "run time#", "payload bytes#"),
        [(*(row[name] for name in names), duration_text(row["run_ms"]), row["payload_bytes"]) for row in rows],
        empty="nothing was used",
    )
    say_tables(output, request, work.source, {"usage": count}, more, "report")
