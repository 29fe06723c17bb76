"""`headrace pipeline map`: rows through the jobs of an app, and their results as a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.options import AppName, Json, Url, load_placed_app
from headrace.cli.output import Output, counted, one_line
from headrace.cli.parse import pairs, typed_duration
from headrace.cli.pipeline.fleet import Workers
from headrace.cli.pipeline.ingest import Format, Given, Named, Schema, Shards, Sql, Where, source_of
from headrace.cli.pipeline.options import FOLDER, MASTER, Conf, Dir, Master, Rows, engine, folder_of, spark_url
from headrace.cli.pipeline.progress import ProgressLine, Stopping
from headrace.cli.pipeline.session import reach, short, sparked
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.packages import needing_spark

if TYPE_CHECKING:
    from headrace.pipeline.flows.map.results import MapProgress, MapReport

WORDS = {
    "done": "with a result",
    "dead": "failed for good",
    "cancelled": "cancelled by somebody",
    "open": "not over: call again to go on",
    "lost": "the store knows nothing of them any more",
    "refused": "cannot be a job, or another row has the key",
}
STAGES = {"reading": "reading rows", "enqueuing": "enqueuing", "running": "running jobs", "collecting": "results"}

Name = Annotated[str, typer.Option("--name", help="Of this map: the same name again goes on where it ended.")]
Kind = Annotated[str, typer.Option("--kind", help="The kind of the jobs, as the app knows it.")]
Keys = Annotated[
    list[str], typer.Option("--key", metavar="SQL", help="What makes a row one piece of work; again for more columns.")
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="SQL",
        show_default=False,
        help="What a job is given, as 'struct(id, email)'; else the columns that its function takes, by name.",
    ),
]
By = Annotated[
    Literal["fleet", "workers"],
    typer.Option("--by", help="Run the jobs on this Spark, or wait until workers elsewhere have done them."),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="FOLDER", show_default=False, help="Where the results are written; else below --dir."),
]
Keep = Annotated[str, typer.Option("--keep", help="How long the store keeps a result for who comes again.")]
Result = Annotated[
    str | None,
    typer.Option("--result", metavar="TYPE", show_default=False, help="What results are, as 'score double', or int."),
]
QueueName = Annotated[
    str | None, typer.Option("--queue", "-q", show_default=False, help="Its queue; map-NAME when not given.")
]
Capacity = Annotated[int | None, typer.Option("--capacity", "-c", show_default=False, help="Jobs at once per worker.")]
Threads = Annotated[int | None, typer.Option("--threads", show_default=False, help="Plain functions at once.")]
Lease = Annotated[str | None, typer.Option("--lease", show_default=False, help="Of the workers of the fleet.")]
Grace = Annotated[str | None, typer.Option("--grace", show_default=False, help="For running jobs after Ctrl-C.")]


def map(  # noqa: A001 - the command's name
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
        str | None, typer.Option("--tenant", help="Whose its queue is; the app's tenant when not given.")
    ] = None,
    shards: Shards = None,
    keep: Keep = "7d",
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    to: To = None,
    limit: Rows = 10,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Have a job of an app done for each row, and write the results by key to Parquet files; failures are rows, too.

    Interrupted or killed, the same command goes on where it ended, and runs nothing a second time. It ends with 1 when
    some row has no result.
    """
    output, stopping = Output(json=json), Stopping()
    if app is None:
        raise BadConfig(
            "a map needs an app, whose jobs the rows go through; name it with --app app:app, or in the [tool.headrace]"
            ' table of pyproject.toml as app = "app:app"'
        )
    found = source_of(source, format, pairs("--option", option or []), master)
    folder = folder_of(dir) / "map" / name if to is None else folder_of(to)
    given: dict[str, Any] = {
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
    given |= {
        each: typed_duration(value) if isinstance(value, str) else value for each, value in settings.items() if value
    }
    line = ProgressLine(output)
    with sparked(engine(master, conf), line, None) as spark:
        from headrace.pipeline.flows.ingest.read import read_source
        from headrace.pipeline.flows.map.results import count_errors
        from headrace.pipeline.flows.map.run import map_rows
        from headrace.pipeline.tables.summary import top

        line.stage(f"reading {found.name}")
        frame = read_source(spark, found, schema=schema, sql=sql, where=where)
        with stopping.heard():
            done = map_rows(frame, app, kind, on_progress=_Told(line), stopping=stopping.asked, **given)
        groups, more = top(count_errors(done.frame), limit)
    _tell(output, done, groups, more, folder)
    if stopping.interrupted:
        return INTERRUPTED
    return OK if set(done.outcomes) <= {"done"} else NO


def _store(context: typer.Context, app: str, url: str | None, kind: str, name: str, folder: Path) -> str:
    """The URL of the store; refuses, before Spark is started, what cannot be mapped."""
    with needing_spark():
        from headrace.pipeline.flows.map.keys import check_name
        from headrace.pipeline.flows.map.payload_check import find_function
        from headrace.pipeline.parquet_table import check_replaceable

    found = load_placed_app(app, context, url)
    check_name(name)
    find_function(found, kind)
    check_replaceable(folder)
    store = spark_url(found.url)
    reach(store, new=True)
    return store


class _Told:
    """Tells the line how far a map is."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._step: str | None = None

    def __call__(self, far: "MapProgress") -> None:
        if far.step != self._step:
            self._step = far.step
            self._line.stage(STAGES[far.step])
        if far.step == "running":
            dead = f" · {far.dead:,} dead" if far.dead else ""
            self._line.tell(f"{far.done:,} done{dead} · {far.open:,} open", max(far.rows - far.open, 0), far.rows)


def _tell(output: Output, done: "MapReport", groups: list[dict[str, Any]], more: int, folder: Path) -> None:
    output.document(
        {
            "name": done.name,
            "queue": done.queue.full_name,
            "tenant": done.queue.tenant,
            "rows": done.rows,
            "created": done.created,
            "duplicate": done.duplicate,
            "folded": done.folded,
            "outcomes": done.outcomes,
            "errors": groups,
            "folder": str(folder),
            "fleet": done.fleet,
        }
    )
    output.table(
        ("outcome", "rows#", "what"),
        [(outcome, count, WORDS[outcome]) for outcome, count in done.outcomes.items()],
        empty="there are no rows",
    )
    if groups:
        output.table(
            ("outcome", "rows#", "class", "error"),
            [(each["outcome"], each["rows"], each["error_class"], one_line(each["example"] or "")) for each in groups],
            empty="",
        )
    if more:
        output.say(f"and {more:,} more sorts of failure in the files; --limit shows them here")
    output.say(
        f"{counted(done.rows, 'row')}: {done.created:,} new jobs on queue {done.queue.full_name!r},"
        f" {done.duplicate:,} from earlier calls"
    )
    output.say(f"  results by key in {short(folder)}/*.parquet")
    if done.outcomes.get("dead"):
        output.hint(f"next: headrace dead replay --all -q {done.queue.full_name}, and the same command again")
