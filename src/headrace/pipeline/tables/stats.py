"""The table of statistics: what happened in each window, by tenant, queue and kind; rows of more events are added."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

OPENINGS = ("enqueued", "unblocked", "replayed")
"""Events after which one job more waits."""
OUTCOMES = ("done", "retried", "released", "stalled", "dead", "cancelled")
"""Ways in which a delivery ends; jobs also die and are cancelled without one."""
READ = ("tenant", "queue", "happened_at", "event", "kind", "fence", "wait_ms", "run_ms", "reason", "dead_letter")
"""The columns of the journal that are needed."""
PERCENTILES = (50, 95, 99)
KEY = ("window_start", "tenant", "queue", "kind")
_COUNTS = (
    *("events", *OPENINGS, "opened", *OUTCOMES[:5], "expired", "cancelled", "purged", "removed", "closed"),
    *("deliveries", "run_ms_sum"),
)
_TIMES = ("wait", "run")


def stats(events: DataFrame, window_ms: int) -> DataFrame:
    """One row for each window, tenant, queue and kind in which something was opened or closed, or a delivery ended.

    Reads `tenant queue happened_at event kind fence wait_ms run_ms reason dead_letter`, in any order.

    Returns
    - `window_start window_end`: windows of `window_ms`, counted from 1970 UTC
    - `tenant queue kind`; the kind is null where a record was lost
    - `events`: those that are counted here
    - `enqueued unblocked replayed` and `opened`, all of them
    - `done retried released stalled dead expired cancelled purged removed`: `dead` holds the `expired`, which died
      without a delivery; `cancelled` holds those that waited, and not those that were blocked behind another
    - `closed`: jobs that were done, died, or were cancelled, purged or removed
    - `deliveries`: those that ended
    - `wait_p50 wait_p95 wait_p99 wait_max run_p50 run_p95 run_p99 run_max` of these in milliseconds, by nearest rank,
      percentiles to three digits; null without any
    - `run_ms_sum`
    - `throughput`: done a second
    - `retry_rate stall_rate death_rate`: of the deliveries that ended; null without any
    - `wait_times run_times`: how many deliveries took how long, as `ms deliveries` in order, times to three digits; the
      times of several windows together give their percentiles
    """
    return with_rates(window_counts(events, window_ms), window_ms)


def window_counts(events: DataFrame, window_ms: int) -> DataFrame:
    """What `stats` counts, before percentiles and rates: what can be added to the counts of other events."""
    at_ms = F.unix_millis("happened_at")
    window = F.timestamp_millis(at_ms - F.pmod(at_ms, F.lit(window_ms))).alias("window_start")
    counted = events.where(_opens() | _closes() | _delivers()).select(
        window, *READ[:2], *READ[3:], *(_three_digits(F.col(f"{what}_ms")).alias(what) for what in _TIMES)
    )
    # Rows of equal times are counted first, once by waits and once by runs: few are left to be gathered.
    equal = counted.groupingSets([[*map(F.col, (*KEY, what))] for what in _TIMES], *KEY, *_TIMES).agg(
        F.grouping("wait").alias("is_of_runs"),
        F.count("*").alias("events"),
        *(F.count_if(F.col("event") == name).alias(name) for name in OPENINGS),
        F.count_if(_opens()).alias("opened"),
        *(F.count_if(F.col("event") == name).alias(name) for name in OUTCOMES),
        F.count_if((F.col("event") == "dead") & F.col("fence").isNull()).alias("expired"),
        *(F.count_if(F.col("event") == name).alias(name) for name in ("purged", "removed")),
        F.count_if(_closes()).alias("closed"),
        F.count_if(_delivers()).alias("deliveries"),
        F.coalesce(F.sum("run_ms"), F.lit(0)).alias("run_ms_sum"),
        *(F.max(f"{what}_ms").alias(f"{what}_max") for what in _TIMES),
    )
    is_of = {"wait": F.col("is_of_runs") == 0, "run": F.col("is_of_runs") == 1}
    return equal.groupBy(*KEY).agg(
        *(F.sum(F.when(is_of["wait"], F.col(name))).cast("long").alias(name) for name in _COUNTS),
        *(F.max(f"{what}_max").cast("long").alias(f"{what}_max") for what in _TIMES),
        *(_gathered(what, is_of[what]).alias(f"{what}_times") for what in _TIMES),
    )


def merge_windows(rows: DataFrame) -> DataFrame:
    """Rows of `window_counts` of different events, as one row for each window, tenant, queue and kind."""
    return rows.groupBy(*KEY).agg(
        *(F.sum(name).cast("long").alias(name) for name in _COUNTS),
        *(F.max(f"{what}_max").alias(f"{what}_max") for what in _TIMES),
        *(_merged(f"{what}_times").alias(f"{what}_times") for what in _TIMES),
    )


def with_rates(counts: DataFrame, window_ms: int) -> DataFrame:
    """The columns of `stats` for rows of `window_counts`."""
    return counts.select(
        "window_start",
        F.timestamp_millis(F.unix_millis("window_start") + window_ms).alias("window_end"),
        *KEY[1:],
        *_COUNTS[:-1],
        *(column for what in _TIMES for column in (*percentiles(F.col(f"{what}_times"), what), F.col(f"{what}_max"))),
        "run_ms_sum",
        (F.col("done") / F.lit(window_ms / 1_000)).alias("throughput"),
        _rate(F.col("retried")).alias("retry_rate"),
        _rate(F.col("stalled")).alias("stall_rate"),
        _rate(F.col("dead") - F.col("expired")).alias("death_rate"),
        *(f"{what}_times" for what in _TIMES),
    )


def percentiles(times: Column, what: str) -> list[Column]:
    """The percentiles of times, as columns named after what took so long: `wait_p50 wait_p95 wait_p99`."""
    return [_nearest_rank(times, percent).alias(f"{what}_p{percent}") for percent in PERCENTILES]


def _opens() -> Column:
    return F.col("event").isin(*OPENINGS)


def _closes() -> Column:
    event, reason = F.col("event"), F.col("reason")
    return (
        event.isin("done", "dead")
        | ((event == "cancelled") & reason.isNull())
        | ((event == "purged") & F.col("dead_letter").isNull())
        | ((event == "removed") & reason.isNotNull())
    )


def _delivers() -> Column:
    """Whether a delivery ended. One that was lost with its record left a `stalled` that knows no fence."""
    event = F.col("event")
    return event.isin("retried", "released", "stalled") | (
        event.isin("done", "dead", "cancelled") & F.col("fence").isNotNull()
    )


def _three_digits(ms: Column) -> Column:
    """A time to three digits: so few different ones are kept of many deliveries, at an error of half a percent."""
    unit = F.pow(F.lit(10), F.greatest(F.length(ms.cast("string")) - 3, F.lit(0))).cast("long")
    return (F.floor((ms + F.floor(unit / 2)) / unit) * unit).cast("long")


def _gathered(what: str, is_of: Column) -> Column:
    entry = F.struct(F.col(what).alias("ms"), F.col("events").alias("deliveries"))
    return F.array_sort(F.collect_list(F.when(is_of & F.col(what).isNotNull(), entry)))


def _merged(name: str) -> Column:
    def add(_: Column, one: Column, other: Column) -> Column:
        return F.coalesce(one, F.lit(0)) + F.coalesce(other, F.lit(0))

    both = F.aggregate(
        F.collect_list(F.map_from_entries(name)),
        F.create_map().cast("map<bigint,bigint>"),
        lambda one, other: F.map_zip_with(one, other, add),
    )
    entries = F.transform(
        F.map_entries(both), lambda each: F.struct(each["key"].alias("ms"), each["value"].alias("deliveries"))
    )
    return F.array_sort(entries)


def _nearest_rank(times: Column, percent: int) -> Column:
    """The least time that so many percent of all do not exceed."""
    count = F.aggregate(times, F.lit(0).cast("long"), lambda seen, each: seen + each["deliveries"])
    rank = F.floor((count * percent + 99) / 100).cast("long")
    # Within the fold, it would be computed at each step.
    start = F.struct(F.lit(0).cast("long").alias("seen"), F.lit(None).cast("long").alias("ms"), rank.alias("rank"))

    def step(so_far: Column, each: Column) -> Column:
        seen = so_far["seen"] + each["deliveries"]
        found = F.when(so_far["ms"].isNull() & (seen >= so_far["rank"]), each["ms"]).otherwise(so_far["ms"])
        return F.struct(seen.alias("seen"), found.alias("ms"), so_far["rank"].alias("rank"))

    return F.aggregate(times, start, step, lambda last: last["ms"])


def _rate(part: Column) -> Column:
    return F.when(F.col("deliveries") > 0, part / F.col("deliveries"))
