"""Replays the dead letters that fulfil a condition, after counting them."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.times import Duration, duration_ms
from headrace.pipeline.flows.counting import GROUPS_MAX, DeadLetterGroup, Replays
from headrace.pipeline.flows.holding import counted_rows
from headrace.pipeline.flows.reprocess import check_limit, check_times, names_bodies
from headrace.pipeline.flows.times import now_ms
from headrace.pipeline.sinks import replay
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import check_master
from headrace.pipeline.sql import filtered

DEAD_LETTER = ("tenant", "queue", "shard", "dead_letter")
"""What names a dead letter."""
ALIKE = ("tenant", "queue", "kind", "error_class", "reason")
"""What dead letters of a group have in common."""
NEEDED = (*DEAD_LETTER, "kind", "error_class", "reason", "died_at")


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
) -> Replays:
    """Replay the dead letters for which the SQL `where` is true, and say what became of them.

    `where` is over the columns of `what=dead`: `error_class = 'Timeout' and died_at > '2030-01-31'`. Taken is what was
    dead when this began (or at `died_before_ms`); with `limit`, the oldest deaths. The jobs are due after `delay`,
    evenly over `spread`. Everything is counted before the first dead letter is replayed: `dry_run` ends there, and SQL
    that cannot be is refused there (`BadConfig`). `what` is how a person knows `where`; `on_stage` is told what begins.
    """
    check_times(delay, spread)
    check_limit(limit)
    check_master(url, spark)
    tell = on_stage or (lambda _: None)
    bound_ms = now_ms(url) - 1 if died_before_ms is None else died_before_ms
    dead_letters = filtered(_read(spark, url, tenant, queue, where), where, what)
    dead_letters = dead_letters.where(F.col("died_at") <= F.timestamp_millis(F.lit(bound_ms))).select(*NEEDED)
    if limit is not None:
        dead_letters = dead_letters.orderBy("died_at", *DEAD_LETTER).limit(limit)
    tell("counting dead letters")
    with counted_rows(dead_letters, {what: where}) as (held, found):
        counted = Replays(found=found, groups=_groups(held), died_before_ms=bound_ms, dry=dry_run)
        if dry_run or not found:
            return counted
        tell(f"replaying {found:,} dead letters")
        written = replay(
            held.select(*DEAD_LETTER),
            url,
            delay=f"{duration_ms('delay', delay)}ms",
            spread=f"{duration_ms('spread', spread)}ms",
            keepCounts=keep_counts,
            refusals="count",
        )
    return Replays(
        found=found,
        replayed=written.replayed,
        in_use=written.in_use,
        not_found=written.not_found,
        refused=written.refused,
        examples=written.examples,
        groups=counted.groups,
        died_before_ms=bound_ms,
    )


def _read(spark: SparkSession, url: str, tenant: str, queue: str, where: str) -> DataFrame:
    # Payloads may be large, and most conditions are about something else.
    payloads = str(names_bodies(where)).lower()
    options = {"url": url, "what": "dead", "tenant": tenant, "queue": queue, "payloads": payloads}
    # Spark would find the same faults, but wrap them into a traceback of its own.
    SourceOptions.parse(options)
    return spark.read.format("headrace").options(**options).load()


def _groups(dead_letters: DataFrame) -> tuple[DeadLetterGroup, ...]:
    rows = (
        dead_letters.groupBy(*ALIKE)
        .agg(
            F.count("*").alias("dead_letters"),
            F.unix_millis(F.min("died_at")).alias("first_died_at_ms"),
            F.unix_millis(F.max("died_at")).alias("last_died_at_ms"),
        )
        .orderBy(F.desc("dead_letters"), *ALIKE)
        .limit(GROUPS_MAX)
        .collect()
    )
    return tuple(DeadLetterGroup(**row.asDict()) for row in rows)
