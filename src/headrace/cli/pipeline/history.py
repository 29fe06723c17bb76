"""`headrace pipeline history` and `compact`: every event into Parquet files, exactly once, and few files of them."""

from typing import Annotated, Literal

import typer

from headrace.cli.exit_codes import INTERRUPTED, OK
from headrace.cli.options import Json, Url
from headrace.cli.output import Output, counted
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import (
    ALL,
    FOLDER,
    MASTER,
    Conf,
    Dir,
    EventsMax,
    Every,
    Lossy,
    Master,
    MetricsHost,
    MetricsPort,
    Once,
    Queues,
    Tenants,
    engine,
    folder_of,
)
from headrace.cli.pipeline.progress import Followed, ProgressLine
from headrace.cli.pipeline.session import NOTHING, PipelineRequest, query_metrics, short, sparked
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.history.layout import GLOB

Payloads = Annotated[bool, typer.Option("--payloads", help="Payloads and results as well, while the store has them.")]
Form = Annotated[Literal["parquet", "delta"], typer.Option("--form", help="Plain files, or a Delta table.")]
ConsumerName = Annotated[
    str, typer.Option("--consumer", help="The name under which the journals remember how far this is.")
]
NoConsumer = Annotated[bool, typer.Option("--no-consumer", help="Leave nothing in the journals.")]
Hold = Annotated[bool, typer.Option("--hold", help="Let the journals keep what was not written yet (age and count).")]
UntilDay = Annotated[str | None, typer.Option("--until-day", metavar="DAY", help="Leave later days alone: 2030-01-31.")]


def history(
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    once: Once = False,
    every: Every = "10s",
    events_max: EventsMax = 200_000,
    payloads: Payloads = False,
    form: Form = "parquet",
    consumer: ConsumerName = "history",
    no_consumer: NoConsumer = False,
    hold: Hold = False,
    allow_loss: Lossy = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Write every event to files by day and queue, each exactly once, until Ctrl-C.

    It goes on where the folder ends, whatever has stopped it. DuckDB, Polars and Spark read the files as
    history/day=*/queue=*/*.parquet.
    """
    output, followed = Output(json=json), Followed()
    asked = PipelineRequest(url=url, dir=dir, tenant=tenant, queue=queue, engine=engine(master, conf))
    every_ms, data_dir = duration_ms("every", typed_duration(every)), asked.data_dir
    if no_consumer and hold:
        raise BadConfig("--hold is for a consumer, and --no-consumer was given; leave one out")
    found = asked.look()
    if not found.events and once:
        output.document({"events": 0, "history": str(data_dir.history)})
        output.say(NOTHING)
        return OK
    line = ProgressLine(output)
    with (
        sparked(asked.engine, line, found.events if once else None) as spark,
        query_metrics(spark, metrics_host, metrics_port, output),
    ):
        from headrace.pipeline.history.run import follow_history

        line.stage(f"history into {short(data_dir.history)}")
        query = follow_history(
            spark,
            asked.store,
            data_dir.history,
            tenant=tenant,
            queue=queue,
            once=once,
            every_ms=every_ms,
            events_max=events_max,
            payloads=payloads,
            form=form,
            consumer=None if no_consumer else consumer,
            hold=hold,
            fail_on_loss=not allow_loss,
        )
        far = followed.run(query, line)
    output.document(
        {
            "events": far.events,
            "batches": far.batches,
            "behind": far.behind,
            "skipped": far.skipped,
            "lost": far.lost,
            "seconds": followed.seconds,
            "history": str(data_dir.history),
            "glob": GLOB,
        }
    )
    followed.close(output, "history", far)
    output.say(f"  {short(data_dir.history)}/{GLOB}")
    output.hint(f"next: {asked.words('jobs')}, or {asked.words('report')}")
    return INTERRUPTED if followed.interrupted else OK


def compact(
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    until_day: UntilDay = None,
    json: Json = False,
) -> None:
    """Merge the small files of the history, beside whoever writes and reads it."""
    from headrace.pipeline.data_dir import DataDir
    from headrace.pipeline.history.state import read_state

    output, data_dir = Output(json=json), DataDir(folder_of(dir))
    if read_state(data_dir.history) is None:
        output.document({"folders": 0})
        output.say(
            f"there is no history in {short(data_dir.folder)} yet; write one with: headrace pipeline history --once"
        )
        return
    line = ProgressLine(output)
    with line.running(f"compacting {short(data_dir.history)}"):
        from headrace.pipeline.history.compact import compact as merge

        done = merge(
            data_dir.history,
            until_day=until_day,
            on_progress=lambda done, total: line.tell(f"{done:,}/{counted(total, 'folder')}", done, total),
        )
    output.document(done)
    if not done.folders:
        output.say("there was nothing to merge")
        return
    output.say(
        f"{done.files_before:,} files of {counted(done.folders, 'folder')} became {done.files_after:,}:"
        f" {done.bytes_before / 2**20:,.1f} MiB, now {done.bytes_after / 2**20:,.1f} MiB"
    )
