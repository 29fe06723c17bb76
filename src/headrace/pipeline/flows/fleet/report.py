"""The report of a fleet: what its workers did, as the journal tells it."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.event import Bounds
from headrace.model.names import Shard
from headrace.model.times import duration_text

OUTCOMES = ("done", "retried", "stalled", "dead", "released", "cancelled")
Ended = Literal["drained", "idle", "asked", "time", "cancelled"]


class Share(Struct, frozen=True):
    """What one worker of a fleet did. Each process that stood on a slot is a worker."""

    worker: str
    deliveries: int
    done: int
    retried: int
    stalled: int
    dead: int
    released: int
    cancelled: int


class FleetReport(Struct, frozen=True, kw_only=True):
    """What a fleet did, by the journal, from where it stood when the fleet began."""

    fleet: str
    ended: Ended
    """Why it ended: `drained` or `idle` as it was told, `asked` to stop, its `time` was over, or Spark's job was
    `cancelled` by somebody else."""
    slots: int
    rounds: int
    """How often the slot was begun that was begun most often."""
    falls: int
    """How often a slot fell: its process or its executor was lost. What Spark itself ran again is not counted."""
    took_ms: int
    jobs: int
    """Different jobs that were delivered to the fleet."""
    deliveries: int
    done: int
    retried: int
    stalled: int
    """Deliveries whose lease ran out: the job went to whoever came next."""
    dead: int
    released: int
    """Given back uncharged."""
    cancelled: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    run_p50_ms: int | None
    run_p95_ms: int | None
    jobs_per_s: float
    """Jobs that ended (done, dead or cancelled), from the first claim to the last end."""
    waiting: int
    """Left in the queues when it ended, as are `active` and `blocked`."""
    active: int
    blocked: int
    missed: int
    """Events that retention dropped before they could be read: the counts are short of them."""
    workers: list[Share]

    @property
    def open(self) -> int:
        """Deliveries that have not ended: their leases run out by themselves."""
        ended: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.deliveries - ended

    def sentence(self) -> str:
        """The report for people."""
        told = ", ".join(f"{count:,} {name}" for name in OUTCOMES if (count := getattr(self, name)))
        more = f"; {self.waiting + self.blocked:,} wait" if self.waiting + self.blocked else ""
        fell = f"; {self.falls:,} falls" if self.falls > 1 else "; 1 fall" if self.falls else ""
        return (
            f"{self.jobs:,} jobs in {duration_text(self.took_ms)} ({self.jobs_per_s:,.0f}/s):"
            f" {told or 'nothing to do'}{more}{fell}"
        )


class Figures(Struct, frozen=True):
    """What is taken out of the journal."""

    jobs: int = 0
    wait_p50_ms: int | None = None
    wait_p95_ms: int | None = None
    run_p50_ms: int | None = None
    run_p95_ms: int | None = None
    seconds: float = 0.0


def figures(events: DataFrame) -> DataFrame:
    """One row of figures, from the events of a fleet: `tenant queue shard id event happened_at wait_ms run_ms`."""
    claimed, ended = F.col("event") == "claimed", F.col("event").isin("done", "dead", "cancelled")
    return events.agg(
        F.count_distinct(F.when(claimed, F.struct("tenant", "queue", "shard", "id"))).alias("jobs"),
        *(_share(f"{what}_ms", share).alias(f"{what}_p{share}_ms") for what in ("wait", "run") for share in (50, 95)),
        F.coalesce(
            F.max(F.when(ended, F.unix_millis("happened_at"))) - F.min(F.when(claimed, F.unix_millis("happened_at"))),
            F.lit(0),
        ).alias("took_ms"),
    )


def shares(events: DataFrame) -> DataFrame:
    """One row per worker, from the events of a fleet: `worker event`."""
    event = F.col("event")
    return (
        events.groupBy("worker")
        .agg(
            F.count_if(event == "claimed").alias("deliveries"),
            *(F.count_if(event == name).alias(name) for name in OUTCOMES),
        )
        .orderBy("worker")
    )


def _share(name: str, share: int) -> Column:
    """By nearest rank, so that it is a time that was measured."""
    return F.expr(f"percentile_disc({share / 100}) within group (order by {name})").cast("long")


def read_events(spark: SparkSession, url: str, starts: Mapping[Shard, Bounds], prefix: str) -> DataFrame:
    """The events of a fleet's workers, from where the journals stood; of queues that are there."""
    frames = []
    for tenant in sorted({shard.queue.tenant for shard in starts}):
        of_tenant = {shard: bounds for shard, bounds in starts.items() if shard.queue.tenant == tenant}
        options = {
            "url": url,
            "tenant": tenant,
            "queue": ",".join(sorted({shard.queue.full_name for shard in of_tenant})),
            "columns": "tenant,queue,shard,happened_at,event,id,worker,wait_ms,run_ms",
            "startingOffsets": offsets(of_tenant),
            "failOnDataLoss": "false",
        }
        frames.append(spark.read.format("headrace").options(**options).load())
    return reduce(DataFrame.unionByName, frames).where(F.startswith(F.col("worker"), F.lit(prefix)))


def offsets(starts: Mapping[Shard, Bounds]) -> str:
    """Where journals stood, as the option `startingOffsets` has it: the first event behind."""
    return msgspec.json.encode({str(shard): bounds.last_seq + 1 for shard, bounds in starts.items()}).decode()


def missed(starts: Mapping[Shard, Bounds], now: Mapping[Shard, Bounds]) -> int:
    """How many events behind the starts the journals no longer hold."""
    return sum(max(now[shard].first_seq - 1 - bounds.last_seq, 0) for shard, bounds in starts.items() if shard in now)


def counted(spark: SparkSession, url: str, starts: Mapping[Shard, Bounds], prefix: str) -> tuple[Figures, list[Share]]:
    """The figures and the shares of a fleet."""
    if not starts:
        return Figures(), []
    events = read_events(spark, url, starts, prefix).persist()
    try:
        [row] = rows(figures(events))
        took_ms = row.pop("took_ms")
        found = [Share(**each) for each in rows(shares(events))]
    finally:
        events.unpersist()
    return Figures(**row, seconds=took_ms / 1_000), found


def rows(frame: DataFrame) -> Sequence[dict[str, Any]]:
    """A small frame as dictionaries."""
    return [each.asDict() for each in frame.collect()]
