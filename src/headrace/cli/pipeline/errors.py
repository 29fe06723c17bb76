"""`headrace pipeline errors`: brings the table of errors to the last event, and shows the most frequent ones."""

from headrace.cli.options import Json, Url
from headrace.cli.output import Output, one_line
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
    Samples,
    Tenants,
    engine,
)
from headrace.cli.pipeline.session import PipelineRequest, open_events
from headrace.cli.pipeline.table_files import ROWS_SHOWN, Row, say_tables, write_document
from headrace.model.redact import redact


def errors(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    rebuild: Rebuild = False,
    samples: Samples = 3,
    limit: Rows = ROWS_SHOWN,
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
