"""`headrace pipeline history` and `compact`: writes each event exactly once to a table by day, and merges its files."""

from typing import Annotated, Literal

import typer

from headrace.cli.exit_codes import INTERRUPTED, OK
from headrace.cli.options import Json, option_groups
from headrace.cli.output import Output, counted
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import (
    FOLDER,
    Dir,
    EventsMax,
    Every,
    Lossy,
    MetricsHost,
    MetricsPort,
    Once,
    SparkOptions,
    StoreOptions,
    data_folder,
)
from headrace.cli.pipeline.progress import ProgressLine, QueryRun
from headrace.cli.pipeline.session import NO_EVENTS, PipelineRequest, query_metrics, short_path, spark_session
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.packages import needing_spark

Payloads = Annotated[
    bool, typer.Option("--payloads", help="Write payloads and results as well, while the store has them.")
]
Form = Annotated[
    Literal["delta", "parquet"] | None,
    typer.Option(
        "--form",
        show_default=False,
        help="Format of a new history: delta where the package deltalake is installed, else parquet.",
    ),
]
Split = Annotated[
    Literal["tenant"] | None,
    typer.Option("--split", show_default=False, help="Give each tenant its own folders, to delete its events by."),
]
ConsumerName = Annotated[str, typer.Option("--consumer", help="Name of the checkpoint in the journals.")]
NoConsumer = Annotated[bool, typer.Option("--no-consumer", help="Keep no checkpoint in the journals.")]
Hold = Annotated[
    bool, typer.Option("--hold", help="Exempt events that are not written yet from the journals' retention.")
]
UntilDay = Annotated[str | None, typer.Option("--until-day", metavar="DAY", help="Last day to merge: 2030-01-31.")]


@option_groups
def history(
    *,
    source: StoreOptions,
    once: Once = False,
    every: Every = "10s",
    events_max: EventsMax = None,
    payloads: Payloads = False,
    form: Form = None,
    split: Split = None,
    consumer: ConsumerName = "history",
    no_consumer: NoConsumer = False,
    hold: Hold = False,
    allow_loss: Lossy = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Write every event to a table by day, each exactly once.

    Runs until Ctrl-C, and continues after a restart where the table ends. Spark, DuckDB, Polars and others that know
    Delta tables read it.

    Example: headrace pipeline history --dir /data --metrics-port 9464
    """
    output, query_run = Output(json=json), QueryRun()
    request = PipelineRequest.of(source, spark_options)
    every_ms, data_dir = duration_ms("every", typed_duration(every)), request.data_dir
    if no_consumer and hold:
        raise BadConfig("--hold needs a consumer, and --no-consumer was given; leave one out")
    backlog = request.read_backlog()
    if not backlog.events and once:
        output.document({"events": 0, "history": str(data_dir.history)})
        output.say(NO_EVENTS)
        return OK
    line = ProgressLine(output)
    with (
        spark_session(request.engine, line, backlog.events if once else None) as spark,
        query_metrics(spark, metrics_host, metrics_port, output),
    ):
        from headrace.pipeline.history.run import follow_history

        line.stage(f"history into {short_path(data_dir.history)}")
        query = follow_history(
            spark,
            request.store,
            data_dir.history,
            tenant=request.tenant,
            queue=request.queue,
            once=once,
            every_ms=every_ms,
            events_max=events_max,
            payloads=payloads,
            form=form,
            split=split,
            consumer=None if no_consumer else consumer,
            hold=hold,
            fail_on_loss=not allow_loss,
        )
        progress = query_run.follow(query, line)
    output.document(
        {
            "events": progress.events,
            "batches": progress.batches,
            "behind": progress.behind,
            "skipped": progress.skipped,
            "lost": progress.lost,
            "seconds": query_run.seconds,
            "history": str(data_dir.history),
        }
    )
    query_run.say_summary(output, "history", progress)
    output.say(f"  {short_path(data_dir.history)}")
    output.hint(f"next: {request.words('jobs')}, or {request.words('report')}")
    return INTERRUPTED if query_run.interrupted else OK


def compact(
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    until_day: UntilDay = None,
    json: Json = False,
) -> None:
    """Merge small files of the history, beside writers and readers.

    Example: headrace pipeline compact --until-day 2030-01-31
    """
    from headrace.pipeline.data_dir import DataDir

    with needing_spark():
        from headrace.pipeline.history.table import read_state

    output, data_dir = Output(json=json), DataDir(data_folder(dir))
    if read_state(data_dir.history) is None:
        output.document({"folders": 0})
        output.say(
            f"there is no history in {short_path(data_dir.folder)}; write one with: headrace pipeline history --once"
        )
        return
    line = ProgressLine(output)
    with line.running(f"compacting {short_path(data_dir.history)}"):
        from headrace.pipeline.history.table import compact as merge_files

        report = merge_files(
            data_dir.history,
            until_day=until_day,
            on_progress=lambda done, total: line.update(f"{done:,}/{counted(total, 'merge')}", done, total),
        )
    output.document(report)
    if not report.folders:
        output.say("no small files to merge")
        return
    output.say(
        f"{report.files_before:,} files of {counted(report.folders, 'day')} became {report.files_after:,}:"
        f" {report.bytes_before / 2**20:,.1f} MiB, now {report.bytes_after / 2**20:,.1f} MiB"
    )
