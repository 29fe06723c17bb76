"""`headrace pipeline report`: all tables, and one page that shows them."""

from typing import Annotated

import typer

from headrace.cli.options import Json, Url
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Dir, From, Master, Queues, Tenants, engine
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import PipelineRequest, short, sparked, working
from headrace.cli.pipeline.tables import tell_part
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms

Title = Annotated[str | None, typer.Option("--title", help="The title of the page.", show_default=False)]
AsIs = Annotated[bool, typer.Option("--as-is", help="Show the tables as they are, instead of writing them anew first.")]
ReportWindow = Annotated[
    str | None,
    typer.Option(
        "--window", show_default=False, help="The length of a window: 10s, 1m, 1h; that of the statistics, else 1m."
    ),
]


def report(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    origin: From = None,
    window: ReportWindow = None,
    as_is: AsIs = False,
    title: Title = None,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write all tables, and a page that shows them: throughput, times, failures, usage, backlog.

    The page is one HTML file that opens from a disk and from a mail.
    """
    output = Output(json=json)
    asked = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, origin=origin, engine=engine(master, conf))
    window_ms = None if window is None else duration_ms("window", typed_duration(window))
    said = None
    if as_is and queue != ALL:
        raise BadConfig(
            "--as-is cannot show one queue: the tables of errors and usage do not tell queues apart; leave out --as-is"
        )
    if as_is:
        line = ProgressLine(output)
        with sparked(asked.engine, line, 0) as spark:
            from headrace.pipeline.report.report import write_report

            line.stage("drawing")
            write_report(spark, asked.data_dir, tenant=tenant, title=title)
    else:
        with working(asked, output) as work:
            if work is None:
                return
            from headrace.pipeline.report.report import write_report
            from headrace.pipeline.tables.write import write_tables

            said = work.said
            write_tables(
                work.spark,
                work.events,
                asked.data_dir,
                window_ms=window_ms,
                on_stage=lambda name: work.line.stage(f"{name}, from {work.said}"),
            )
            work.line.stage("drawing")
            write_report(work.spark, asked.data_dir, tenant=tenant, queue=queue, title=title)
    page = asked.data_dir.report
    output.document({"report": str(page), "bytes": page.stat().st_size})
    of = "" if said is None else f" from {said}"
    output.say(f"wrote {short(page)} ({page.stat().st_size / 1_024:,.0f} KiB){of}")
    if said is not None:
        tell_part(output, asked, "jobs", "attempts", "errors", "usage")
    output.hint(f"open it in a browser: {page.as_uri()}")
