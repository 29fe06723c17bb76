"""Reads journal and records with Spark, and compares them: the frames of an audit."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from msgspec import Struct
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.event import Bounds
from headrace.model.limits import AUDIT_FLAWS_MAX, AUDIT_LOOKS_MAX
from headrace.model.names import Shard
from headrace.pipeline.audit.compare import COMPARED, ROW, compare_dead_letters, compare_jobs, seen_jobs
from headrace.pipeline.audit.fold import EVENT, JOB, SHARD, cut_at, fold, fold_dead_letters, uncut
from headrace.pipeline.audit.journal_flaws import EventRange, dead_letter_flaws, number_flaws, order_flaws

_JOBS = "tenant string, queue string, shard int, id string"
_SHARDS = "tenant string, queue string, shard int, shards int, first_seq long, is_whole boolean, stood_seq long"
ShardKey = tuple[str, str, int]
"""A shard by tenant, queue and index."""
Suspects = list[tuple[ShardKey, str, dict[str, Any] | None]]
"""Jobs by shard and id, each with its row of `fold` if it has events."""


class ComparisonCounts(Struct, frozen=True):
    """Counts of jobs after the comparison in Spark."""

    jobs: int
    partial: int
    """Compared in part only."""
    differ: int
    """Differ although they did not move."""
    moved: int
    """Differ and have moved meanwhile."""


class AuditFrames:
    """Frames that are read once and used several times, until `close`."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = options
        self._persisted: list[DataFrame] = []

    def read_rows(self) -> tuple[dict[tuple[str, str, str], int], dict[ShardKey, int]]:
        """Read all records: their number by tenant, queue and state, and the last seq that each shard had then."""
        self._rows = self._persist(self._read(what="jobs", payloads="false", columns=",".join(ROW)))
        totals = self._rows.groupBy(*SHARD, "state").agg(F.count("*").alias("n"), F.max("as_of_seq").alias("seq"))
        counts: dict[tuple[str, str, str], int] = {}
        last_seqs: dict[ShardKey, int] = {}
        for row in totals.collect():
            state, shard = (row["tenant"], row["queue"], row["state"]), (row["tenant"], row["queue"], row["shard"])
            counts[state] = counts.get(state, 0) + row["n"]
            last_seqs[shard] = max(last_seqs.get(shard, 0), row["seq"])
        return counts, last_seqs

    def read_events(self) -> dict[ShardKey, EventRange]:
        """Read all events, and return their range in each shard. Events that retention drops meanwhile are left out."""
        self._events = self._persist(self._read(what="journal", columns=",".join(EVENT), failOnDataLoss="false"))
        ranges = self._events.groupBy(*SHARD).agg(
            F.min("seq").alias("first"),
            F.min_by(F.unix_millis("happened_at"), "seq").alias("at_ms"),
            F.max("seq").alias("last"),
            F.count("*").alias("n"),
        )
        return {
            (row["tenant"], row["queue"], row["shard"]): EventRange(row["first"], row["at_ms"], row["last"], row["n"])
            for row in ranges.collect()
        }

    def select_shards(self, shards: Mapping[Shard, Bounds], before: Mapping[Shard, Bounds]) -> None:
        """Continue with these shards, and the events that their journals still hold; `before` are the bounds before
        anything was read."""
        rows = [
            (
                *shard_key(shard),
                shard.queue.shards,
                bounds.first_seq,
                bounds.first_seq == 1,
                before[shard].last_seq if shard in before else 0,
            )
            for shard, bounds in shards.items()
        ]
        self._shards = self._spark.createDataFrame(rows, _SHARDS)
        # Retention may have dropped some events after they were read, and later ones before: only the events that
        # still exist were surely read without a gap.
        firsts = F.broadcast(self._shards.select(*SHARD, "first_seq"))
        joined = self._events.join(firsts, on=list(SHARD), how="inner")
        self._current_events = joined.where(F.col("seq") >= F.col("first_seq")).drop("first_seq")
        self._dead_letters = self._persist(fold_dead_letters(self._current_events))

    def flaws(self) -> list[Any]:
        """Flaws of the journal itself, the first ones of each kind."""
        numbers, dead_letters = number_flaws(self._current_events), dead_letter_flaws(self._dead_letters)
        order = order_flaws(self._current_events, self._shards)
        frames = [frame.limit(AUDIT_FLAWS_MAX) for frame in (numbers, order, dead_letters)]
        return reduce(DataFrame.unionByName, frames).collect()

    def compare(self) -> ComparisonCounts:
        """Compare journal and records."""
        seen = seen_jobs(self._rows)
        jobs = compare_jobs(fold(cut_at(self._current_events, seen)), seen, self._shards)
        dead_letters = compare_dead_letters(self._dead_letters, self._rows, self._shards)
        self._compared = self._persist(
            jobs.unionByName(dead_letters).groupBy(*JOB).agg(*[F.bool_or(name).alias(name) for name in COMPARED])
        )
        differs = F.col("differs") & ~F.col("is_misplaced")
        [counts] = self._compared.agg(
            F.count("*").alias("jobs"),
            F.count_if("is_partial").alias("partial"),
            F.count_if(differs & ~F.col("has_moved")).alias("differ"),
            F.count_if(differs & F.col("has_moved")).alias("moved"),
        ).collect()
        return ComparisonCounts(**counts.asDict())

    def misplaced(self) -> list[Any]:
        """Jobs in a shard that their ids do not belong to."""
        return self._compared.where("is_misplaced").select(*JOB).limit(AUDIT_FLAWS_MAX).collect()

    def suspects(self) -> Suspects:
        """The jobs that differ, up to the limit of rechecks, each with its row of `fold` if it has events."""
        # Jobs that did not move come first: a job that moves is expected to differ.
        differing = self._compared.where("differs AND NOT is_misplaced").orderBy("has_moved", *JOB)
        picked = differing.select(*JOB).limit(AUDIT_LOOKS_MAX)
        ids = [((row["tenant"], row["queue"], row["shard"]), row["id"]) for row in picked.collect()]
        if not ids:
            return []
        suspects = self._spark.createDataFrame([(*shard, id) for shard, id in ids], _JOBS)
        folded = fold(uncut(self._current_events.join(F.broadcast(suspects), on=list(JOB), how="left_semi")))
        histories = {
            ((row["tenant"], row["queue"], row["shard"]), row["id"]): row.asDict(recursive=True)
            for row in folded.collect()
        }
        return [(shard, id, histories.get((shard, id))) for shard, id in ids]

    def close(self) -> None:
        """Release the persisted frames."""
        for frame in self._persisted:
            frame.unpersist()

    def _read(self, **options: str) -> DataFrame:
        return self._spark.read.format("headrace").options(**self._options, **options).load()

    def _persist(self, frame: DataFrame) -> DataFrame:
        self._persisted.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._persisted[-1]


def shard_key(shard: Shard) -> ShardKey:
    """The shard as rows name it."""
    return shard.queue.tenant, shard.queue.full_name, shard.index
