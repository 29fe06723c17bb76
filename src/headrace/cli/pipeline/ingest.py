"""`headrace pipeline ingest`: rows of any table, file or stream that Spark reads, as jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.options import TENANT, DryRun, Json, Tenant, Url
from headrace.cli.output import Output, counted, one_line
from headrace.cli.parse import pairs, typed_duration
from headrace.cli.pipeline.options import (
    FOLDER,
    MASTER,
    Conf,
    Dir,
    Every,
    Master,
    Once,
    SparkEngine,
    engine,
    folder_of,
    spark_url,
)
from headrace.cli.pipeline.progress import Followed, ProgressLine
from headrace.cli.pipeline.session import reach, short, sparked
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms
from headrace.pipeline.packages import needing_spark

if TYPE_CHECKING:
    from headrace.pipeline.flows.ingest.report import IngestReport
    from headrace.pipeline.flows.ingest.source import Source


FEW_BYTES = 64 * 2**20
"""Files smaller than this are read before Java's better compiler has paid for itself."""
WHAT = "--map"
WORDS = {
    "created": "new jobs",
    "updated": "jobs that were waiting, and were changed",
    "blocked": "jobs that wait behind their active namesake",
    "duplicate": "written by an earlier run: nothing was done",
    "folded": "the key of another row: both are one job",
    "jobs": "jobs that would be sent",
}

Named = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A path, a pattern of paths, a table of Spark's catalog, or - for a format without a path, such as jdbc.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", show_default=False, help="parquet, csv, json, orc, text, delta, …; guessed from the name."
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of Spark's reader, as header=false; again for more."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option("--schema", show_default=False, help="The columns, as 'id bigint, name string', instead of a guess."),
]
Sql = Annotated[
    str | None, typer.Option("--sql", show_default=False, help="A query of the rows: 'select … from source'.")
]
Where = Annotated[str | None, typer.Option("--where", show_default=False, help="Only rows for which this SQL is true.")]
Name = Annotated[
    str,
    typer.Option("--name", help="What these rows' keys are unique in: the same name again makes no job a second time."),
]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="COLUMN=SQL",
        help="What a column of the jobs is made of: key=order_id, 'payload=struct(id, email)', run_at=due, …",
    ),
]
Kind = Annotated[str | None, typer.Option("--kind", show_default=False, help="The kind of all jobs, unless mapped.")]
QueueName = Annotated[
    str | None,
    typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", show_default=False, help="The queue, unless mapped."),
]
Shards = Annotated[
    int | None, typer.Option("--shards", min=1, show_default=False, help="Of a queue that is not there yet.")
]
Keep = Annotated[str, typer.Option("--keep", help="How long a row is known as written.")]
Refused = Annotated[
    str | None,
    typer.Option(
        "--refused", metavar="FOLDER", show_default=False, help="Where refused rows are kept; else below --dir."
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with files that come later, until Ctrl-C.")]
NoCheck = Annotated[
    bool, typer.Option("--no-check", help="Do not read all rows once before the first is written, to check the SQL.")
]


class IngestRequest(Struct, frozen=True, kw_only=True):
    """What is ingested, and where to."""

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
    """Where a stream remembers how far it is."""
    refused: Path
    engine: SparkEngine

    @property
    def said(self) -> str:
        """The source as a person would type it here."""
        if self.source.path is None:
            return str(self.source.format)
        return self.source.name if self.source.format is None else short(Path(self.source.name))

    @property
    def few(self) -> int | None:
        """None when nobody knows how many rows there are, or there are many."""
        files = [Path(self.source.name)] if self.source.format is not None else []
        sizes = [file.stat().st_size for file in files if file.is_file()]
        return 0 if sizes and sum(sizes) < FEW_BYTES else None


def ingest(
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
    no_check: NoCheck = False,
    dry_run: DryRun = False,
    url: Url = None,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Make a job of each row of a table, of files or of a stream of files, once however often it is run.

    Without --map, a job's payload is its whole row, and equal rows are one job. Refused rows are kept with their
    reason; it ends with 1 when there are some.
    """
    output = Output(json=json)
    if once and not follow:
        raise BadConfig("--once is for --follow, and without that everything is read once; leave it out")
    if follow and dry_run:
        raise BadConfig("--dry-run is for what is there now; leave out --follow")
    every_ms = duration_ms("every", typed_duration(every))
    asked = IngestRequest(
        source=source_of(source, format, pairs("--option", option or []), master),
        schema=schema,
        sql=sql,
        where=where,
        columns=pairs(WHAT, map or []),
        url=spark_url(url),
        name=name,
        kind=kind,
        queue=queue,
        tenant=tenant,
        shards=shards,
        keep=keep,
        folder=folder_of(dir) / "ingest" / name,
        refused=folder_of(dir) / "refused" / name if refused is None else folder_of(refused),
        engine=engine(master, conf),
    )
    _check(asked, dry_run=dry_run)
    return _follow(output, asked, every_ms, once=once) if follow else _batch(output, asked, dry_run, not no_check)


def _check(asked: IngestRequest, *, dry_run: bool) -> None:
    """Refuse what makes no sense, and a store that is not there, before Spark is started."""
    with needing_spark():
        from headrace.pipeline.flows.ingest.mapping import Mapping
        from headrace.pipeline.flows.ingest.run import IngestTarget

    target = IngestTarget(
        name=asked.name, queue=asked.queue, kind=asked.kind, tenant=asked.tenant, shards=asked.shards, keep=asked.keep
    )
    target.check(Mapping(asked.columns).columns)
    reach(asked.url, new=not dry_run)


def _batch(output: Output, asked: IngestRequest, dry_run: bool, check: bool) -> int:
    line = ProgressLine(output)
    with sparked(asked.engine, line, asked.few) as spark:
        from headrace.pipeline.flows.ingest.read import read_source
        from headrace.pipeline.flows.ingest.run import ingest_rows

        line.stage(f"reading {asked.said}")
        frame = read_source(spark, asked.source, schema=asked.schema, sql=asked.sql, where=asked.where, corrupt=True)
        done = ingest_rows(
            frame,
            asked.url,
            asked.columns,
            name=asked.name,
            queue=asked.queue,
            kind=asked.kind,
            tenant=asked.tenant,
            shards=asked.shards,
            keep=asked.keep,
            refused=asked.refused,
            dry_run=dry_run,
            check=check,
            what=WHAT,
            texts={name: text for name, text in (("--where", asked.where), ("--sql", asked.sql)) if text},
            on_stage=line.stage,
        )
    _tell(output, asked, done)
    return NO if done.refused else OK


def _follow(output: Output, asked: IngestRequest, every_ms: int, *, once: bool) -> int:
    line, followed = ProgressLine(output), Followed()
    with sparked(asked.engine, line, None) as spark:
        from headrace.pipeline.flows.ingest.read import one_line_errors, read_source
        from headrace.pipeline.flows.ingest.run import follow_rows, read_ingest_report

        line.stage(f"ingesting {asked.said}")
        frame = read_source(
            spark, asked.source, schema=asked.schema, sql=asked.sql, where=asked.where, follow=True, corrupt=True
        )
        query = follow_rows(
            frame,
            asked.url,
            asked.columns,
            asked.folder,
            name=asked.name,
            queue=asked.queue,
            kind=asked.kind,
            tenant=asked.tenant,
            shards=asked.shards,
            keep=asked.keep,
            refused=asked.refused,
            once=once,
            every_ms=every_ms,
            what=WHAT,
        )
        with one_line_errors("the rows cannot be made into jobs"):
            followed.run(query, line, tell=lambda far: line.tell(counted(far.events, "row")))
        done = read_ingest_report(spark, asked.url, query, name=asked.name, tenant=asked.tenant)
    _tell(output, asked, done)
    if followed.interrupted:
        return INTERRUPTED
    return NO if done.refused else OK


def _tell(output: Output, asked: IngestRequest, done: "IngestReport") -> None:
    output.document(done)
    rows: list[tuple[str, int, str]] = [
        (name, count, WORDS[name]) for name, count in done.counts().items() if count or name in ("created", "jobs")
    ]
    rows += [(f"refused: {why}", count, one_line(done.examples[why])) for why, count in sorted(done.refused.items())]
    output.table(("rows", "count#", "what"), rows, empty="")
    for sample in done.samples:
        output.say(f"  {one_line(sample)}")
    if done.dry:
        output.say(
            f"{counted(done.rows, 'row')}, and nothing was written; {done.existing:,} of the jobs exist in the store"
        )
        output.hint("next: the same without --dry-run")
        return
    output.say(f"{counted(done.rows, 'row')} of {asked.said} under the name {asked.name!r}")
    if done.refused_folder is not None:
        folder = Path(done.refused_folder)
        output.say(f"  refused rows are kept in {short(folder)}/{'*.parquet' if done.run else 'run=*/*.parquet'}")
        output.hint(
            "next: correct these rows and ingest them again under the same name; the others are not written twice"
        )
    else:
        output.hint("next: headrace worker, or headrace queues list")


def source_of(name: str, format: str | None, options: dict[str, str], master: str) -> "Source":  # noqa: A002 - as the option
    """The source of that name; refuses one that is not there, before Spark is started."""
    from headrace.pipeline.flows.ingest.source import find_source

    return find_source(name, format, options, local=master.startswith("local"))
