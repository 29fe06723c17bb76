"""Rows into jobs: a batch that is checked, then written, each row once however often it is run."""

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Pairs
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.model.errors import BadConfig
from headrace.model.times import Duration
from headrace.pipeline.flows.ingest.counts import Ingested, of_writes
from headrace.pipeline.flows.ingest.dry_run import look_at
from headrace.pipeline.flows.ingest.mapping import Mapping
from headrace.pipeline.flows.ingest.planned import Target, plan, whole_path
from headrace.pipeline.flows.ingest.telling import in_words
from headrace.pipeline.sinks import REPORT, enqueue
from headrace.pipeline.sql import at_run_time


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
    check: bool = True,
    report: str = REPORT,
    what: str = "mapping",
    made_by: Pairs[str, str] | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> Ingested:
    """Enqueue a job for each row of a frame, once however often it is run, and say what became of the rows.

    `mapping` says which column of a job is made of what (see `Mapping`); `queue`, `kind` and `tenant` are for rows that
    it does not give one. A row is known by `name` and its key for as long as `keep`: run again, it makes no job. Rows
    that are no job are kept in the folder `refused` with their reason (`read_refused`), which the driver and all
    executors must see. With `dry_run` nothing is written, and the counts say what would be.

    SQL that does not fit the rows raises `BadConfig` with one sentence before anything is written. Some of it fails
    only on a row's value, so with `check` the mapping is worked out for all rows first; a frame that is costly to read
    twice is best cached. `what`, and `made_by` (texts of SQL that made the frame, by their names), are what these
    sentences call the SQL. `on_stage` is told what is being done.
    """
    if frame.isStreaming:
        raise BadConfig("the frame is a stream, which has no end; use follow_rows")
    kept = None if refused is None else whole_path(refused)
    target = Target(name=name, queue=queue, kind=kind, tenant=tenant, shards=shards, keep=keep, refused=kept)
    planned = plan(frame, url, mapping, target, what)
    columns = mapping.columns if isinstance(mapping, Mapping) else dict(mapping or {})
    texts = dict(made_by or {}) | {f"{what} {column}": text for column, text in columns.items()}
    tell = on_stage or (lambda _: None)
    with in_words("the rows cannot be made into jobs"), _of_sql(texts):
        if dry_run:
            tell("making jobs of the rows, without sending them")
            return look_at(planned, name)
        if check:
            tell("checking the rows")
            # The key of a whole row costs the most, and cannot fail.
            checked = planned.frame if "key" in columns else planned.frame.drop("key")
            checked.write.format("noop").mode("overwrite").save()
        tell("sending jobs")
        given = {option: value for option, value in planned.given.items() if option not in ("url", "what")}
        written = enqueue(planned.frame, url, report=report, **given)
    return of_writes(name, [written], written.refused_folder)


@contextmanager
def _of_sql(texts: dict[str, str]) -> Iterator[None]:
    """Within this block, SQL that fails on a row is named; a frame that somebody else made has none to name."""
    if not texts:
        yield
        return
    with at_run_time(texts):
        yield
