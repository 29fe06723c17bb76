"""`headrace pipeline ingest`: makes a job of each row of files, a table or a stream."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.options import TENANT, DryRun, Json, Tenant, Url, option_groups
from headrace.cli.output import Output, counted, one_line
from headrace.cli.parse import pairs, typed_duration
from headrace.cli.pipeline.options import (
    FOLDER,
    Dir,
    Every,
    Once,
    SparkEngine,
    SparkOptions,
    folder_of,
    spark_url,
)
from headrace.cli.pipeline.progress import ProgressLine, QueryRun
from headrace.cli.pipeline.session import check_store, short_path, spark_session
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.packages import needing_spark

if TYPE_CHECKING:
    from headrace.pipeline.flows.ingest.report import IngestReport
    from headrace.pipeline.flows.ingest.source import Source


FEW_BYTES = 64 * 2**20
"""Below this, Java's optimizing compiler costs more time than it saves."""
MAP = "--map"
OUTCOMES = {
    "created": "new jobs",
    "updated": "waiting jobs that were changed",
    "blocked": "jobs that wait behind an active job with their id",
    "duplicate": "written by an earlier run",
    "folded": "have the key of another row: both are one job",
    "jobs": "jobs that would be sent",
}

Named = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Path, pattern of paths, table of Spark's catalog, or - for a format without a path, such as jdbc.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", show_default=False, help="Format: parquet, csv, json, orc, text, delta, …; by the name by default."
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Option of Spark's reader, such as header=false; repeatable."),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", show_default=False, help="Columns, such as 'id bigint, name string'; inferred by default."
    ),
]
Sql = Annotated[
    str | None, typer.Option("--sql", show_default=False, help="Query over the rows: 'select … from source'.")
]
Where = Annotated[str | None, typer.Option("--where", show_default=False, help="Condition on the rows in SQL.")]
Name = Annotated[
    str,
    typer.Option("--name", help="Namespace of the rows' keys: under one name, each row becomes one job."),
]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="COLUMN=SQL",
        help="SQL for a column of the jobs: key=order_id, 'payload=struct(id, email)', run_at=due, …; repeatable.",
    ),
]
Kind = Annotated[str | None, typer.Option("--kind", show_default=False, help="Kind of all jobs, unless mapped.")]
QueueName = Annotated[
    str | None,
    typer.Option(
        "--queue", "-q", envvar="HEADRACE_QUEUE", show_default=False, help="Queue of all jobs, unless mapped."
    ),
]
Shards = Annotated[
    int | None, typer.Option("--shards", min=1, show_default=False, help="Shards of a queue that does not exist yet.")
]
Keep = Annotated[str, typer.Option("--keep", help="Time that keys are remembered.")]
Refused = Annotated[
    str | None,
    typer.Option(
        "--refused", metavar="FOLDER", show_default=False, help="Folder of refused rows; below --dir by default."
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="Continue with new files until Ctrl-C.")]
Check = Annotated[
    bool,
    typer.Option("--check", help="Evaluate the SQL on all rows before the first is written; reads the source twice."),
]


class IngestRequest(Struct, frozen=True, kw_only=True):
    """The options of an ingest."""

    source: "Source"
    schema: str | None
    sql: str | None
    where: str | None
    columns: dict[str, str]
    url: str
    name: str
    kind: str | None
    queue: str | None
    tenant: str
    shards: int | None
    keep: str
    folder: Path
    """Folder of a stream's checkpoint."""
    refused: Path
    engine: SparkEngine

    @property
    def source_text(self) -> str:
        """The source as typed here."""
        if self.source.path is None:
            return str(self.source.format)
        return self.source.name if self.source.format is None else short_path(Path(self.source.name))

    @property
    def events(self) -> int | None:
        """0 for a small file, which needs no tuning of Spark; None for others."""
        files = [Path(self.source.name)] if self.source.format is not None else []
        sizes = [file.stat().st_size for file in files if file.is_file()]
        return 0 if sizes and sum(sizes) < FEW_BYTES else None


@option_groups
def ingest(
    *,
    source: Named,
    name: Name,
    format: Format = None,  # noqa: A002 - the option's name
    option: Given = None,
    schema: Schema = None,
    sql: Sql = None,
    where: Where = None,
    map: Maps = None,  # noqa: A002 - the option's name
    kind: Kind = None,
    queue: QueueName = None,
    tenant: Tenant = TENANT,
    shards: Shards = None,
    keep: Keep = "30d",
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    refused: Refused = None,
    follow: Follow = False,
    once: Once = False,
    every: Every = "10s",
    check: Check = False,
    dry_run: DryRun = False,
    url: Url = None,
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Make a job of each row of files, a table or a stream.

    Further runs under the same name make no job twice. Without --map, a job's payload is its whole row, and equal rows
    are one job. Refused rows are kept with the reason. Exits with 1 when a row was refused.

    Example: headrace pipeline ingest orders.csv --name orders --kind ship
    """
    output = Output(json=json)
    if once and not follow:
        raise BadConfig("--once is for --follow; without it, all rows are read once: leave it out")
    if follow and dry_run:
        raise BadConfig("--dry-run has no end with --follow; leave one out")
    every_ms = duration_ms("every", typed_duration(every))
    request = IngestRequest(
        source=source_of(source, format, pairs("--option", option or []), spark_options.master),
        schema=schema,
        sql=sql,
        where=where,
        columns=pairs(MAP, map or []),
        url=spark_url(url),
        name=name,
        kind=kind,
        queue=queue,
        tenant=tenant,
        shards=shards,
        keep=keep,
        folder=folder_of(dir) / "ingest" / name,
        refused=folder_of(dir) / "refused" / name if refused is None else folder_of(refused),
        engine=spark_options.engine,
    )
    _check(request, dry_run=dry_run)
    return _follow(output, request, every_ms, once=once) if follow else _batch(output, request, dry_run, check)


def _check(request: IngestRequest, *, dry_run: bool) -> None:
    """Refuse wrong options, and a store that cannot be reached, before Spark is started."""
    with needing_spark():
        from headrace.pipeline.flows.ingest.mapping import Mapping
        from headrace.pipeline.flows.ingest.run import IngestTarget

    target = IngestTarget(
        name=request.name,
        queue=request.queue,
        kind=request.kind,
        tenant=request.tenant,
        shards=request.shards,
        keep=request.keep,
    )
    target.check(Mapping(request.columns).columns)
    check_store(request.url, new=not dry_run)


def _batch(output: Output, request: IngestRequest, dry_run: bool, check: bool) -> int:
    line = ProgressLine(output)
    with spark_session(request.engine, line, request.events) as spark:
        from headrace.pipeline.flows.ingest.run import ingest_rows
        from headrace.pipeline.flows.ingest.source import read_source

        line.stage(f"reading {request.source_text}")
        frame = read_source(
            spark, request.source, schema=request.schema, sql=request.sql, where=request.where, corrupt=True
        )
        report = ingest_rows(
            frame,
            request.url,
            request.columns,
            name=request.name,
            queue=request.queue,
            kind=request.kind,
            tenant=request.tenant,
            shards=request.shards,
            keep=request.keep,
            refused=request.refused,
            dry_run=dry_run,
            check=check,
            what=MAP,
            texts={name: text for name, text in (("--where", request.where), ("--sql", request.sql)) if text},
            on_stage=line.stage,
        )
    _show(output, request, report)
    return NO if report.refused else OK


def _follow(output: Output, request: IngestRequest, every_ms: int, *, once: bool) -> int:
    line, query_run = ProgressLine(output), QueryRun()
    with spark_session(request.engine, line, None) as spark:
        from headrace.pipeline.flows.ingest.run import follow_rows, read_ingest_report
        from headrace.pipeline.flows.ingest.source import one_line_errors, read_source

        line.stage(f"ingesting {request.source_text}")
        frame = read_source(
            spark,
            request.source,
            schema=request.schema,
            sql=request.sql,
            where=request.where,
            follow=True,
            corrupt=True,
        )
        query = follow_rows(
            frame,
            request.url,
            request.columns,
            request.folder,
            name=request.name,
            queue=request.queue,
            kind=request.kind,
            tenant=request.tenant,
            shards=request.shards,
            keep=request.keep,
            refused=request.refused,
            once=once,
            every_ms=every_ms,
            what=MAP,
        )
        with one_line_errors("the rows cannot be made into jobs"):
            query_run.follow(query, line, on_progress=lambda progress: line.update(counted(progress.events, "row")))
        report = read_ingest_report(spark, request.url, query, name=request.name, tenant=request.tenant)
    _show(output, request, report)
    if query_run.interrupted:
        return INTERRUPTED
    return NO if report.refused else OK


def _show(output: Output, request: IngestRequest, report: "IngestReport") -> None:
    output.document(report)
    rows: list[tuple[str, int, str]] = [
        (name, count, OUTCOMES[name]) for name, count in report.counts().items() if count or name in ("created", "jobs")
    ]
    rows += [
        (f"refused: {reason}", count, one_line(report.examples[reason]))
        for reason, count in sorted(report.refused.items())
    ]
    output.table(("rows", "count#", "what"), rows, empty="")
    for sample in report.samples:
        output.say(f"  {one_line(sample)}")
    if report.dry:
        output.say(
            f"{counted(report.rows, 'row')}, and nothing was written; the store has {report.existing:,} of the jobs"
        )
        output.hint("next: run it without --dry-run")
        return
    output.say(f"{counted(report.rows, 'row')} of {request.source_text} under the name {request.name!r}")
    if report.refused_folder is not None:
        folder = Path(report.refused_folder)
        output.say(
            f"  refused rows are kept in {short_path(folder)}/{'*.parquet' if report.run else 'run=*/*.parquet'}"
        )
        output.hint(
            "next: correct these rows and ingest them again under the same name; the others are not written twice"
        )
    else:
        output.hint("next: headrace worker, or headrace queues list")


def source_of(name: str, format: str | None, options: dict[str, str], master: str) -> "Source":  # noqa: A002 - as the option
    """The source of this name; refuses an unknown one before Spark is started."""
    with needing_spark():
        from headrace.pipeline.flows.ingest.source import find_source

    return find_source(name, format, options, local=master.startswith("local"))
