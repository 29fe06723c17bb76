"""Questions that the report asks of the tables, each a pure function; `scoped` says of which tenants and queues."""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.report.model import COUNTED, Scope, TimeSpan
from headrace.pipeline.tables.stats import percentiles

_SCOPE = ("shown_tenant", "shown_queue")
_SCOPES: tuple[tuple[str, ...], ...] = ((), _SCOPE[:1], _SCOPE)
"""Everything, tenants, and queues."""
_TIMES = ("wait", "run")
READ = (
    *("window_start", "window_end", "tenant", "queue", "kind", *COUNTED, "opened", "closed", "deliveries", "run_max"),
    *("wait_times", "run_times", "backlog"),
)
"""The columns of statistics that are needed."""
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


def backlogs(stats: DataFrame, openings: DataFrame, span: TimeSpan) -> DataFrame:
    """Reads stats and the jobs that were open before them, both scoped; returns `bucket shown_tenant shown_queue
    change`: by how much the open jobs grew from the end of the bucket before, of the first one from nothing."""
    series = ("tenant", "queue", "kind", *_SCOPE)
    ends = (
        stats.where(F.col("backlog").isNotNull())
        .groupBy(_bucket(F.col("window_start"), span).alias("bucket"), *series)
        .agg(F.max_by("backlog", "window_start").alias("open"))
        .unionByName(openings.select(F.lit(-1).alias("bucket"), *series, "open"))
    )
    before = F.lag("open", 1, 0).over(Window.partitionBy(*series).orderBy("bucket"))
    changes = ends.withColumn("change", F.col("open") - before)
    return changes.groupBy(F.greatest("bucket", F.lit(0)).alias("bucket"), *_SCOPE).agg(F.sum("change").alias("change"))


def unknowns(stats: DataFrame) -> DataFrame:
    """Reads stats that are scoped; returns `shown_tenant shown_queue queues`: how many queues there have no backlog at
    the end, since the journal's beginning is gone. `backlogs` is without them."""
    last = F.max(F.struct("window_start", F.col("backlog").isNull().alias("is_unknown"))).alias("last")
    queues = stats.groupBy("tenant", "queue", *_SCOPE).agg(last)
    return queues.where("last.is_unknown").groupBy(*_SCOPE).agg(F.count("*").alias("queues"))


def latencies(stats: DataFrame, span: TimeSpan) -> DataFrame:
    """Reads stats that are scoped; returns percentiles for each bucket of everything, of each tenant and queue that is
    shown: `bucket shown_tenant shown_queue wait_p50 … run_p99`; a name is null where all are meant."""
    rows = stats.withColumn("bucket", _bucket(F.col("window_start"), span))
    inside = rows.where(F.col("bucket").between(0, span.buckets - 1))
    return _times(inside, [["bucket", *scope] for scope in _SCOPES], ("bucket", *_SCOPE))


def kinds(stats: DataFrame, kinds_max: int) -> DataFrame:
    """Reads stats that are scoped; returns for everything and for each tenant and queue that is shown the kinds with
    the longest runs: `shown_tenant shown_queue is_total kind kinds deliveries failed run_max`, and percentiles as
    `latencies`.

    The row with `is_total` is about all kinds together.
    """
    sets = [[*kind, *scope] for scope in _SCOPES for kind in ((), ("kind",))]
    keys = (*_SCOPE, "kind")
    delivered = stats.where(F.col("deliveries") > 0)
    failed = F.sum(F.col("retried") + F.col("stalled") + F.col("dead") - F.col("expired")).alias("failed")
    counts = delivered.groupingSets([[F.col(name) for name in names] for names in sets], *keys).agg(
        F.sum("deliveries").alias("deliveries"),
        failed,
        F.max("run_max").alias("run_max"),
        (F.grouping("kind") == 1).alias("is_total"),
    )
    rows = _joined(
        counts, _times(delivered, sets, keys).withColumnRenamed("is_of_all", "is_total"), (*keys, "is_total")
    )
    known = rows.where(F.col("is_total") | F.col("kind").isNotNull())
    scope = Window.partitionBy(*_SCOPE, "is_total")
    slowest = scope.orderBy(F.desc("run_p95"), F.desc("deliveries"), "kind")
    ranked = known.withColumn("kinds", F.count("*").over(scope)).withColumn("rank", F.row_number().over(slowest))
    return ranked.where(F.col("rank") <= kinds_max).orderBy("rank")


def failures_of(errors: DataFrame, scopes: Sequence[Scope]) -> DataFrame:
    """Reads failed jobs; returns those of the queues among the scopes."""
    return errors.where(_is_queue_of(scopes))


def failures(errors: DataFrame, by: Sequence[str], shown_max: int, samples_max: int) -> DataFrame:
    """Reads groups of errors; returns for each value of the columns `by` the fingerprints with most failures first.

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


def _times(stats: DataFrame, sets: Sequence[Sequence[str]], keys: Sequence[str]) -> DataFrame:
    """The percentiles of all deliveries of each grouping set; `is_of_all` says that the last key is none of its set."""
    both = F.explode(
        F.array(*(F.struct(F.lit(what).alias("what"), F.col(f"{what}_times").alias("times")) for what in _TIMES))
    )
    entries = (
        stats.select(*keys, both.alias("both"))
        .select(*keys, "both.what", F.explode("both.times").alias("time"))
        .select(*keys, "what", "time.ms", "time.deliveries")
    )
    counted = entries.groupingSets(
        [[F.col(name) for name in (*names, "what", "ms")] for names in sets], *keys, "what", "ms"
    ).agg(F.sum("deliveries").alias("deliveries"), (F.grouping(keys[-1]) == 1).alias("is_of_all"))
    entry = F.struct("ms", "deliveries")
    gathered = counted.groupBy(*keys, "is_of_all").agg(
        *(F.array_sort(F.collect_list(F.when(F.col("what") == what, entry))).alias(what) for what in _TIMES)
    )
    ranks = [column for what in _TIMES for column in percentiles(F.col(what), what)]
    return gathered.select(*keys, "is_of_all", *ranks)


def _joined(one: DataFrame, other: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Two frames side by side where the keys are the same, or missing in both."""
    same = reduce(and_, (one[name].eqNullSafe(other[name]) for name in keys))
    return one.join(other, same, "left").select(one["*"], *(other[name] for name in other.columns if name not in keys))


def _bucket(at: Column, span: TimeSpan) -> Column:
    return F.floor((F.unix_millis(at) - F.lit(span.start_ms)) / F.lit(span.bucket_ms)).cast("int")


def _is_queue_of(scopes: Sequence[Scope]) -> Column:
    return F.concat_ws("/", "tenant", "queue").isin([scope.name for scope in scopes if scope.queue])


def _or_others(name: Column, is_shown: Column) -> Column:
    return F.when(is_shown, name).otherwise(F.lit(OTHERS))
