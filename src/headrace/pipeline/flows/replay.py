"""Replays the dead letters that match a condition, after counting them."""

from collections.abc import Callable

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.times import Duration, duration_ms
from headrace.pipeline.flows.reprocess import (
    GROUPS_MAX,
    check_limit,
    check_times,
    count_text,
    counted_rows,
    needs_bodies,
    outcome_text,
    store_now_ms,
)
from headrace.pipeline.sinks import replay
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import check_master
from headrace.pipeline.sql import filtered

DEAD_LETTER = ("tenant", "queue", "shard", "dead_letter")
"""The identity of a dead letter."""
_GROUP = ("tenant", "queue", "kind", "error_class", "reason")
_COLUMNS = (*DEAD_LETTER, "kind", "error_class", "reason", "died_at")


class DeadLetterGroup(Struct, frozen=True, kw_only=True):
    """Matching dead letters of one queue, kind, error and reason."""

    tenant: str
    queue: str
    kind: str
    error_class: str | None
    reason: str
    dead_letters: int
    first_died_at_ms: int
    last_died_at_ms: int


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The outcomes of the matching dead letters. A dry run fills `found` and `groups` only."""

    found: int
    replayed: int = 0
    in_use: int = 0
    """Dead letters that stay because a job with their id is waiting, blocked or running."""
    not_found: int = 0
    """Dead letters that were replayed or purged by another call meanwhile."""
    refused: dict[str, int] = {}
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    groups: tuple[DeadLetterGroup, ...] = ()
    """The largest first; a thousand at most."""
    died_before_ms: int
    """Later deaths were left out; give it to the next call to select the same dead letters."""
    dry: bool = False

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts in one sentence."""
        if not self.found:
            return "no dead letter matches"
        if self.dry:
            return f"{count_text(self.found, 'dead letter')} would be replayed"
        counts = {name: getattr(self, name) for name in ("replayed", "in_use", "not_found")}
        return f"of {count_text(self.found, 'dead letter')} {outcome_text(counts, self.refused, self.examples)}"


def replay_dead_letters(
    spark: SparkSession,
    url: str,
    where: str,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    delay: Duration = "0s",
    spread: Duration = "0s",
    keep_counts: bool = False,
    limit: int | None = None,
    dry_run: bool = False,
    died_before_ms: int | None = None,
    what: str = "where",
    on_stage: Callable[[str], None] | None = None,
) -> ReplayReport:
    """Replay the dead letters for which the SQL `where` is true, and report the outcomes.

    `where` is over the columns of `what=dead`: `error_class = 'Timeout' and died_at > '2030-01-31'`. Deaths after the
    call began (or after `died_before_ms`) are left out; `limit` takes the oldest deaths. The jobs are due after
    `delay`, evenly over `spread`. All matches are counted before the first one is replayed: a `dry_run` ends there, and
    invalid SQL is refused there (`BadConfig`). `what` names `where` in such an error; `on_stage` is called with the
    name of each stage.
    """
    check_times(delay, spread)
    check_limit(limit)
    check_master(url, spark)
    report_stage = on_stage or (lambda _: None)
    bound_ms = store_now_ms(url) - 1 if died_before_ms is None else died_before_ms
    dead_letters = filtered(_read(spark, url, tenant, queue, where), where, what)
    dead_letters = dead_letters.where(F.col("died_at") <= F.timestamp_millis(F.lit(bound_ms))).select(*_COLUMNS)
    if limit is not None:
        dead_letters = dead_letters.orderBy("died_at", *DEAD_LETTER).limit(limit)
    report_stage("counting dead letters")
    with counted_rows(dead_letters, {what: where}) as (matches, count):
        counts = ReplayReport(found=count, groups=_groups(matches), died_before_ms=bound_ms, dry=dry_run)
        if dry_run or not count:
            return counts
        report_stage(f"replaying {count:,} dead letters")
        written = replay(
            matches.select(*DEAD_LETTER),
            url,
            delay=f"{duration_ms('delay', delay)}ms",
            spread=f"{duration_ms('spread', spread)}ms",
            keepCounts=keep_counts,
            refusals="count",
        )
    return ReplayReport(
        found=count,
        replayed=written.replayed,
        in_use=written.in_use,
        not_found=written.not_found,
        refused=written.refused,
        examples=written.examples,
        groups=counts.groups,
        died_before_ms=bound_ms,
    )


def _read(spark: SparkSession, url: str, tenant: str, queue: str, where: str) -> DataFrame:
    # Payloads may be large, and few conditions use them.
    payloads = str(needs_bodies(where)).lower()
    options = {"url": url, "what": "dead", "tenant": tenant, "queue": queue, "payloads": payloads}
    # Spark would wrap the same errors in a traceback.
    SourceOptions.parse(options)
    return spark.read.format("headrace").options(**options).load()


def _groups(dead_letters: DataFrame) -> tuple[DeadLetterGroup, ...]:
    rows = (
        dead_letters.groupBy(*_GROUP)
        .agg(
            F.count("*").alias("dead_letters"),
            F.unix_millis(F.min("died_at")).alias("first_died_at_ms"),
            F.unix_millis(F.max("died_at")).alias("last_died_at_ms"),
        )
        .orderBy(F.desc("dead_letters"), *_GROUP)
        .limit(GROUPS_MAX)
        .collect()
    )
    return tuple(DeadLetterGroup(**row.asDict()) for row in rows)
