"""Which windows of which queues a batch of events touches, and what has to be read to count them anew."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.limits import STATS_NAMES_MAX, STATS_RANGES_MAX
from headrace.pipeline.stats.columns import ROW, Row
from headrace.pipeline.stats.whole import QueueKey
from headrace.pipeline.tables.stats import READ, stats

NAMED = ("tenant", "queue", "shard", "epoch", "seq", "happened_at")
"""The columns of the journal that name windows: none of them has to be parsed."""


class Touched(Struct, frozen=True):
    """The events of a batch that are of one window and one shard; they follow each other without a gap."""

    start_ms: int
    tenant: str
    queue: str
    shard: int
    epoch: int
    first_seq: int
    last_seq: int

    @property
    def name(self) -> str:
        """The shard's, as states have it."""
        return f"{self.tenant}/{self.queue}/{self.shard}"

    @property
    def window(self) -> "Window":
        """What is counted anew because of it."""
        return self.start_ms, (self.tenant, self.queue)


Window = tuple[int, QueueKey]
"""A window of a queue."""


def touched_by(events: DataFrame, window_ms: int) -> list[Touched]:
    """Reads `tenant queue shard epoch seq happened_at`."""
    at_ms = F.unix_millis("happened_at")
    windows = events.withColumn("start_ms", at_ms - F.pmod(at_ms, F.lit(window_ms)))
    # An epoch that begins within a window uses numbers again: its events are counted by themselves.
    groups = windows.groupBy("start_ms", "tenant", "queue", "shard", "epoch").agg(F.min("seq"), F.max("seq"))
    return sorted((Touched(*row) for row in groups.collect()), key=lambda each: (each.name, each.epoch, each.first_seq))


def ranges(starts: Collection[int], window_ms: int, most: int = STATS_RANGES_MAX) -> list[tuple[int, int]]:
    """The ranges of time that hold these windows, as begin and end: at most so many, joined where the gap is least."""
    found = [(start, start + window_ms) for start in sorted(set(starts))]
    gaps = sorted(after[0] - before[1] for before, after in pairwise(found))
    # Gaps of no length are always closed; of the others all but the largest.
    closed = gaps[-most] if len(gaps) >= most else 0
    joined: list[tuple[int, int]] = []
    for begin, end in found:
        if joined and begin - joined[-1][1] <= closed:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return joined


def count_anew(
    spark: SparkSession, options: dict[str, str], window_ms: int, windows: Collection[Window]
) -> dict[int, list[Row]]:
    """The rows of windows of queues, by the windows' starts, from what the journal holds now."""
    if not windows:
        return {}
    wanted = set(windows)
    queues = {queue for _, queue in wanted}
    frames = [
        _named(spark.read.format("headrace").options(**options, columns=",".join(READ)).load(), queues).where(
            (F.col("happened_at") >= F.timestamp_millis(F.lit(begin)))
            & (F.col("happened_at") < F.timestamp_millis(F.lit(end)))
        )
        for begin, end in ranges([start for start, _ in wanted], window_ms)
    ]
    events = frames[0]
    for frame in frames[1:]:
        events = events.unionAll(frame)
    # Before they are counted: ranges hold what lies between scattered windows, which the driver does not want.
    starts = ", ".join(str(start) for start in sorted({start for start, _ in wanted}))
    at_ms = F.unix_millis("happened_at")
    events = events.withColumn("start_ms", at_ms - F.pmod(at_ms, F.lit(window_ms))).where(f"start_ms IN ({starts})")
    found: dict[int, list[Row]] = {}
    for start_ms, row in rows_of(stats(events, window_ms)):
        if (start_ms, (row["tenant"], row["queue"])) in wanted:
            found.setdefault(start_ms, []).append(row)
    return dict(sorted(found.items()))


def rows_of(frame: DataFrame) -> list[tuple[int, Row]]:
    """The rows of statistics, each with the start of its window; their backlog is yet to be set."""
    names: Sequence[str] = [name for name in ROW.names if name != "backlog"]
    found = frame.select(F.unix_millis("window_start").alias("start_ms"), *names).toArrow().to_pylist()
    return [(row.pop("start_ms"), {**row, "backlog": None}) for row in found]


def _named(events: DataFrame, queues: Collection[QueueKey]) -> DataFrame:
    if len(queues) > STATS_NAMES_MAX:
        return events
    tenants, names = zip(*sorted(queues), strict=True)
    return events.where(F.col("tenant").isin(*set(tenants)) & F.col("queue").isin(*set(names)))
