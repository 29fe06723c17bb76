"""Maps rows through jobs: enqueues one for each row, waits for their end, and returns the results as a frame."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import DataType

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.client.background import StorePortal
from headrace.client.tasks import retry
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.limits import DURATION_MS_MAX, KEY_KEEP_MS, MAP_POLL_MS, RETENTION_MAX
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.model.times import Duration, duration_ms
from headrace.pipeline.flows.fleet.report import FleetProgress, FleetReport
from headrace.pipeline.flows.fleet.run import check_fleet, executor_url, run_fleet
from headrace.pipeline.flows.map.keys import Key, check_name, key_of
from headrace.pipeline.flows.map.results import (
    OUTCOMES,
    ROW_COLUMNS,
    MapProgress,
    MapReport,
    check_table,
    map_results,
    merge_results,
    no_jobs,
    read_jobs,
    read_results,
    replace_table,
    result_type_of,
)
from headrace.pipeline.flows.map.rows import (
    MapFunction,
    MapRows,
    check_samples,
    find_function,
    job_columns,
    payload_sql,
    persist_rows,
)
from headrace.pipeline.sinks import Written, enqueue
from headrace.pipeline.source.store_access import check_url
from headrace.pipeline.spark_errors import unwrap_errors
from headrace.pipeline.spark_session import refuse_connect
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store

OnProgress = Callable[[MapProgress], None]


def map_rows(
    frame: DataFrame,
    app: App | str,
    kind: str | JobTemplate[..., Any],
    *,
    key: str | Sequence[str],
    name: str,
    url: str | None = None,
    queue: str | Queue | None = None,
    tenant: str | None = None,
    payload: str | None = None,
    by: Literal["fleet", "workers"] = "fleet",
    workers: int | None = None,
    keep: Duration = "7d",
    schema: str | None = None,
    shards: int | None = None,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
    stopping: threading.Event | None = None,
    **config: Any,
) -> MapReport:
    """Run a job for each key of a frame, and return the results as a frame, in which failures are rows as well.

    `app` is the app or its name (`shop.jobs:app`), `kind` the kind of its jobs or the job function itself. The function
    takes the columns of a row as arguments of the same names; `payload` is SQL for other arguments, as in
    `struct(id, upper(email) AS email)`. `key` is the column or SQL expression that identifies a row, or several.
    `schema` (`score double, tags array<string>`, or `int`) parses the results.

    A fleet on this Spark runs the jobs, with `workers` slots and the worker settings `config`. With `by="workers"`,
    workers elsewhere run them, and the call waits. The queue is `map-<name>` unless one is given, which must serve this
    map only: the map ends when nothing waits or runs there.

    Another call with the same `name` continues where the last one ended, however it ended: finished jobs do not run
    again, and their results are available for `keep`. A row whose key was mapped before with other data is refused in
    the results. With `folder` the results are a table of Parquet files there, replaced in one step; the table keeps
    results of other keys, and results that the store has dropped. `on_progress` is called with the progress; when
    `stopping` is set, unfinished jobs are `open` in the results.

    Raises `BadConfig` before anything is written if the rows do not fit the function.
    """
    refuse_connect(frame.sparkSession, "map")
    report, stop = on_progress or _ignore, stopping or threading.Event()
    _check_by(by, workers, config)
    check_name(name)
    with unwrap_errors():
        function = find_function(app, kind)
        plan = _MapPlan(
            name=name,
            url=check_url(executor_url(url if url is not None else function.app.url)),
            queue=_queue(queue or f"map-{name}", tenant or function.app.maker.tenant, shards or 1),
            owns_queue=queue is None,
            app=app,
            function=function,
            key=key_of(frame, key),
            payload=payload_sql(function, frame, payload),
            keep_ms=_keep_ms(keep),
            result_type=result_type_of(frame, schema),
            folder=folder,
            by=by,
            workers=workers,
            config=config,
        )
        plan.check(frame)
        report(MapProgress("reading"))
        persisted = persist_rows(frame, plan.key, plan.payload, function.kind, name)
        with persisted as rows, watch_queue(plan.url, plan.queue) as watch:
            check_samples(function, rows.samples)
            report(MapProgress("enqueuing", rows.count))
            written = _enqueue(plan, rows)
            exists = watch.find()
            fleet = _run_jobs(plan, frame, rows, watch, report, stop) if exists else None
            report(MapProgress("collecting", rows.count))
            results = _collect(plan, frame, rows, exists=exists)
    counts = {row.outcome: row["count"] for row in results.groupBy("outcome").count().collect()}
    return MapReport(
        frame=results,
        name=name,
        queue=watch.queue,
        rows=rows.count,
        created=written.created,
        duplicate=written.duplicate,
        folded=written.folded,
        outcomes={outcome: counts[outcome] for outcome in OUTCOMES if outcome in counts},
        folder=folder,
        fleet=fleet,
    )


class _MapPlan(Struct, frozen=True, kw_only=True):
    """The arguments of a map, checked."""

    name: str
    url: str
    queue: Queue
    owns_queue: bool
    """Whether the map may configure the queue."""
    app: App | str
    function: MapFunction
    key: Key
    payload: str
    """SQL."""
    keep_ms: int
    result_type: DataType | None
    folder: Path | None
    by: str
    workers: int | None
    config: dict[str, Any]

    def check(self, frame: DataFrame) -> None:
        """Refuse a table that cannot be replaced, and a fleet that could not run."""
        if self.folder is not None:
            check_table(frame.sparkSession, self.folder, self.key, self.result_type)
        if self.by == "fleet":
            fields = self.fleet_config(self.queue)
            check_fleet(frame.sparkSession, self.app, url=self.url, workers=self.workers, **fields)

    def fleet_config(self, queue: Queue) -> dict[str, Any]:
        """The settings of a fleet's workers on the map's queue."""
        return {**self.config, "queues": [queue], "tenant": queue.tenant}


def _queue(queue: str | Queue, tenant: str, shards: int) -> Queue:
    return queue if isinstance(queue, Queue) else Queue(queue, tenant, shards)


def _keep_ms(keep: Duration) -> int:
    keep_ms = duration_ms("keep", keep)
    if not keep_ms:
        raise BadConfig("keep is 0; give how long results are kept until they are collected, such as 7d")
    return keep_ms


def _check_by(by: str, workers: int | None, config: dict[str, Any]) -> None:
    if by not in ("fleet", "workers"):
        raise BadConfig(
            f"by is {by!r}; give fleet, which runs the jobs on this Spark, or workers, which waits for them"
        )
    if by == "workers" and (workers is not None or config):
        names = ", ".join((*(["workers"] if workers is not None else []), *config))
        raise BadConfig(f"{names} is for by='fleet'; workers elsewhere have their own settings; leave it out")
    if "queues" in config:
        raise BadConfig("a map has one queue; name it with queue")


def _enqueue(plan: _MapPlan, rows: MapRows) -> Written:
    """Enqueue the jobs that do not exist; a row whose key has another job shows up as a conflict in the results."""
    options: dict[str, str | int | bool] = {
        "queue": plan.queue.full_name,
        "tenant": plan.queue.tenant,
        "shards": plan.queue.shards,
        "name": f"map-{plan.name}",
        # Longer than the results of a map of a month are kept: finished jobs must not run again.
        "keyTtl": f"{min(plan.keep_ms + KEY_KEEP_MS, DURATION_MS_MAX)}ms",
        "refusals": "count",
    }
    written = enqueue(job_columns(rows, plan.function.job(), plan.keep_ms), plan.url, **options)
    others = {reason: count for reason, count in written.refused.items() if reason != "conflict"}
    if others:
        reason = max(others, key=lambda each: others[each])
        raise Refused(
            reason,
            f"{sum(others.values()):,} of {rows.count:,} rows were refused and all others enqueued:"
            f" {written.examples[reason]}; then map them again, which continues from here",
        )
    return written


class QueueWatch:
    """The queue of a map, as the driver sees it."""

    def __init__(self, portal: StorePortal, queue: Queue) -> None:
        self._portal = portal
        self.queue = queue
        """With the number of shards in the store, once `find` was called."""

    def find(self) -> bool:
        """Look the queue up; whether it exists."""
        name = self.queue
        queue = self._portal.call(lambda store: retry(lambda: find_queue(store, name.tenant, name.full_name)))
        self.queue = queue or name
        return queue is not None

    def counts(self) -> Counts:
        """The jobs of the queue by state."""
        return self._portal.call(lambda store: retry(lambda: store.queues.counts(self.queue)))

    def poll(self, on_counts: Callable[[Counts], None]) -> Counts | None:
        """Read and report the counts; None when the store does not answer, which the workers wait for as well."""
        try:
            counts = self.counts()
        except (StoreUnavailable, OutcomeUnknown):
            return None
        on_counts(counts)
        return counts

    def wait(self, on_counts: Callable[[Counts], None], stopping: threading.Event) -> None:
        """Wait until the queue is drained, or `stopping` is set."""
        counts: Counts | None = self.counts()
        while (counts is None or counts.open) and not stopping.wait(MAP_POLL_MS / 1_000):
            counts = self.poll(on_counts)

    def keep_dead_letters(self, rows: int, keep_ms: int) -> None:
        """Raise the retention of dead letters to that of the results, so that none of a map's rows is dropped."""

        async def configure(store: Store) -> None:
            config = await store.queues.configuration(self.queue)
            wanted = {"keep_dead_max": min(rows, RETENTION_MAX), "keep_dead_ms": keep_ms}
            changes = {name: value for name, value in wanted.items() if getattr(config, name) < value}
            if changes:
                await store.queues.configure(self.queue, changes)

        self._portal.call(lambda store: retry(lambda: configure(store)))


def _run_jobs(
    plan: _MapPlan,
    frame: DataFrame,
    rows: MapRows,
    watch: QueueWatch,
    report: OnProgress,
    stop: threading.Event,
) -> FleetReport | None:
    def on_counts(counts: Counts) -> None:
        report(MapProgress("running", rows.count, counts.open, counts.done, counts.dead))

    def on_fleet_progress(_: FleetProgress) -> None:
        watch.poll(on_counts)

    if plan.owns_queue:
        watch.keep_dead_letters(rows.count, plan.keep_ms)
    counts = watch.counts()
    on_counts(counts)
    if not counts.open or stop.is_set():
        return None
    if plan.by == "workers":
        watch.wait(on_counts, stop)
        return None
    return run_fleet(
        frame.sparkSession,
        plan.app,
        url=plan.url,
        workers=plan.workers,
        until="drained",
        on_progress=on_fleet_progress,
        stopping=stop,
        **plan.fleet_config(watch.queue),
    )


def _collect(plan: _MapPlan, frame: DataFrame, rows: MapRows, *, exists: bool) -> DataFrame:
    """The results, read from the store once, which keeps them for a limited time."""
    spark = frame.sparkSession
    jobs = read_jobs(spark, plan.url, plan.queue, plan.name) if exists else no_jobs(spark)
    results = map_results(rows.frame, plan.key, jobs, plan.result_type)
    if plan.folder is None:
        return results.drop(*ROW_COLUMNS).localCheckpoint()
    earlier = read_results(spark, plan.folder)
    replace_table(results if earlier is None else merge_results(results, earlier), plan.folder)
    table = read_results(spark, plan.folder)
    assert table is not None, "the table was just written"
    if earlier is not None:
        # The table may hold results of other rows as well.
        requested = rows.frame.select(F.col("_key").alias("_requested")).distinct().localCheckpoint()
        table = table.join(requested, F.col("_key").eqNullSafe(F.col("_requested")), how="left_semi")
    return table.drop(*ROW_COLUMNS)


def _ignore(progress: MapProgress) -> None:
    """The default of `on_progress`."""


@contextmanager
def watch_queue(url: str, queue: Queue) -> Iterator[QueueWatch]:
    """Watch a queue for the length of this block."""
    with StorePortal(url) as portal:
        yield QueueWatch(portal, queue)
