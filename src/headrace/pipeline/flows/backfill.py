"""Enqueues jobs of the past again: those behind the events that fulfil a condition, each once for a name."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig
from headrace.model.times import Duration, duration_ms
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Origin, events
from headrace.pipeline.flows.counting import Backfilled
from headrace.pipeline.flows.holding import counted_rows
from headrace.pipeline.flows.jobs import EVENT, NEEDED, again
from headrace.pipeline.flows.reprocess import check_limit, check_name, check_target, check_times, names_bodies
from headrace.pipeline.flows.rows import counts_of, is_known, job_rows, made_by
from headrace.pipeline.flows.times import now_ms
from headrace.pipeline.sinks import enqueue
from headrace.pipeline.source.options import ALL
from headrace.pipeline.source.sink.columns import check_columns
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.pipeline.source.store_access import check_master
from headrace.pipeline.sql import filtered, one_sentence

HELD = (*NEEDED, "payload")
"""The columns that tell what a job held."""


def backfill_jobs(
    spark: SparkSession,
    url: str,
    data_dir: DataDir,
    where: str,
    *,
    name: str,
    tenant: str = ALL,
    queue: str = ALL,
    to_queue: str | None = None,
    to_kind: str | None = None,
    payload: str | None = None,
    origin: Origin | None = None,
    delay: Duration = "0s",
    spread: Duration = "0s",
    keep: Duration = "30d",
    limit: int | None = None,
    dry_run: bool = False,
    happened_before_ms: int | None = None,
    words: tuple[str, str] = ("where", "payload"),
    on_stage: Callable[[str], None] | None = None,
) -> Backfilled:
    """Enqueue again the jobs behind the events for which the SQL `where` is true, and say what became of them.

    `where` is over the columns of the history (or, without one, the journal): `event = 'done' and kind = 'invoice' and
    happened_at > '2030-01-31'`. However many events of a life of a job match, it is one job again, with the kind, tag,
    priority and payload that it had; `to_kind`, `to_queue` and `payload` (SQL over what `again` returns) say otherwise.
    It has an id and a key made of `name`: for as long as `keep`, running the same backfill again makes no job of a life
    that was made one before, and jobs that it made are never taken themselves, whatever `where` says. Looked at is what
    had happened when this began (or at `happened_before_ms`).

    The journal has a payload where the queue has `journal_payloads` on, or the job is still there; a history has what
    the journal had when it was written, and none if it was written without payloads, which is refused unless `payload`
    makes another. Jobs whose payload (or kind) is not known are counted as `missing` and named, never enqueued. With
    `limit`, the jobs whose events happened first are taken. Everything is counted before anything is written: `dry_run`
    ends there, and SQL that cannot be is refused there (`BadConfig`). `words` are how a person knows `where` and
    `payload`; `on_stage` is told what begins.
    """
    check_name(name)
    check_times(delay, spread)
    check_limit(limit)
    check_target(to_queue, to_kind, keep)
    check_master(url, spark)
    tell = on_stage or (lambda _: None)
    bound_ms = now_ms(url) - 1 if happened_before_ms is None else happened_before_ms
    past = _Past(spark, url, data_dir, tenant, queue, origin, bound_ms)
    if payload is None:
        past.check_payloads(data_dir, words[1])
    texts = {words[0]: where} | ({} if payload is None else {words[1]: payload})
    matched = filtered(past.events(bodies=names_bodies(where)), where, words[0])
    tell(f"looking for events in the {past.origin}")
    matched = matched.where(F.col("id").isNotNull() & ~F.col("id").startswith(made_by(name)))
    with counted_rows(matched.select(*EVENT), texts) as (hits, count):
        lives = again(past.events(bodies=payload is None or names_bodies(payload), columns=HELD), hits)
        lives = _changed(lives, to_kind, payload, words[1])
        if limit is not None:
            lives = lives.orderBy("matched_at", "tenant", "queue", "id", "life").limit(limit)
        tell("finding the jobs behind them")
        with counted_rows(lives, texts) as (held, jobs):
            counted = replace(
                counts_of(held), events=count, origin=past.origin, happened_before_ms=bound_ms, dry=dry_run
            )
            due = duration_ms("delay", delay), duration_ms("spread", spread)
            rows = job_rows(held.where(is_known()), name, to_queue, *due)
            # A payload that cannot be one is told in a dry run as well.
            check_columns("jobs", rows.schema, COLUMNS, hint="")
            if dry_run or jobs == counted.missing:
                return counted
            tell(f"enqueuing {jobs - counted.missing:,} jobs again")
            return _enqueued(rows, url, name, keep, counted)


class _Past:
    """The events of the past up to an instant, wherever they are taken from."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        data_dir: DataDir,
        tenant: str,
        queue: str,
        origin: Origin | None,
        bound_ms: int,
    ) -> None:
        self._is_past = F.col("happened_at") <= F.timestamp_millis(F.lit(bound_ms))
        self._spark = spark
        self._options = {"url": url, "tenant": tenant, "queue": queue, "payloads": "true"}
        self._found = events(spark, url, data_dir, tenant=tenant, queue=queue, origin=origin)
        self.origin: Origin = self._found.origin

    def check_payloads(self, data_dir: DataDir, payload: str) -> None:
        """Refuse a history that has none: every job would be missing, also where the journal tells of them."""
        if self.origin == "history" and "payload" not in self._found.frame.columns:
            raise BadConfig(
                f"the history in {data_dir.history} was written without payloads, and a job needs one; take the events"
                f" from the journal (origin journal), write a history with --payloads, or make payloads with {payload}"
            )

    def events(self, *, bodies: bool, columns: Sequence[str] = ()) -> DataFrame:
        """All of them; with payloads and results, if those are asked for and known. What a journal does not tell is
        looked up, which is slow, so `columns` are all that is read then (all for none); of a history, Spark reads only
        the columns that are used."""
        if self.origin == "history" or not bodies:
            return self._found.frame.where(self._is_past)
        narrow = {"columns": ",".join(columns)} if columns else {}
        found = self._spark.read.format("headrace").options(**self._options, **narrow).load()
        return found.where(self._is_past)


def _changed(lives: DataFrame, to_kind: str | None, payload: str | None, what: str) -> DataFrame:
    """The jobs with what a person wants otherwise."""
    if payload is not None:
        with one_sentence(lives, what, payload):
            lives = lives.withColumn("payload", F.expr(payload))
    return lives if to_kind is None else lives.withColumn("kind", F.lit(to_kind))


def _enqueued(rows: DataFrame, url: str, name: str, keep: Duration, counted: Backfilled) -> Backfilled:
    keep_ms = duration_ms("keep", keep)
    written = enqueue(rows, url, name=f"backfill-{name}", keyTtl=f"{keep_ms}ms", refusals="count")
    return replace(
        counted,
        created=written.created,
        duplicate=written.duplicate,
        folded=written.folded,
        refused=written.refused,
        examples=written.examples,
    )
