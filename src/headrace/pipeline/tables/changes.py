"""The table of changes: what moved since the same time yesterday."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

FACTOR = 2.0
"""A measure has moved when it is this many times what it was, or one part in so many."""
BACKLOG_MIN = 10
"""Jobs by which a backlog must differ: ten more are worth a look, two instead of one are not."""
TIME_MIN_MS = 100
"""Milliseconds by which a time must differ."""
RATE_MIN = 0.01
"""By which a rate of failures must differ."""
DELIVERIES_MIN = 20
"""In each of the two days, for times and rates: of three deliveries one that fails says nothing."""
_KEYS = ("tenant", "queue")


def changes(stats: DataFrame, errors: DataFrame, until_ms: int) -> DataFrame:
    """One row for each error that is new, and for each measure of a queue that moved: the 24 hours up to `until_ms`
    compared with the 24 hours before.

    Reads `window_start tenant queue kind retried stalled dead expired deliveries wait_times run_times backlog` of the
    table of statistics, and `tenant fingerprint error_class template queue failures first_seen` of that of errors.

    Returns
    - `until`: the end of the later day; `tenant`, and `queue` (of an error, the first of those that it was seen in)
    - `change`: `new_error`, `backlog`, `wait_p95`, `run_p95` or `failure_rate`
    - `direction`: `up` or `down`
    - `before now`: of an error 0 and its failures; of a backlog the jobs at the end of each day; of times the 95th
      percentile of the day's deliveries, in milliseconds; of the rate the deliveries that were retried, stalled or died
    - `factor`: how many times it is what it was; null where it was 0
    - `fingerprint message`: of an error, its class and template; else null

    A measure has moved when it is at least twice or at most half of what it was, and differs by 10 jobs, 100 ms or
    0.01; times and rates need 20 deliveries in each day. What moved most comes first, new errors before all.
    """
    moved = _moved(_by_queue(stats, until_ms))
    rows = moved.unionByName(_new_errors(errors, until_ms)).select(_instant(until_ms).alias("until"), "*")
    return ranked(rows)


def ranked(changes: DataFrame) -> DataFrame:
    """Changes in their order: what moved most first, new errors before all."""
    extent = F.abs(F.log(F.coalesce("factor", "now")))
    return changes.orderBy(F.col("change") != "new_error", F.desc(extent), *_KEYS, "change")


def _instant(at_ms: int) -> Column:
    return F.timestamp_millis(F.lit(at_ms))


def _by_queue(stats: DataFrame, until_ms: int) -> DataFrame:
    """A row for each queue, with each measure of both days."""
    day = F.expr("INTERVAL 24 HOURS")
    end = _instant(until_ms)
    middle = end - day
    is_now = (F.col("window_start") >= middle) & (F.col("window_start") < end)
    is_before = (F.col("window_start") >= middle - day) & (F.col("window_start") < middle)
    days = {"before": is_before, "now": is_now}
    # The last window of a kind says what is open until its next one.
    kinds = stats.where(F.col("window_start") < end).groupBy(*_KEYS, "kind").agg(
        F.max_by("backlog", F.when(F.col("window_start") < middle, F.col("window_start"))).alias("backlog_before"),
        F.max_by("backlog", "window_start").alias("backlog_now"),
    )  # fmt: skip
    backlogs = kinds.groupBy(*_KEYS).agg(*(_whole_sum(f"backlog_{name}") for name in days))
    failed = F.col("retried") + F.col("stalled") + F.col("dead") - F.col("expired")
    both = stats.where(is_now | is_before)
    measures = both.groupBy(*_KEYS).agg(
        *(F.sum(F.when(days[name], F.col("deliveries"))).alias(f"deliveries_{name}") for name in days),
        *(F.sum(F.when(days[name], failed)).alias(f"failed_{name}") for name in days),
    )
    for what in ("wait", "run"):
        measures = measures.join(_p95(both, what, days), on=list(_KEYS), how="left")
    rates = (
        (F.col(f"failed_{name}") / F.nullif(F.col(f"deliveries_{name}"), F.lit(0))).alias(f"failure_rate_{name}")
        for name in days
    )
    return backlogs.join(measures, on=list(_KEYS), how="left").select("*", *rates)


def _p95(stats: DataFrame, what: str, days: dict[str, Column]) -> DataFrame:
    """The 95th percentile of the times of each queue's deliveries, day by day."""
    times = stats.select(*_KEYS, "window_start", F.explode(f"{what}_times").alias("time"))
    return times.groupBy(*_KEYS).agg(
        *(
            F.percentile(F.when(days[name], F.col("time.ms")), 0.95, F.col("time.deliveries")).alias(
                f"{what}_p95_{name}"
            )
            for name in days
        )
    )


def _whole_sum(name: str) -> Column:
    """The sum over all kinds of a queue; null when that of one is not known."""
    return F.when(F.count(name) == F.count("*"), F.sum(name)).alias(name)


def _moved(queues: DataFrame) -> DataFrame:
    """The measures that moved, a row each."""
    has_enough = (F.col("deliveries_before") >= DELIVERIES_MIN) & (F.col("deliveries_now") >= DELIVERIES_MIN)
    least = {"backlog": BACKLOG_MIN, "wait_p95": TIME_MIN_MS, "run_p95": TIME_MIN_MS, "failure_rate": RATE_MIN}
    measures = [
        F.struct(
            F.lit(name).alias("change"),
            F.col(f"{name}_before").cast("double").alias("before"),
            F.col(f"{name}_now").cast("double").alias("now"),
            F.lit(float(minimum)).alias("least"),
            (F.lit(True) if name == "backlog" else has_enough).alias("has_enough"),
        )
        for name, minimum in least.items()
    ]
    before, now = F.col("before"), F.col("now")
    rows = queues.select(*_KEYS, F.explode(F.array(*measures)).alias("measure")).select(*_KEYS, "measure.*")
    return rows.where(
        F.col("has_enough")
        & (F.abs(now - before) >= F.col("least"))
        & ((now >= before * FACTOR) | (now * FACTOR <= before))
    ).select(
        *_KEYS,
        "change",
        F.when(now > before, "up").otherwise("down").alias("direction"),
        "before",
        "now",
        (now / F.nullif(before, F.lit(0.0))).alias("factor"),
        F.lit(None).cast("string").alias("fingerprint"),
        F.lit(None).cast("string").alias("message"),
    )


def _new_errors(errors: DataFrame, until_ms: int) -> DataFrame:
    """Errors that were first seen in the later day."""
    end = _instant(until_ms)
    found = errors.groupBy("tenant", "fingerprint").agg(
        F.min("first_seen").alias("first_seen"),
        F.min("queue").alias("queue"),
        F.sum("failures").cast("double").alias("now"),
        F.any_value(F.concat_ws(": ", "error_class", "template")).alias("message"),
    )
    return found.where((F.col("first_seen") >= end - F.expr("INTERVAL 24 HOURS")) & (F.col("first_seen") < end)).select(
        *_KEYS,
        F.lit("new_error").alias("change"),
        F.lit("up").alias("direction"),
        F.lit(0.0).alias("before"),
        "now",
        F.lit(None).cast("double").alias("factor"),
        "fingerprint",
        "message",
    )
