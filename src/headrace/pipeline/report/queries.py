"""Questions that the report asks of the tables, each a pure function; `scoped` says of which tenants and queues."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.report.model import COUNTED, QUANTILES, Scope, TimeSpan

_FAILED = ("retried", "stalled", "dead")
_SCOPE = ("shown_tenant", "shown_queue")
OTHERS = "…"
"""Stands for the tenants and queues that are not named; no name can be this."""


def overview(stats: DataFrame) -> DataFrame:
    """Reads `window_start window_end tenant queue` and the counts of stats.

    Returns `tenant queue amount start_ms end_ms window_ms`: how much happened where, and when.
    """
    start, end = F.unix_millis("window_start"), F.unix_millis("window_end")
    return stats.groupBy("tenant", "queue").agg(
        F.sum(F.col("deliveries") + F.col("opened")).alias("amount"),
        F.min(start).alias("start_ms"),
        F.max(end).alias("end_ms"),
        F.min(end - start).alias("window_ms"),
    )


def scoped(frame: DataFrame, scopes: Sequence[Scope]) -> DataFrame:
    """Adds `shown_tenant` and `shown_queue`: the names, or `OTHERS` where they are not among the scopes."""
    tenants = sorted({scope.tenant for scope in scopes if scope.tenant})
    named = frame.withColumn("shown_tenant", _or_others(F.col("tenant"), F.col("tenant").isin(tenants)))
    return named.withColumn("shown_queue", _or_others(F.col("queue"), _is_queue_of(scopes)))


def counts(stats: DataFrame, span: TimeSpan) -> DataFrame:
    """Reads stats that are scoped; returns `bucket shown_tenant shown_queue done retried stalled dead expired`."""
    bucket = _bucket(F.col("window_start"), span).alias("bucket")
    return stats.groupBy(bucket, *_SCOPE).agg(*(F.sum(name).alias(name) for name in COUNTED))


def backlogs(stats: DataFrame, span: TimeSpan) -> DataFrame:
    """Reads stats that are scoped; returns `bucket shown_tenant shown_queue change`: by how much the open jobs grew
    from the end of the bucket before, or from nothing."""
    series = ("tenant", "queue", "kind", *_SCOPE)
    ends = (
        stats.where(F.col("backlog").isNotNull())
        .groupBy(_bucket(F.col("window_start"), span).alias("bucket"), *series)
        .agg(F.max_by("backlog", "window_start").alias("open"))
    )
    before = F.lag("open", 1, 0).over(Window.partitionBy(*series).orderBy("bucket"))
    changes = ends.withColumn("change", F.col("open") - before)
    return changes.groupBy("bucket", *_SCOPE).agg(F.sum("change").alias("change"))


def unknowns(stats: DataFrame) -> DataFrame:
    """Reads stats that are scoped; returns `shown_tenant shown_queue queues`: how many queues there have no backlog at
    the end, since the journal's beginning is gone. `backlogs` is without them."""
    last = F.max(F.struct("window_start", F.col("backlog").isNull().alias("is_unknown"))).alias("last")
    queues = stats.groupBy("tenant", "queue", *_SCOPE).agg(last)
    return queues.where("last.is_unknown").groupBy(*_SCOPE).agg(F.count("*").alias("queues"))


def latencies(attempts: DataFrame, span: TimeSpan) -> DataFrame:
    """Reads attempts that are scoped; returns percentiles for each bucket of everything, of each tenant and queue that
    is shown: `bucket shown_tenant shown_queue wait_p50 … run_p99 run_max`; a name is null where all are meant."""
    ended = _ended(attempts).withColumn("bucket", _bucket(F.col("ended_at"), span))
    inside = ended.where(F.col("bucket").between(0, span.buckets - 1))
    return inside.groupingSets(_sets("bucket"), "bucket", *_SCOPE).agg(*_percentiles())


def latencies_of_slowest(stats: DataFrame, span: TimeSpan) -> DataFrame:
    """As `latencies`, from stats: percentiles of parts do not add up to those of the whole, so the largest is taken."""
    rows = stats.withColumn("bucket", _bucket(F.col("window_start"), span))
    names = [f"{what}_{quantile}" for what in ("wait", "run") for quantile in (*QUANTILES, "max")]
    return rows.groupingSets(_sets("bucket"), "bucket", *_SCOPE).agg(*(F.max(name).alias(name) for name in names))


def kinds(attempts: DataFrame, kinds_max: int) -> DataFrame:
    """Reads attempts that are scoped; returns for everything and for each tenant and queue that is shown the kinds with
    the longest runs: `shown_tenant shown_queue is_total kind kinds deliveries failed`, and percentiles as `latencies`.

    The row with `is_total` is about all kinds together.
    """
    sets = [*_sets(), *_sets("kind")]
    failed = F.count_if(F.col("outcome").isin(*_FAILED)).alias("failed")
    rows = (
        _ended(attempts)
        .groupingSets(sets, *_SCOPE, "kind")
        .agg(F.count("*").alias("deliveries"), failed, (F.grouping("kind") == 1).alias("is_total"), *_percentiles())
    )
    known = rows.where(F.col("is_total") | F.col("kind").isNotNull())
    scope = Window.partitionBy(*_SCOPE, "is_total")
    slowest = scope.orderBy(F.desc("run_p95"), F.desc("deliveries"), "kind")
    ranked = known.withColumn("kinds", F.count("*").over(scope)).withColumn("rank", F.row_number().over(slowest))
    return ranked.where(F.col("rank") <= kinds_max).orderBy("rank")


def failures_of(errors: DataFrame, scopes: Sequence[Scope]) -> DataFrame:
    """Reads errors; returns those of the queues among the scopes, once for each of them, with `queue`."""
    return errors.withColumn("queue", F.explode("queues")).where(_is_queue_of(scopes))


def failures(errors: DataFrame, by: Sequence[str], shown_max: int, samples_max: int) -> DataFrame:
    """Reads errors; returns for each value of the columns `by` the fingerprints with most failures, those first.

    The columns are those of errors with `tenants`, `samples` with their tenant, and `fingerprints all_failures`, which
    count those that are not returned, too.
    """
    sample = F.transform(
        "sample_jobs",
        lambda one: F.struct(
            F.unix_millis(one["happened_at"]).alias("at_ms"), F.col("tenant"), one["queue"], one["id"], one["message"]
        ),
    )
    rows = errors.groupBy(*by, "fingerprint").agg(
        F.first("error_class").alias("error_class"),
        F.first("template").alias("template"),
        *(F.array_sort(F.array_distinct(F.flatten(F.collect_list(name)))).alias(name) for name in ("kinds", "queues")),
        F.array_sort(F.collect_set("tenant")).alias("tenants"),
        *(F.sum(name).alias(name) for name in ("failures", "deaths", "jobs")),
        F.unix_millis(F.min("first_seen")).alias("first_ms"),
        F.unix_millis(F.max("last_seen")).alias("last_ms"),
        F.slice(F.sort_array(F.flatten(F.collect_list(sample)), asc=False), 1, samples_max).alias("samples"),
    )
    group = Window.partitionBy(*by)
    return (
        rows.withColumn("fingerprints", F.count("*").over(group))
        .withColumn("all_failures", F.sum("failures").over(group))
        .withColumn("rank", F.row_number().over(group.orderBy(F.desc("failures"), F.desc("deaths"), "fingerprint")))
        .where(F.col("rank") <= shown_max)
        .orderBy("rank")
    )


def consumption(usage: DataFrame) -> DataFrame:
    """Reads usage; returns `tenant day enqueued done dead deliveries run_ms payload_bytes` by tenant; day is null."""
    names = ("enqueued", "done", "dead", "deliveries", "run_ms", "payload_bytes")
    day = F.lit(None).cast("date").alias("day")
    return usage.groupBy("tenant").agg(day, *(F.sum(name).alias(name) for name in names))


def consumption_by_day(usage: DataFrame, tenants: Sequence[str], days_max: int) -> DataFrame:
    """Reads usage; returns the columns of `consumption` of these tenants, for each of the last days that they have."""
    latest = Window.partitionBy("tenant").orderBy(F.desc("day"))
    days = usage.where(F.col("tenant").isin(*tenants)).withColumn("rank", F.row_number().over(latest))
    return days.where(F.col("rank") <= days_max).drop("rank")


def _ended(attempts: DataFrame) -> DataFrame:
    return attempts.where(F.col("ended_at").isNotNull())


def _sets(*before: str) -> list[list[Column]]:
    scopes: tuple[tuple[str, ...], ...] = ((), _SCOPE[:1], _SCOPE)
    return [[F.col(name) for name in (*before, *scope)] for scope in scopes]


def _percentiles() -> list[Column]:
    """Exact ones, by nearest rank: each is a value that was really seen."""
    wanted = [(what, int(quantile[1:])) for what in ("wait", "run") for quantile in QUANTILES]
    return [
        *(
            F.expr(f"percentile_disc({p / 100}) within group (order by {what}_ms)").cast("long").alias(f"{what}_p{p}")
            for what, p in wanted
        ),
        F.max("run_ms").alias("run_max"),
    ]


def _bucket(at: Column, span: TimeSpan) -> Column:
    return F.floor((F.unix_millis(at) - F.lit(span.start_ms)) / F.lit(span.bucket_ms)).cast("int")


def _is_queue_of(scopes: Sequence[Scope]) -> Column:
    return F.concat_ws("/", "tenant", "queue").isin([scope.name for scope in scopes if scope.queue])


def _or_others(name: Column, is_shown: Column) -> Column:
    return F.when(is_shown, name).otherwise(F.lit(OTHERS))
