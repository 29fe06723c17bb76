"""Rows of jobs that are to be done again, as they are written, and their counts."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.flows.counting import GROUPS_MAX, Backfilled, JobGroup
from headrace.pipeline.source.sink.dead_letters import GOLDEN

EXAMPLES_MAX = 5
"""Jobs that are named of those that are missing."""
_ALIKE = ("tenant", "queue", "kind")
_ROW_BITS = 33
"""Of `monotonically_increasing_id`, the lower ones count the rows of a partition."""


def made_by(name: str) -> str:
    """How the ids of jobs begin that the backfill `name` makes: a journal tells ids and no keys, and by these its own
    jobs are known. No name holds a slash, so no two names begin alike."""
    return f"backfill/{name}/"


def job_rows(lives: DataFrame, name: str, to_queue: str | None, delay_ms: int, spread_ms: int) -> DataFrame:
    """A row to enqueue for each life, by the columns that `again` returns; keys say which life of which job it was,
    and ids are made of these.

    Returns `tenant queue kind payload tag priority key id`, and `delay_ms` when the jobs are not due at once.
    """
    key = F.concat_ws("/", "tenant", "queue", "id", "life")
    rows = lives.select(
        "tenant",
        (F.col("queue") if to_queue is None else F.lit(to_queue)).alias("queue"),
        "kind",
        "payload",
        "tag",
        "priority",
        key.alias("key"),
        F.concat(F.lit(made_by(name)), F.md5(key)).alias("id"),
    )
    return rows if not delay_ms and not spread_ms else rows.withColumn("delay_ms", _due_ms(delay_ms, spread_ms))


def is_known() -> Column:
    """Whether all is known that a job must have."""
    return F.col("payload").isNotNull() & F.col("kind").isNotNull()


def counts_of(lives: DataFrame) -> Backfilled:
    """The counts of lives, in groups, and some of those that cannot be enqueued."""
    unknown = ~is_known()
    groups = (
        lives.groupBy(*_ALIKE)
        .agg(
            F.count("*").alias("jobs"),
            F.count_if(unknown).alias("missing"),
            F.sum("matched_events").alias("events"),
        )
        .orderBy(F.desc("jobs"), *_ALIKE)
    )
    [total] = lives.agg(F.count("*").alias("jobs"), F.count_if(unknown).alias("missing")).collect()
    named = lives.where(unknown).orderBy("tenant", "queue", "id", "life").limit(EXAMPLES_MAX) if total.missing else None
    return Backfilled(
        events=0,
        jobs=total.jobs,
        missing=total.missing,
        missing_examples=()
        if named is None
        else tuple(f"{row.tenant}/{row.queue}/{row.id}" for row in named.collect()),
        groups=tuple(JobGroup(**row.asDict()) for row in groups.limit(GROUPS_MAX).collect()),
    )


def _due_ms(delay_ms: int, spread_ms: int) -> Column:
    """When the rows are due: evenly over the time without counting them, by steps that never meet (see `spread`); each
    partition begins elsewhere, or the lonely rows of many would meet."""
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
    begin = F.pmod(F.xxhash64(F.spark_partition_id()), F.lit(1_000_003)) / F.lit(1_000_003.0)
    return F.lit(delay_ms) + F.floor(F.pmod(row * F.lit(GOLDEN) + begin, F.lit(1.0)) * F.lit(spread_ms)).cast("long")
