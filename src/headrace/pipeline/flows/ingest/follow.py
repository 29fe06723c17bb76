"""Rows of a stream into jobs: each once, over restarts."""

from collections.abc import Mapping as Pairs
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.errors import BadConfig
from headrace.model.names import DEFAULT_TENANT
from headrace.model.times import Duration
from headrace.model.validate import check_int
from headrace.pipeline.flows.ingest.counts import Ingested, of_writes
from headrace.pipeline.flows.ingest.mapping import Mapping
from headrace.pipeline.flows.ingest.planned import Target, plan, whole_path
from headrace.pipeline.history.layout import spark_path
from headrace.pipeline.sinks import REPORT
from headrace.pipeline.source.sink.result import Written

CHECKPOINT = "_checkpoint"
REFUSED = "refused"
"""Folders of a stream."""
_DAY_MS = 86_400_000


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
    """Enqueue a job for each row of a stream, once over restarts, and go on until the query is stopped.

    Starts a query and returns it: `awaitTermination()` waits for its end, `stop()` ends it, `read_followed` counts what
    it did. It remembers in `folder` how far it is, and keeps refused rows there, or in `refused`; `once` takes what is
    there now and ends. The other arguments are those of `ingest_rows`.

    SQL that does not fit the rows raises `BadConfig` before the query is started. A row's value that it fails on ends
    the query with part of the batch written: mend it, start again, and the rest is written.
    """
    if not frame.isStreaming:
        raise BadConfig("the frame is no stream; make it with spark.readStream, or use ingest_rows")
    check_int("every_ms", every_ms, 0, _DAY_MS)
    home = whole_path(folder)
    kept = f"{home}/{REFUSED}" if refused is None else whole_path(refused)
    target = Target(name=name, queue=queue, kind=kind, tenant=tenant, shards=shards, keep=keep, refused=kept)
    planned = plan(frame, url, mapping, target, what)
    writer = planned.frame.writeStream.format("headrace").queryName(f"ingest-{name}").outputMode("append")
    writer = writer.options(**planned.given, report=report)
    writer = writer.option("checkpointLocation", spark_path(Path(home) / CHECKPOINT))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_ms} milliseconds")
    return writer.start()


def read_followed(
    spark: SparkSession, url: str, query: StreamingQuery, *, name: str, tenant: str | None = None, report: str = REPORT
) -> Ingested:
    """What became of the rows that a query has written, over all its restarts, as far as the feed of reports knows: it
    has a report of each batch, and keeps the last 10,000."""
    options = {"url": url, "what": "feed", "tenant": tenant or DEFAULT_TENANT, "feed": report, "columns": "id,item"}
    items = spark.read.format("headrace").options(**options).load()
    found = items.where(items.id.startswith(f"{query.id}/")).collect()
    writes = [msgspec.json.decode(row.item, type=Written) for row in found]
    ended = [write for write in writes if write.ended_at_ms]
    folders = {str(Path(write.refused_folder).parent) for write in ended if write.refused_folder}
    return of_writes(name, ended, next(iter(folders), None))
