"""`headrace pipeline report`: writes all tables and an HTML page that shows them."""

from typing import Annotated

import typer

from headrace.cli.options import Json, option_groups
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import (
    EventOptions,
    Rebuild,
    SparkOptions,
)
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import PipelineRequest, open_events, short_path, spark_session
from headrace.cli.pipeline.tables import say_selection
from headrace.model.limits import PAGE_DAYS_MAX
from headrace.model.times import duration_ms

Title = Annotated[str | None, typer.Option("--title", help="Title of the page.", show_default=False)]
AsIs = Annotated[bool, typer.Option("--as-is", help="Show the tables as they are instead of writing them first.")]
ReportDays = Annotated[int, typer.Option("--days", min=1, help="Last days to show; the tables have all.")]
ReportWindow = Annotated[
    str | None,
    typer.Option(
        "--window",
        show_default=False,
        help="Length of a window: 10s, 1m, 1h; that of the statistics, or 1m, by default.",
    ),
]


@option_groups
def report(
    *,
    source: EventOptions,
    days: ReportDays = PAGE_DAYS_MAX,
    window: ReportWindow = None,
    rebuild: Rebuild = False,
    as_is: AsIs = False,
    title: Title = None,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Write all tables and an HTML page that shows them.

    The page shows throughput, times, failures, usage and backlog. It is one file, which opens from a disk or a mail.

    Example: headrace pipeline report --title "Queues of acme" --tenant acme
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    window_ms = None if window is None else duration_ms("window", typed_duration(window))
    page, events_text = request.data_dir.report, None
    if as_is:
        line = ProgressLine(output)
        with spark_session(request.engine, line, 0) as spark:
            from headrace.pipeline.report.report import write_report

            line.stage("drawing")
            write_report(spark, request.data_dir, tenant=request.tenant, queue=request.queue, days=days, title=title)
    else:
        with open_events(request, output) as work:
            if work is None:
                return
            from headrace.pipeline.report.report import write_report
            from headrace.pipeline.tables.write import write_tables

            events_text = work.source
            write_tables(
                work.spark,
                work.events,
                request.data_dir,
                window_ms=window_ms,
                rebuild=rebuild,
                on_stage=lambda name: work.line.stage(f"{name}, from {work.source}"),
            )
            work.line.stage("drawing")
            write_report(
                work.spark, request.data_dir, tenant=request.tenant, queue=request.queue, days=days, title=title
            )
    output.document({"report": str(page), "bytes": page.stat().st_size})
    of = "" if events_text is None else f" from {events_text}"
    output.say(f"wrote {short_path(page)} ({page.stat().st_size / 1_024:,.0f} KiB){of}")
    if events_text is not None:
        say_selection(output, request, "jobs", "attempts", "errors", "usage")
    output.hint(f"open it in a browser: {page.as_uri()}")
