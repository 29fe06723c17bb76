"""Ingests rows as jobs, of a batch or a stream: checks the mapping first, and writes each row once."""

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Pairs
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.errors import BadConfig
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import bounded_repr, check_int, cut
from headrace.pipeline.flows.ingest.dry_run import dry_run_report
from headrace.pipeline.flows.ingest.mapping import Mapping, map_columns
from headrace.pipeline.flows.ingest.report import IngestReport, sum_writes
from headrace.pipeline.flows.ingest.source import one_line_errors
from headrace.pipeline.sinks import REPORT, enqueue
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.jobs import JobSink
from headrace.pipeline.source.sink.result import Written
from headrace.pipeline.source.store_access import check_master
from headrace.pipeline.sql import at_run_time
from headrace.pipeline.storage.location import Location

CHECKPOINT = "_checkpoint"
REFUSED = "refused"
"""Subfolders of a stream's folder."""
_DAY_MS = 86_400_000


def ingest_rows(
    frame: DataFrame,
    url: str,
    mapping: Mapping | Pairs[str, str] | None = None,
    *,
    name: str,
    queue: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    shards: int | None = None,
    keep: Duration = "30d",
    refused: str | Path | None = None,
    dry_run: bool = False,
    check: bool = False,
    report: str = REPORT,
    what: str = "mapping",
    texts: Pairs[str, str] | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> IngestReport:
    """Enqueue a job for each row of a frame, and report the outcomes. May be repeated: a row is one job.

    `mapping` gives the SQL for each column of a job (see `Mapping`); `queue`, `kind` and `tenant` are for columns that
    it leaves out. A row is identified by `name` and its key for as long as `keep`: later runs do not enqueue it again.
    Refused rows are kept with the reason in the folder `refused` (see `read_refused`), which the driver and all
    executors must see. A `dry_run` writes nothing and counts what would be written.

    SQL that does not fit the rows raises `BadConfig` with one sentence before anything is written. Some SQL fails only
    on the value of a row, and jobs of other rows may be written by then: correct the SQL and run it again. With `check`
    the mapping is evaluated for all rows first, which reads them twice. `what` names the mapping in such a sentence,
    and `texts` is other SQL of the frame by its name. `on_stage` is called with the name of each stage.
    """
    if frame.isStreaming:
        raise BadConfig("the frame is a stream, which has no end; use follow_rows")
    folder = None if refused is None else absolute_path(refused)
    target = IngestTarget(name=name, queue=queue, kind=kind, tenant=tenant, shards=shards, keep=keep, refused=folder)
    plan = IngestPlan.of(frame, url, mapping, target, what)
    columns = mapping.columns if isinstance(mapping, Mapping) else dict(mapping or {})
    named_sql = dict(texts or {}) | {f"{what} {column}": text for column, text in columns.items()}
    report_stage = on_stage or (lambda _: None)
    with one_line_errors("the rows cannot be made into jobs"), _sql_errors(named_sql):
        if dry_run:
            report_stage("making jobs of the rows, without sending them")
            return dry_run_report(plan.jobs, plan.options, name)
        if check:
            report_stage("checking the rows")
            # The key of a whole row costs the most, and cannot fail.
            checked = plan.jobs if "key" in columns else plan.jobs.drop("key")
            checked.write.format("noop").mode("overwrite").save()
        report_stage("sending jobs")
        options = {option: value for option, value in plan.texts.items() if option not in ("url", "what")}
        written = enqueue(plan.jobs, url, report=report, **options)
    return sum_writes(name, [written], written.refused_folder)


def follow_rows(
    frame: DataFrame,
    url: str,
    mapping: Mapping | Pairs[str, str] | None,
    folder: str | Path,
    *,
    name: str,
    queue: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    shards: int | None = None,
    keep: Duration = "30d",
    refused: str | Path | None = None,
    once: bool = False,
    every_ms: int = 10_000,
    report: str = REPORT,
    what: str = "mapping",
) -> StreamingQuery:
    """Enqueue a job for each row of a stream, once over restarts, until the query is stopped.

    Starts a query and returns it: `awaitTermination()` waits for its end, `stop()` ends it, `read_ingest_report` counts
    its rows. It keeps its checkpoint in `folder`, and refused rows there or in `refused`; `once` processes what is
    available now and ends. The other arguments are those of `ingest_rows`.

    SQL that does not fit the rows raises `BadConfig` before the query starts. SQL that fails on the value of a row ends
    the query with part of the batch written; correct it and start again, and the rest is written.
    """
    if not frame.isStreaming:
        raise BadConfig("the frame is not a stream; make it with spark.readStream, or use ingest_rows")
    check_int("every_ms", every_ms, 0, _DAY_MS)
    path = absolute_path(folder)
    refused_path = f"{path}/{REFUSED}" if refused is None else absolute_path(refused)
    target = IngestTarget(
        name=name, queue=queue, kind=kind, tenant=tenant, shards=shards, keep=keep, refused=refused_path
    )
    plan = IngestPlan.of(frame, url, mapping, target, what)
    writer = plan.jobs.writeStream.format("headrace").queryName(f"ingest-{name}").outputMode("append")
    writer = writer.options(**plan.texts, report=report)
    writer = writer.option("checkpointLocation", Location.parse(Path(path) / CHECKPOINT).spark_url)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_ms} milliseconds")
    return writer.start()


def read_ingest_report(
    spark: SparkSession, url: str, query: StreamingQuery, *, name: str, tenant: str | None = None, report: str = REPORT
) -> IngestReport:
    """What became of the rows of a stream, over all its restarts: by the feed of reports, which keeps the last 10,000
    batches."""
    options = {"url": url, "what": "feed", "tenant": tenant or DEFAULT_TENANT, "feed": report, "columns": "id,item"}
    items = spark.read.format("headrace").options(**options).load()
    rows = items.where(items.id.startswith(f"{query.id}/")).collect()
    writes = [msgspec.json.decode(row.item, type=Written) for row in rows]
    ended = [write for write in writes if write.ended_at_ms]
    folders = {str(Path(write.refused_folder).parent) for write in ended if write.refused_folder}
    return sum_writes(name, ended, next(iter(folders), None))


class IngestTarget(Struct, frozen=True, kw_only=True):
    """Where rows go whose mapping does not say it, and how long their keys are kept."""

    name: str
    """The namespace of the rows' keys."""
    queue: str | None = None
    """None is the default queue, unless the mapping has one."""
    kind: str | None = None
    tenant: str | None = None
    shards: int | None = None
    keep: Duration = "30d"
    refused: str | None = None
    """The folder of refused rows; None keeps none."""

    def check(self, columns: Pairs[str, str]) -> None:
        """Refuse invalid values, whatever the rows are."""
        WriteOptions.parse({"url": "redis://nowhere"} | self.options(columns))

    def options(self, columns: Pairs[str, str]) -> dict[str, str]:
        """The options of the write, without its URL."""
        if "kind" not in columns and self.kind is None:
            raise BadConfig("the jobs have no kind; give one (--kind), or map one (--map kind=…)")
        if "/" in self.name or not self.name.isprintable() or self.name in ("", ".", ".."):
            raise BadConfig(f"the name of an ingest is {cut(self.name)!r}; use printable characters other than '/'")
        keep_ms = duration_ms("keep", self.keep)
        if not keep_ms:
            raise BadConfig("keep is 0; give how long keys are remembered, such as 30d")
        options = {
            "what": "jobs",
            "name": self.name,
            "queue": self.queue or (None if "queue" in columns else DEFAULT_QUEUE),
            "kind": self.kind,
            "tenant": self.tenant,
            "shards": None if self.shards is None else str(self.shards),
            "keyTtl": f"{keep_ms}ms",
            "refusals": "count",
            "refusedDir": self.refused,
        }
        return {option: value for option, value in options.items() if value is not None}


class IngestPlan(Struct, frozen=True):
    """An ingest that was checked, without reading a row or the store."""

    jobs: DataFrame
    """The rows as columns of jobs."""
    texts: dict[str, str]
    """The options of the write, as Spark takes them."""
    options: WriteOptions

    @staticmethod
    def of(
        frame: DataFrame, url: str, mapping: Mapping | Pairs[str, str] | None, target: IngestTarget, what: str
    ) -> "IngestPlan":
        """The plan of an ingest; raises `BadConfig` with one sentence."""
        checked = mapping if isinstance(mapping, Mapping) else Mapping(dict(mapping or {}))
        texts = {"url": url} | target.options(checked.columns)
        options = WriteOptions.parse(texts)
        check_master(url, frame.sparkSession)
        jobs = map_columns(frame, checked, what)
        JobSink(options, jobs.schema)  # checks the types of the columns
        return IngestPlan(jobs, texts, options)


def absolute_path(folder: str | Path) -> str:
    """The absolute path of a folder: Spark's processes may run in another one."""
    if "://" in str(folder):
        raise BadConfig(
            f"{bounded_repr(folder)} is a URL instead of a folder; mount it under the same path where the driver"
            " and all executors see it, and give that path"
        )
    return str(Path(folder).expanduser().absolute())


@contextmanager
def _sql_errors(texts: dict[str, str]) -> Iterator[None]:
    """Within this block, an error on a row names the SQL that failed, if there is any."""
    if not texts:
        yield
        return
    with at_run_time(texts):
        yield
