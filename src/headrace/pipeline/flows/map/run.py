"""Maps rows through jobs: enqueues one for each, has them done, and gives the results as a frame."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import DURATION_MS_MAX, KEY_KEEP_MS
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.model.times import Duration
from headrace.pipeline.flows.fleet.report import FleetProgress, FleetReport
from headrace.pipeline.flows.fleet.run import check_fleet, run_fleet
from headrace.pipeline.flows.map.draining import DrainWatch, open_jobs, watching
from headrace.pipeline.flows.map.mapped import Mapped, MapProgress
from headrace.pipeline.flows.map.plan import Plan, Wish, planned
from headrace.pipeline.flows.map.results import MARKS, OUTCOMES, answers, no_jobs, read_jobs, remembered
from headrace.pipeline.flows.map.rows import MapRows, held, jobs_of
from headrace.pipeline.flows.map.table import read_answers
from headrace.pipeline.flows.map.taking import check_samples
from headrace.pipeline.parquet_table import replace_table
from headrace.pipeline.sinks import Written, enqueue
from headrace.pipeline.spark_errors import unwrap_errors
from headrace.pipeline.spark_session import refuse_connect

Tell = Callable[[MapProgress], None]


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
    on_progress: Tell | None = None,
    stopping: threading.Event | None = None,
    **config: Any,
) -> Mapped:
    """Have a job done for each key of a frame, and give what became of them as a frame: failures are rows, too.

    `app` is the app or its name (`shop.jobs:app`), `kind` the kind of its jobs or the job function itself. A row is
    given to the function by name: of its columns those that the function takes; `payload` is SQL that says otherwise,
    as in `struct(id, upper(email) AS email)`. `key` is the column or the expression that makes a row one piece of work,
    or several of them. `schema` (`score double, tags array<string>`, or `int`) parses the results.

    The jobs are done by a fleet on this Spark, of `workers` slots with the settings `config` of a worker; or, with
    `by="workers"`, by whoever works on the queue, which is waited for. The queue is `map-<name>` unless one is given,
    which must be for this map alone: it is over when nothing waits or runs there.

    Calling again with the same `name` goes on where the last call ended, whatever has ended it: what is done or dead is
    not run again, and its answer is there for `keep` after it ended. A row that says something else than the one that
    was mapped under its key is refused, in the answer. With `folder` the answer is a table of Parquet files there,
    replaced in one step; what it held of other keys, or of what the store has forgotten, stays. `on_progress` hears how
    far it is; when `stopping` is set, what is not over is `open` in the answer.

    Raises `BadConfig` before anything is written when the rows and the function do not fit together.
    """
    refuse_connect(frame.sparkSession, "map")
    tell, stop = on_progress or _nobody, stopping or threading.Event()
    _check_by(by, workers, config)
    crew = _Crew(app, by, workers, config)
    wish = Wish(
        app=app,
        kind=kind,
        key=key,
        name=name,
        url=url,
        queue=queue,
        tenant=tenant,
        payload=payload,
        keep=keep,
        schema=schema,
        shards=shards,
        folder=folder,
    )
    with unwrap_errors():
        plan = planned(frame, wish)
        crew.check(frame.sparkSession, plan)
        tell(MapProgress("reading"))
        with held(frame, plan.key, plan.payload, plan.work, name) as rows, watching(plan.url, plan.queue) as watch:
            check_samples(plan.work, rows.samples)
            tell(MapProgress("enqueuing", rows.count))
            written = _enqueued(plan, rows)
            is_there, report = watch.found(), None
            if is_there:
                report = _run(plan, frame, rows, watch, crew, tell, stop)
            tell(MapProgress("collecting", rows.count))
            found = _answered(plan, frame, rows, is_there=is_there)
    counted = {row.outcome: row["count"] for row in found.groupBy("outcome").count().collect()}
    return Mapped(
        frame=found,
        name=name,
        queue=watch.queue,
        rows=rows.count,
        created=written.created,
        known=written.duplicate,
        folded=written.folded,
        outcomes={outcome: counted[outcome] for outcome in OUTCOMES if outcome in counted},
        folder=folder,
        fleet=report,
    )


class _Crew:
    """Who does the jobs."""

    def __init__(self, app: App | str, by: str, workers: int | None, config: dict[str, Any]) -> None:
        self.app = app
        self.by = by
        self.workers = workers
        self.config = config

    def fields(self, queue: Queue) -> dict[str, Any]:
        """The settings of a fleet's workers on the queue of a map."""
        return {**self.config, "queues": [queue], "tenant": queue.tenant}

    def check(self, spark: SparkSession, plan: Plan) -> None:
        """Refuse a fleet that could not run, while nothing is written."""
        if self.by == "fleet":
            check_fleet(spark, self.app, url=plan.url, workers=self.workers, **self.fields(plan.queue))


def _check_by(by: str, workers: int | None, config: dict[str, Any]) -> None:
    if by not in ("fleet", "workers"):
        raise BadConfig(
            f"by is {by!r}; give fleet, which runs the jobs on this Spark, or workers, which waits for them"
        )
    if by == "workers" and (workers is not None or config):
        given = ", ".join((*(["workers"] if workers is not None else []), *config))
        raise BadConfig(f"{given} is for by='fleet'; workers elsewhere have settings of their own; leave it out")
    if "queues" in config:
        raise BadConfig("a map has one queue; name it with queue")


def _enqueued(plan: Plan, rows: MapRows) -> Written:
    """Put in what is not there yet; a row whose key stands for other work is left to the answer."""
    options: dict[str, str | int | bool] = {
        "queue": plan.queue.full_name,
        "tenant": plan.queue.tenant,
        "shards": plan.queue.shards,
        "name": f"map-{plan.name}",
        # Longer than any result is kept that a map of a month brings about: what has ended must not be run again.
        "keyTtl": f"{min(plan.keep_ms + KEY_KEEP_MS, DURATION_MS_MAX)}ms",
        "refusals": "count",
    }
    written = enqueue(jobs_of(rows, plan.work.job(), plan.keep_ms), plan.url, **options)
    others = {reason: count for reason, count in written.refused.items() if reason != "conflict"}
    if others:
        reason = max(others, key=lambda each: others[each])
        raise Refused(
            reason,
            f"{sum(others.values()):,} of {rows.count:,} rows were not taken in, all others are:"
            f" {written.examples[reason]}; then map them again, which goes on from here",
        )
    return written


def _run(
    plan: Plan, frame: DataFrame, rows: MapRows, watch: DrainWatch, crew: _Crew, tell: Tell, stop: threading.Event
) -> FleetReport | None:
    """Have the jobs done that are open."""

    def told(counts: Counts) -> None:
        tell(MapProgress("running", rows.count, open_jobs(counts), counts.done, counts.dead))

    def looked(_: FleetProgress) -> None:
        watch.look(told)

    if plan.is_own:
        watch.keep_dead_letters(rows.count, plan.keep_ms)
    counts = watch.counts()
    told(counts)
    if not open_jobs(counts) or stop.is_set():
        return None
    if crew.by == "workers":
        watch.wait(told, stop)
        return None
    return run_fleet(
        frame.sparkSession,
        crew.app,
        url=plan.url,
        workers=crew.workers,
        until="drained",
        on_progress=looked,
        stopping=stop,
        **crew.fields(watch.queue),
    )


def _answered(plan: Plan, frame: DataFrame, rows: MapRows, *, is_there: bool) -> DataFrame:
    """The answer, read from the store once, which keeps it for a while only."""
    spark = frame.sparkSession
    jobs = read_jobs(spark, plan.url, plan.queue, plan.name) if is_there else no_jobs(spark)
    found = answers(rows.frame, plan.key, jobs, plan.result_type)
    if plan.folder is None:
        return found.drop(*MARKS).localCheckpoint()
    earlier = read_answers(spark, plan.folder)
    replace_table(found if earlier is None else remembered(found, earlier), plan.folder)
    written = read_answers(spark, plan.folder)
    assert written is not None, "the table was put into place just now"
    if earlier is not None:
        # The table may have answers of other rows as well.
        asked = rows.frame.select(F.col("_key").alias("_given")).distinct().localCheckpoint()
        written = written.join(asked, F.col("_key").eqNullSafe(F.col("_given")), how="left_semi")
    return written.drop(*MARKS)


def _nobody(far: MapProgress) -> None:
    """Nobody wants to know."""
