"""Counts the work of a fleet from the journal, during the run and for its report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.event import Bounds
from headrace.model.names import Queue, Shard
from headrace.model.times import duration_text
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.stores.contract.store import Store

OUTCOMES = ("done", "retried", "stalled", "dead", "released", "cancelled")
SETTLEMENTS = ("done", "retried", "released", "dead", "cancelled")
"""Events by which a worker settles a delivery."""
_PREFIXES = {event: f'{{"event":"{event}",'.encode() for event in SETTLEMENTS}
"""Prefixes of journal lines: no text inside a line can hold these, its quotes would be escaped."""
EndReason = Literal["drained", "idle", "stopped", "timed_out", "cancelled"]


class FleetProgress(Struct, frozen=True):
    """How far a fleet is."""

    running: int
    """Slots with a running Spark job."""
    crashes: int
    settled: int
    """Deliveries that the fleet has settled, `done` and `dead` among them."""
    done: int
    dead: int
    jobs_per_s: float
    """Jobs done, dead or cancelled since the last report."""
    waiting: int
    """Jobs in its queues, as are `active`."""
    active: int

    @property
    def remaining(self) -> int:
        """Jobs that have not finished."""
        return self.waiting + self.active


class SettlementCounter:
    """Counts the deliveries that a fleet has settled since a point in the journals.

    Lines are counted by their prefix and not parsed: a driver keeps up with many executors.
    """

    def __init__(self, worker_prefix: str, starts: dict[Shard, Bounds]) -> None:
        self._worker_prefix = worker_prefix
        self._seqs = {shard: bounds.last_seq for shard, bounds in starts.items()}
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Deliveries that the fleet has settled."""
        return self.counts.total()

    async def update(self, store: Store) -> None:
        """Count the events since the last update."""
        for shard, bounds in (await bounds_of(store.journal, list(self._seqs))).items():
            # Events that retention dropped are skipped here: the report counts them as missed.
            after = max(min(self._seqs[shard], bounds.last_seq), bounds.first_seq - 1)
            while after < bounds.last_seq:
                entries = await store.journal.read(shard, after, bounds.last_seq)
                if not entries:
                    break
                for entry in entries:
                    if entry.worker is not None and entry.worker.startswith(self._worker_prefix):
                        self._count(entry.lines)
                after = entries[-1].last_seq
            self._seqs[shard] = bounds.last_seq

    def _count(self, lines: bytes) -> None:
        for event, prefix in _PREFIXES.items():
            if count := lines.count(prefix):
                self.counts[event] += count


async def journal_bounds(store: Store, queues: Sequence[Queue]) -> dict[Shard, Bounds]:
    """The bounds of the journals of queues."""
    return await bounds_of(store.journal, [shard for queue in queues for shard in queue.all_shards()])


class FleetWorkerCounts(Struct, frozen=True):
    """What one worker of a fleet did. Every process that served a slot is a worker."""

    worker: str
    deliveries: int
    done: int
    retried: int
    stalled: int
    dead: int
    released: int
    cancelled: int


class FleetReport(Struct, frozen=True, kw_only=True):
    """What a fleet did, counted in the journal from its start."""

    fleet: str
    end_reason: EndReason
    """`drained` or `idle` as requested, `stopped` on request, `timed_out` after `for_ms`, or `cancelled` when its Spark
    jobs were cancelled from outside."""
    slots: int
    starts_max: int
    """Starts of the slot that was started most often."""
    crashes: int
    """Lost processes and executors. Tasks that Spark itself retried are not counted."""
    took_ms: int
    jobs: int
    """Distinct jobs that were delivered to the fleet."""
    deliveries: int
    done: int
    retried: int
    stalled: int
    """Deliveries whose lease expired: the job went to another worker."""
    dead: int
    released: int
    """Given back uncharged."""
    cancelled: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    run_p50_ms: int | None
    run_p95_ms: int | None
    jobs_per_s: float
    """Jobs done, dead or cancelled, from the first claim to the last settlement."""
    waiting: int
    """Jobs left in the queues at the end, as are `active` and `blocked`."""
    active: int
    blocked: int
    missed: int
    """Events that retention dropped before they were read: the counts lack them."""
    workers: list[FleetWorkerCounts]

    @property
    def open(self) -> int:
        """Unsettled deliveries, whose leases expire."""
        settled: int = sum(getattr(self, name) for name in OUTCOMES)
        return self.deliveries - settled

    def sentence(self) -> str:
        """The report in one sentence."""
        counts = ", ".join(f"{count:,} {name}" for name in OUTCOMES if (count := getattr(self, name)))
        waiting = f"; {self.waiting + self.blocked:,} waiting" if self.waiting + self.blocked else ""
        crashes = f"; {self.crashes:,} crashes" if self.crashes > 1 else "; 1 crash" if self.crashes else ""
        return (
            f"{self.jobs:,} jobs in {duration_text(self.took_ms)} ({self.jobs_per_s:,.0f}/s):"
            f" {counts or 'nothing to do'}{waiting}{crashes}"
        )


class FleetFigures(Struct, frozen=True):
    """Figures of a fleet from its events."""

    jobs: int = 0
    wait_p50_ms: int | None = None
    wait_p95_ms: int | None = None
    run_p50_ms: int | None = None
    run_p95_ms: int | None = None
    seconds: float = 0.0


def read_fleet(
    spark: SparkSession, url: str, starts: Mapping[Shard, Bounds], worker_prefix: str
) -> tuple[FleetFigures, list[FleetWorkerCounts]]:
    """The figures of a fleet, and the counts of its workers."""
    if not starts:
        return FleetFigures(), []
    events = read_events(spark, url, starts, worker_prefix).persist()
    try:
        [row] = _dicts(figures(events))
        took_ms = row.pop("took_ms")
        workers = [FleetWorkerCounts(**each) for each in _dicts(worker_counts(events))]
    finally:
        events.unpersist()
    return FleetFigures(**row, seconds=took_ms / 1_000), workers


def read_events(spark: SparkSession, url: str, starts: Mapping[Shard, Bounds], worker_prefix: str) -> DataFrame:
    """The events of a fleet's workers behind `starts`, of queues that still exist."""
    frames = []
    for tenant in sorted({shard.queue.tenant for shard in starts}):
        of_tenant = {shard: bounds for shard, bounds in starts.items() if shard.queue.tenant == tenant}
        options = {
            "url": url,
            "tenant": tenant,
            "queue": ",".join(sorted({shard.queue.full_name for shard in of_tenant})),
            "columns": "tenant,queue,shard,happened_at,event,id,worker,wait_ms,run_ms",
            "startingOffsets": starting_offsets(of_tenant),
            "failOnDataLoss": "false",
        }
        frames.append(spark.read.format("headrace").options(**options).load())
    return reduce(DataFrame.unionByName, frames).where(F.startswith(F.col("worker"), F.lit(worker_prefix)))


def starting_offsets(starts: Mapping[Shard, Bounds]) -> str:
    """The option `startingOffsets` that begins with the first event behind `starts`."""
    return msgspec.json.encode({str(shard): bounds.last_seq + 1 for shard, bounds in starts.items()}).decode()


def figures(events: DataFrame) -> DataFrame:
    """One row of figures, from the events of a fleet: `tenant queue shard id event happened_at wait_ms run_ms`."""
    claimed, finished = F.col("event") == "claimed", F.col("event").isin("done", "dead", "cancelled")
    return events.agg(
        F.count_distinct(F.when(claimed, F.struct("tenant", "queue", "shard", "id"))).alias("jobs"),
        *(_percentile(f"{what}_ms", at).alias(f"{what}_p{at}_ms") for what in ("wait", "run") for at in (50, 95)),
        F.coalesce(
            F.max(F.when(finished, F.unix_millis("happened_at")))
            - F.min(F.when(claimed, F.unix_millis("happened_at"))),
            F.lit(0),
        ).alias("took_ms"),
    )


def worker_counts(events: DataFrame) -> DataFrame:
    """One row a worker with the columns of `FleetWorkerCounts`, from the events of a fleet: `worker event`."""
    event = F.col("event")
    return (
        events.groupBy("worker")
        .agg(
            F.count_if(event == "claimed").alias("deliveries"),
            *(F.count_if(event == name).alias(name) for name in OUTCOMES),
        )
        .orderBy("worker")
    )


def _percentile(name: str, at: int) -> Column:
    """By nearest rank, so that it is a time that was measured."""
    return F.expr(f"percentile_disc({at / 100}) within group (order by {name})").cast("long")


def missed_events(starts: Mapping[Shard, Bounds], now: Mapping[Shard, Bounds]) -> int:
    """How many events behind `starts` the journals no longer hold."""
    return sum(max(now[shard].first_seq - 1 - bounds.last_seq, 0) for shard, bounds in starts.items() if shard in now)


def _dicts(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
