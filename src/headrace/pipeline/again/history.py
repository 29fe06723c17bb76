"""Enqueues jobs of the past again: those behind the events that fulfil a condition, each once for a name."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.times import Duration, duration_ms
from headrace.pipeline.again.asking import check_limit, check_name, check_target, check_times, names_bodies
from headrace.pipeline.again.counting import Backfilled
from headrace.pipeline.again.holding import counted_rows
from headrace.pipeline.again.jobs import EVENT, NEEDED, again
from headrace.pipeline.again.rows import counts_of, is_known, job_rows
from headrace.pipeline.events import events
from headrace.pipeline.lake import Lake
from headrace.pipeline.origin import Origin
from headrace.pipeline.source.machine import check_master
from headrace.pipeline.source.options import ALL
from headrace.pipeline.source.write.columns import check_columns
from headrace.pipeline.source.write.making import COLUMNS
from headrace.pipeline.sql import filtered, one_sentence
from headrace.pipeline.write import enqueue

HELD = (*NEEDED, "payload")
"""The columns that tell what a job held."""


def backfill_jobs(
    spark: SparkSession,
    url: str,
    lake: Lake,
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
    words: tuple[str, str] = ("where", "payload"),
    on_stage: Callable[[str], None] | None = None,
) -> Backfilled:
    """Enqueue again the jobs behind the events for which the SQL `where` is true, and say what became of them.

    `where` is over the columns of the history (or, without one, the journal): `event = 'done' and kind = 'invoice' and
    at > '2030-01-31'`. However many events of a life of a job match, it is one job again, with the kind, tag, priority
    and payload that it had; `to_kind`, `to_queue` and `payload` (SQL over what `again` returns) say otherwise. It has
    an id of its own, and a key made of `name`: for as long as `keep`, running the same backfill again creates nothing.

    A payload is known where the queue has `journal_payloads` on, or the history was written with payloads while the job
    was there. Jobs whose payload (or kind) is not known are counted as `missing` and named, never enqueued. With
    `limit`, the jobs whose events happened first are taken. Everything is counted before anything is written: `dry_run`
    ends there, and SQL that cannot be is refused there (`BadConfig`). `words` are how a person knows `where` and
    `payload`; `on_stage` is told what begins.
    """
    check_name(name)
    check_times(delay, spread)
    check_limit(limit)
    check_target(to_queue, to_kind, keep)
    check_master(url, str(spark.sparkContext.master))
    tell = on_stage or (lambda _: None)
    past = _Past(spark, url, lake, tenant, queue, origin)
    texts = {words[0]: where} | ({} if payload is None else {words[1]: payload})
    matched = filtered(past.events(bodies=names_bodies(where)), where, words[0])
    tell(f"looking for events in the {past.origin}")
    with counted_rows(matched.where(F.col("id").isNotNull()).select(*EVENT), texts) as (hits, count):
        lives = again(past.events(bodies=payload is None or names_bodies(payload), columns=HELD), hits)
        lives = _changed(lives, to_kind, payload, words[1])
        if limit is not None:
            lives = lives.orderBy("matched_at", "tenant", "queue", "id", "life").limit(limit)
        tell("finding the jobs behind them")
        with counted_rows(lives, texts) as (held, jobs):
            counted = replace(counts_of(held), events=count, origin=past.origin, dry=dry_run)
            rows = job_rows(
                held.where(is_known()), to_queue, duration_ms("delay", delay), duration_ms("spread", spread)
            )
            # A payload that cannot be one is told in a dry run as well.
            check_columns("jobs", rows.schema, COLUMNS, hint="")
            if dry_run or jobs == counted.missing:
                return counted
            tell(f"enqueuing {jobs - counted.missing:,} jobs again")
            return _enqueued(rows, url, name, keep, counted)


class _Past:
    """The events of the past, wherever they are taken from."""

    def __init__(
        self, spark: SparkSession, url: str, lake: Lake, tenant: str, queue: str, origin: Origin | None
    ) -> None:
        self._spark = spark
        self._options = {"url": url, "tenant": tenant, "queue": queue, "payloads": "true"}
        self._found = events(spark, url, lake, tenant=tenant, queue=queue, origin=origin)
        self.origin: Origin = self._found.origin

    def events(self, *, bodies: bool, columns: Sequence[str] = ()) -> DataFrame:
        """All of them; with payloads and results, if those are asked for and known. What a journal does not tell is
        looked up, which is slow, so `columns` are all that is read then (all for none); of a history, Spark reads only
        the columns that are used."""
        if self.origin == "history" or not bodies:
            return self._found.frame
        narrow = {"columns": ",".join(columns)} if columns else {}
        return self._spark.read.format("headrace").options(**self._options, **narrow).load()


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
