"""`headrace pipeline map`: runs a job for each row and writes the results to Parquet files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.options import AppName, Json, Url, load_placed_app, option_groups
from headrace.cli.output import Output, counted, one_line
from headrace.cli.parse import pairs, typed_duration
from headrace.cli.pipeline.fleet import Workers
from headrace.cli.pipeline.ingest import Format, Given, Named, Schema, Shards, Sql, Where, source_of
from headrace.cli.pipeline.options import FOLDER, Dir, Rows, SparkOptions, folder_of, spark_url
from headrace.cli.pipeline.progress import ProgressLine, StopSignal
from headrace.cli.pipeline.session import check_store, short_path, spark_session
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.packages import needing_spark

if TYPE_CHECKING:
    from headrace.pipeline.flows.map.results import MapProgress, MapReport

OUTCOMES = {
    "done": "have a result",
    "dead": "failed for good",
    "cancelled": "were cancelled",
    "open": "not finished: run again to continue",
    "lost": "the store no longer has the job",
    "refused": "cannot be a job, or conflict with another row of the key",
}
STAGES = {
    "reading": "reading rows",
    "enqueuing": "enqueuing",
    "running": "running jobs",
    "collecting": "collecting results",
}

Name = Annotated[str, typer.Option("--name", help="Name of the map; the same name continues where it ended.")]
Kind = Annotated[str, typer.Option("--kind", help="Kind of the jobs in the app.")]
Keys = Annotated[
    list[str], typer.Option("--key", metavar="SQL", help="Column or SQL that identifies a row; repeatable.")
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="SQL",
        show_default=False,
        help="Payload of a job, such as 'struct(id, email)'; by default, columns with the names of its arguments.",
    ),
]
By = Annotated[
    Literal["fleet", "workers"],
    typer.Option("--by", help="Run the jobs on this Spark (fleet), or wait for workers elsewhere (workers)."),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="FOLDER", show_default=False, help="Folder of the results; below --dir by default."),
]
Keep = Annotated[str, typer.Option("--keep", help="Time that the store keeps results.")]
Result = Annotated[
    str | None,
    typer.Option(
        "--result", metavar="TYPE", show_default=False, help="Type of the results, such as 'score double' or int."
    ),
]
QueueName = Annotated[
    str | None, typer.Option("--queue", "-q", show_default=False, help="Queue of the map; map-NAME by default.")
]
Capacity = Annotated[
    int | None, typer.Option("--capacity", "-c", show_default=False, help="Concurrent jobs of a worker.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", show_default=False, help="Threads of a worker for plain functions.")
]
Lease = Annotated[str | None, typer.Option("--lease", show_default=False, help="Lease of a job.")]
Grace = Annotated[
    str | None, typer.Option("--grace", show_default=False, help="Time that running jobs have to finish after Ctrl-C.")
]


@option_groups
def map(  # noqa: A001 - the command's name
    *,
    context: typer.Context,
    source: Named,
    kind: Kind,
    key: Keys,
    name: Name,
    app: AppName = None,
    url: Url = None,
    format: Format = None,  # noqa: A002 - the option's name
    option: Given = None,
    schema: Schema = None,
    sql: Sql = None,
    where: Where = None,
    payload: Payload = None,
    result: Result = None,
    by: By = "fleet",
    workers: Workers = None,
    capacity: Capacity = None,
    threads: Threads = None,
    lease: Lease = None,
    grace: Grace = None,
    queue: QueueName = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Tenant of the queue; that of the app by default.")
    ] = None,
    shards: Shards = None,
    keep: Keep = "7d",
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    to: To = None,
    limit: Rows = 10,
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Run a job for each row and write the results to Parquet files.

    Failures are rows of the results as well. After an interruption the same command continues where it ended, and runs
    no finished job again. Exits with 1 when a row has no result.

    Example: headrace pipeline map people.csv --kind enrich --key id --name people
    """
    output, stopping = Output(json=json), StopSignal()
    if app is None:
        raise BadConfig(
            "a map needs an app to run the jobs; name it with --app app:app, or in the [tool.headrace]"
            ' table of pyproject.toml as app = "app:app"'
        )
    origin = source_of(source, format, pairs("--option", option or []), spark_options.master)
    folder = folder_of(dir) / "map" / name if to is None else folder_of(to)
    arguments: dict[str, Any] = {
        "url": _store(context, app, url, kind, name, folder),
        "key": key,
        "name": name,
        "queue": queue,
        "tenant": tenant,
        "payload": payload,
        "by": by,
        "workers": workers,
        "keep": duration_ms("keep", typed_duration(keep)) / 1_000,
        "schema": result,
        "shards": shards,
        "folder": folder,
    }
    settings = {"capacity": capacity, "threads": threads, "lease": lease, "grace": grace}
    arguments |= {
        each: typed_duration(value) if isinstance(value, str) else value for each, value in settings.items() if value
    }
    line = ProgressLine(output)
    with spark_session(spark_options.engine, line, None) as spark:
        from headrace.pipeline.flows.ingest.source import read_source
        from headrace.pipeline.flows.map.results import count_errors
        from headrace.pipeline.flows.map.run import map_rows
        from headrace.pipeline.tables.summary import top

        line.stage(f"reading {origin.name}")
        frame = read_source(spark, origin, schema=schema, sql=sql, where=where)
        with stopping.handle_signals():
            report = map_rows(
                frame, app, kind, on_progress=_MapProgressLine(line), stopping=stopping.event, **arguments
            )
        groups, more = top(count_errors(report.frame), limit)
    _show(output, report, groups, more, folder)
    if stopping.interrupted:
        return INTERRUPTED
    return OK if set(report.outcomes) <= {"done"} else NO


def _store(context: typer.Context, app: str, url: str | None, kind: str, name: str, folder: Path) -> str:
    """The URL of the store; refuses arguments that cannot be mapped, before Spark is started."""
    with needing_spark():
        from headrace.pipeline.flows.map.keys import check_name
        from headrace.pipeline.flows.map.results import check_replaceable
        from headrace.pipeline.flows.map.rows import find_function

    loaded = load_placed_app(app, context, url)
    check_name(name)
    find_function(loaded, kind)
    check_replaceable(folder)
    store = spark_url(loaded.url)
    check_store(store, new=True)
    return store


class _MapProgressLine:
    """Shows the progress of a map in a line."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._step: str | None = None

    def __call__(self, progress: "MapProgress") -> None:
        if progress.step != self._step:
            self._step = progress.step
            self._line.stage(STAGES[progress.step])
        if progress.step == "running":
            dead = f" · {progress.dead:,} dead" if progress.dead else ""
            self._line.update(
                f"{progress.done:,} done{dead} · {progress.open:,} open",
                max(progress.rows - progress.open, 0),
                progress.rows,
            )


def _show(output: Output, report: "MapReport", groups: list[dict[str, Any]], more: int, folder: Path) -> None:
    output.document(
        {
            "name": report.name,
            "queue": report.queue.full_name,
            "tenant": report.queue.tenant,
            "rows": report.rows,
            "created": report.created,
            "duplicate": report.duplicate,
            "folded": report.folded,
            "outcomes": report.outcomes,
            "errors": groups,
            "folder": str(folder),
            "fleet": report.fleet,
        }
    )
    output.table(
        ("outcome", "rows#", "what"),
        [(outcome, count, OUTCOMES[outcome]) for outcome, count in report.outcomes.items()],
        empty="there are no rows",
    )
    if groups:
        output.table(
            ("outcome", "rows#", "class", "error"),
            [(each["outcome"], each["rows"], each["error_class"], one_line(each["example"] or "")) for each in groups],
            empty="",
        )
    if more:
        output.say(f"and {more:,} more kinds of failures in the files; --limit shows them")
    output.say(
        f"{counted(report.rows, 'row')}: {report.created:,} new jobs on queue {report.queue.full_name!r},"
        f" {report.duplicate:,} from earlier calls"
    )
    output.say(f"  results by key in {short_path(folder)}/*.parquet")
    if report.outcomes.get("dead"):
        output.hint(f"next: headrace dead replay --all -q {report.queue.full_name}, and the same command again")
