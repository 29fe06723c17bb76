"""Finds the past jobs behind matching events, and enqueues each once under a name."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig
from headrace.model.times import Duration, duration_ms
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Origin, events
from headrace.pipeline.flows.reprocess import (
    GROUPS_MAX,
    check_limit,
    check_name,
    check_target,
    check_times,
    count_text,
    counted_rows,
    needs_bodies,
    outcome_text,
    store_now_ms,
)
from headrace.pipeline.sinks import enqueue
from headrace.pipeline.source.options import ALL
from headrace.pipeline.source.sink.columns import check_columns
from headrace.pipeline.source.sink.dead_letters import GOLDEN
from headrace.pipeline.source.sink.row_to_job import COLUMNS
from headrace.pipeline.source.store_access import check_master
from headrace.pipeline.sql import filtered, one_sentence
from headrace.pipeline.tables.jobs import JOB, begins, ends, place, with_generation

EVENT = (*JOB, "epoch", "seq")
"""The identity of an event."""
PAYLOAD_EVENTS = ("enqueued", "updated", "unblocked", "merged")
"""Events that give a job another payload; a replayed job keeps the one it died with."""
EVENT_COLUMNS = (*EVENT, "happened_at", "event", "kind", "tag", "priority", "reason", "dead_letter")

EXAMPLES_MAX = 5
"""Missing jobs named in a report."""
_GROUP = ("tenant", "queue", "kind")
_ROW_BITS = 33
"""The lower bits of `monotonically_increasing_id` number the rows of a partition."""


class JobGroup(Struct, frozen=True, kw_only=True):
    """Matching jobs of one queue and kind, as they were then."""

    tenant: str
    queue: str
    kind: str | None
    jobs: int
    missing: int
    events: int


class BackfillReport(Struct, frozen=True, kw_only=True):
    """The outcomes of the jobs behind the matching events. A dry run creates none."""

    events: int
    """Events that match."""
    jobs: int
    """Generations of jobs behind them; each is enqueued once."""
    created: int = 0
    duplicate: int = 0
    """Jobs that an earlier run of this name has enqueued."""
    folded: int = 0
    refused: dict[str, int] = {}
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    missing: int = 0
    """Jobs whose payload (or kind) is unknown; they are not enqueued."""
    missing_examples: tuple[str, ...] = ()
    """Some of them, as tenant/queue/id."""
    groups: tuple[JobGroup, ...] = ()
    """The largest first; a thousand at most."""
    origin: str = "history"
    happened_before_ms: int = 0
    """Later events were left out; give it to the next call to select the same jobs."""
    dry: bool = False

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts in one sentence, with an example of a missing job."""
        if not self.events:
            return "no event matches"
        if not self.jobs:
            return f"{count_text(self.events, 'event')} match, and there is no job behind them"
        missing = ""
        if self.missing:
            missing = (
                f"; of {count_text(self.missing, 'job')} the payload or kind is unknown, for example"
                f" {self.missing_examples[0]}"
            )
        if self.dry:
            return f"{count_text(self.jobs - self.missing, 'job')} would be enqueued again{missing}"
        counts = {name: getattr(self, name) for name in ("created", "duplicate", "folded")}
        return f"of {count_text(self.jobs, 'job')} {outcome_text(counts, self.refused, self.examples)}{missing}"


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
) -> BackfillReport:
    """Enqueue again the jobs behind the events for which the SQL `where` is true, and report the outcomes.

    `where` is over the columns of the history (or, without one, the journal): `event = 'done' and kind = 'invoice' and
    happened_at > '2030-01-31'`. All matching events of one generation of a job give one job, with the kind, tag,
    priority and payload of that generation; `to_kind`, `to_queue` and `payload` (SQL over the columns of `jobs_behind`)
    replace them. Its id and key are made of `name`: for as long as `keep`, the same backfill enqueues no generation
    twice, and it never selects the jobs that it has enqueued. Events after the call began (or after
    `happened_before_ms`) are left out.

    The journal has a payload where the queue has `journal_payloads` on, or while the job still exists. A history has
    what the journal had when the history was written. A history without payloads is refused unless `payload` makes
    them. Jobs whose payload or kind is unknown are counted as `missing` and never enqueued. `limit` takes the jobs with
    the earliest events. All matches are counted before anything is written: a `dry_run` ends there, and invalid SQL is
    refused there (`BadConfig`). `words` name `where` and `payload` in such an error; `on_stage` is called with the name
    of each stage.
    """
    check_name(name)
    check_times(delay, spread)
    check_limit(limit)
    check_target(to_queue, to_kind, keep)
    check_master(url, spark)
    report_stage = on_stage or (lambda _: None)
    bound_ms = store_now_ms(url) - 1 if happened_before_ms is None else happened_before_ms
    past = _PastEvents(spark, url, data_dir, tenant, queue, origin, bound_ms)
    if payload is None:
        past.check_payloads(data_dir, words[1])
    texts = {words[0]: where} | ({} if payload is None else {words[1]: payload})
    matching = filtered(past.events(bodies=needs_bodies(where)), where, words[0])
    report_stage(f"reading events from the {past.origin}")
    matching = matching.where(F.col("id").isNotNull() & ~F.col("id").startswith(id_prefix(name)))
    with counted_rows(matching.select(*EVENT), texts) as (matches, event_count):
        columns = (*EVENT_COLUMNS, "payload")
        jobs = jobs_behind(past.events(bodies=payload is None or needs_bodies(payload), columns=columns), matches)
        jobs = _replaced(jobs, to_kind, payload, words[1])
        if limit is not None:
            jobs = jobs.orderBy("matched_at", "tenant", "queue", "id", "generation").limit(limit)
        report_stage("finding the jobs behind them")
        with counted_rows(jobs, texts) as (found, job_count):
            counts = replace(
                count_jobs(found), events=event_count, origin=past.origin, happened_before_ms=bound_ms, dry=dry_run
            )
            delays_ms = duration_ms("delay", delay), duration_ms("spread", spread)
            rows = job_rows(found.where(is_known()), name, to_queue, *delays_ms)
            # A dry run refuses an invalid payload as well.
            check_columns("jobs", rows.schema, COLUMNS, hint="")
            if dry_run or job_count == counts.missing:
                return counts
            report_stage(f"enqueuing {job_count - counts.missing:,} jobs again")
            return _enqueue(rows, url, name, keep, counts)


class _PastEvents:
    """The events up to an instant, from the history or the journal."""

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
        source = events(spark, url, data_dir, tenant=tenant, queue=queue, origin=origin)
        self._rows = source.frame
        self.origin: Origin = source.origin

    def check_payloads(self, data_dir: DataDir, payload: str) -> None:
        """Refuse a history without payloads: all jobs would be missing, even if the journal has their payloads."""
        if self.origin == "history" and "payload" not in self._rows.columns:
            raise BadConfig(
                f"the history in {data_dir.history} was written without payloads, and a job needs one; take the events"
                f" from the journal (origin journal), write a history with --payloads, or make payloads with {payload}"
            )

    def events(self, *, bodies: bool, columns: Sequence[str] = ()) -> DataFrame:
        """All events, with `bodies` also their payloads and results where they are known.

        Bodies that the journal lacks are looked up in the store, which is slow: then only `columns` are read, if any.
        """
        if self.origin == "history" or not bodies:
            return self._rows.where(self._is_past)
        selection = {"columns": ",".join(columns)} if columns else {}
        frame = self._spark.read.format("headrace").options(**self._options, **selection).load()
        return frame.where(self._is_past)


def _replaced(jobs: DataFrame, to_kind: str | None, payload: str | None, what: str) -> DataFrame:
    if payload is not None:
        with one_sentence(jobs, what, payload):
            jobs = jobs.withColumn("payload", F.expr(payload))
    return jobs if to_kind is None else jobs.withColumn("kind", F.lit(to_kind))


def _enqueue(rows: DataFrame, url: str, name: str, keep: Duration, counts: BackfillReport) -> BackfillReport:
    keep_ms = duration_ms("keep", keep)
    written = enqueue(rows, url, name=f"backfill-{name}", keyTtl=f"{keep_ms}ms", refusals="count")
    return replace(
        counts,
        created=written.created,
        duplicate=written.duplicate,
        folded=written.folded,
        refused=written.refused,
        examples=written.examples,
    )


def id_prefix(name: str) -> str:
    """The prefix of the ids that the backfill `name` enqueues, by which it leaves out its own jobs: the journal has ids
    and no keys. No name holds a slash, so no two names share a prefix."""
    return f"backfill/{name}/"


def job_rows(jobs: DataFrame, name: str, to_queue: str | None, delay_ms: int, spread_ms: int) -> DataFrame:
    """A row to enqueue for each generation, from the columns of `jobs_behind`: its key is the identity of the
    generation.

    Returns `tenant queue kind payload tag priority key id`, and `delay_ms` when the jobs are not due at once.
    """
    key = F.concat_ws("/", "tenant", "queue", "id", "generation")
    rows = jobs.select(
        "tenant",
        (F.col("queue") if to_queue is None else F.lit(to_queue)).alias("queue"),
        "kind",
        "payload",
        "tag",
        "priority",
        key.alias("key"),
        F.concat(F.lit(id_prefix(name)), F.md5(key)).alias("id"),
    )
    return rows if not delay_ms and not spread_ms else rows.withColumn("delay_ms", _delay_ms(delay_ms, spread_ms))


def is_known() -> Column:
    """Whether payload and kind are known."""
    return F.col("payload").isNotNull() & F.col("kind").isNotNull()


def count_jobs(jobs: DataFrame) -> BackfillReport:
    """The counts of jobs, their groups, and examples of missing ones."""
    is_missing = ~is_known()
    groups = (
        jobs.groupBy(*_GROUP)
        .agg(
            F.count("*").alias("jobs"),
            F.count_if(is_missing).alias("missing"),
            F.sum("matched_events").alias("events"),
        )
        .orderBy(F.desc("jobs"), *_GROUP)
    )
    [total] = jobs.agg(F.count("*").alias("jobs"), F.count_if(is_missing).alias("missing")).collect()
    examples: tuple[str, ...] = ()
    if total.missing:
        rows = jobs.where(is_missing).orderBy("tenant", "queue", "id", "generation").limit(EXAMPLES_MAX).collect()
        examples = tuple(f"{row.tenant}/{row.queue}/{row.id}" for row in rows)
    return BackfillReport(
        events=0,
        jobs=total.jobs,
        missing=total.missing,
        missing_examples=examples,
        groups=tuple(JobGroup(**row.asDict()) for row in groups.limit(GROUPS_MAX).collect()),
    )


def _delay_ms(delay_ms: int, spread_ms: int) -> Column:
    """Delays evenly over the spread without counting the rows, by steps of the golden ratio (see `Spread`).

    Each partition begins elsewhere: else the first rows of many partitions would be due together.
    """
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
    begin = F.pmod(F.xxhash64(F.spark_partition_id()), F.lit(1_000_003)) / F.lit(1_000_003.0)
    return F.lit(delay_ms) + F.floor(F.pmod(row * F.lit(GOLDEN) + begin, F.lit(1.0)) * F.lit(spread_ms)).cast("long")


def jobs_behind(events: DataFrame, matches: DataFrame) -> DataFrame:
    """One row for each generation of a job that an event of `matches` belongs to.

    Reads of `events` the columns `tenant queue shard epoch seq happened_at event id kind tag priority reason
    dead_letter`, and `payload` if it has it; of `matches` the columns `tenant queue shard id epoch seq`. Both in any
    order.

    Returns
    - `tenant queue shard id`, and `generation`: the epoch and seq of its first event, as in 1-17. A generation that
      began before all events is named by its last event, as in until-1-17, or 0 while it goes on. So a generation
      changes its name once its first event is dropped: a journal drops events, a history does not.
    - `kind tag priority` as last written in that generation
    - `payload`: the last one of that generation; null if no event has it. An event that wrote a payload without
      recording it makes it unknown; a replay keeps it.
    - `matched_events`, and `matched_at`, when the first of them happened
    """
    if "payload" not in events.columns:
        events = events.withColumn("payload", F.lit(None).cast("string"))
    keys = matches.select(*EVENT).distinct()
    # Sort only the events of these jobs: a history has many others.
    of_jobs = events.join(keys.select(*JOB).distinct(), on=list(JOB), how="left_semi")
    story = with_generation(of_jobs.select(*EVENT_COLUMNS, "payload")).select("*", _payload_so_far().alias("held"))
    generations = (
        story.join(keys.withColumn("is_match", F.lit(True)), on=list(EVENT), how="left")
        .groupBy(*JOB, "generation")
        .agg(
            F.min(F.when(begins(), place())).alias("begin"),
            F.min(F.when(ends(), place())).alias("end"),
            F.max_by(F.struct("kind", "tag", "priority"), _description_order()).alias("what"),
            F.max_by("held", place()).alias("held"),
            F.count("is_match").alias("matched_events"),
            F.min(F.when(F.col("is_match"), F.col("happened_at"))).alias("matched_at"),
        )
    )
    return generations.where("matched_events > 0").select(
        *JOB,
        F.coalesce(_generation_name("", "begin"), _generation_name("until-", "end"), F.lit("0")).alias("generation"),
        "what.kind",
        "what.tag",
        "what.priority",
        F.col("held.payload").alias("payload"),
        "matched_events",
        "matched_at",
    )


def _generation_name(prefix: str, event: str) -> Column:
    return F.concat(F.lit(prefix), f"{event}.epoch", F.lit("-"), f"{event}.seq")


def _description_order() -> Column:
    """The order of events by which the last full description wins: `removed` has the kind alone, so it comes first."""
    return F.when(F.col("kind").isNotNull(), F.struct(F.col("event") != "removed", "epoch", "seq"))


def _payload_so_far() -> Column:
    """The payload after an event, inside a struct: an unknown payload must not be taken for the one before it."""
    so_far = Window.partitionBy(*JOB).orderBy("epoch", "seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    has_payload = F.col("event").isin(*PAYLOAD_EVENTS) | F.col("payload").isNotNull()
    return F.last(F.when(has_payload, F.struct("payload")), ignorenulls=True).over(so_far)
