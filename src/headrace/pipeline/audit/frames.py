"""The frames of an audit: what Spark reads of journal and records, and what it makes of them."""

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
from headrace.pipeline.audit.compare import COMPARED, ROW, compared_dead_letters, compared_jobs, seen_jobs
from headrace.pipeline.audit.flaws import dead_letter_flaws, number_flaws, story_flaws
from headrace.pipeline.audit.fold import EVENT, JOB, SHARD, cut_at, fold, fold_dead_letters, uncut

_JOBS = "tenant string, queue string, shard int, id string"
_SHARDS = "tenant string, queue string, shard int, shards int, first_seq long, is_whole boolean, stood_seq long"
Place = tuple[str, str, int]
"""A shard by tenant, queue and index."""
Suspects = list[tuple[Place, str, dict[str, Any] | None]]
"""Jobs by place and id, each with its row of `fold` if it has events."""


class StoredRecords(Struct, frozen=True):
    """The events that were read of a shard: the first and when it happened, the last, and how many."""

    first_seq: int
    first_at_ms: int
    last_seq: int
    count: int


class Compared(Struct, frozen=True):
    """How many jobs there are, could be compared in part only, differ though they stood still, and moved meanwhile so
    that they differ."""

    jobs: int
    partly: int
    differ: int
    moved: int


class Frames:
    """What is read once and used several times; `close` lets go of it."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = options
        self._kept: list[DataFrame] = []

    def read_rows(self) -> tuple[dict[tuple[str, str, str], int], dict[Place, int]]:
        """Read all records: how many there are by tenant, queue and state, and how far each shard's journal had got."""
        self._rows = self._keep(self._read(what="jobs", payloads="false", columns=",".join(ROW)))
        found = self._rows.groupBy(*SHARD, "state").agg(F.count("*").alias("n"), F.max("as_of_seq").alias("seq"))
        counts: dict[tuple[str, str, str], int] = {}
        stood: dict[Place, int] = {}
        for row in found.collect():
            state, place = (row["tenant"], row["queue"], row["state"]), (row["tenant"], row["queue"], row["shard"])
            counts[state] = counts.get(state, 0) + row["n"]
            stood[place] = max(stood.get(place, 0), row["seq"])
        return counts, stood

    def read_events(self) -> dict[Place, StoredRecords]:
        """Read all events, and say what there is of each shard. What retention drops meanwhile is left out."""
        self._events = self._keep(self._read(what="journal", columns=",".join(EVENT), failOnDataLoss="false"))
        held = self._events.groupBy(*SHARD).agg(
            F.min("seq").alias("first"),
            F.min_by(F.unix_millis("happened_at"), "seq").alias("at_ms"),
            F.max("seq").alias("last"),
            F.count("*").alias("n"),
        )
        return {
            (row["tenant"], row["queue"], row["shard"]): StoredRecords(
                row["first"], row["at_ms"], row["last"], row["n"]
            )
            for row in held.collect()
        }

    def take(self, shards: Mapping[Shard, Bounds], before: Mapping[Shard, Bounds]) -> None:
        """Go on with these shards, and with the events that their journals still hold; `before` is how they stood
        before anything was read."""
        places = [
            (
                *place_of(shard),
                shard.queue.shards,
                bounds.first_seq,
                bounds.first_seq == 1,
                before[shard].last_seq if shard in before else 0,
            )
            for shard, bounds in shards.items()
        ]
        self._shards = self._spark.createDataFrame(places, _SHARDS)
        # Some events were read and then dropped by retention, others behind them were dropped before they were read:
        # only what is still there now was surely read whole.
        firsts = F.broadcast(self._shards.select(*SHARD, "first_seq"))
        joined = self._events.join(firsts, on=list(SHARD), how="inner")
        self._happened = joined.where(F.col("seq") >= F.col("first_seq")).drop("first_seq")
        self._dead_letters = self._keep(fold_dead_letters(self._happened))

    def flaws(self) -> list[Any]:
        """What is wrong with the journal itself, of each sort the first ones."""
        numbers, dead_letters = number_flaws(self._happened), dead_letter_flaws(self._dead_letters)
        stories = story_flaws(self._happened, self._shards)
        found = [frame.limit(AUDIT_FLAWS_MAX) for frame in (numbers, stories, dead_letters)]
        return reduce(DataFrame.unionByName, found).collect()

    def compare(self) -> Compared:
        """Compare journal and records."""
        seen = seen_jobs(self._rows)
        jobs = compared_jobs(fold(cut_at(self._happened, seen)), seen, self._shards)
        dead_letters = compared_dead_letters(self._dead_letters, self._rows, self._shards)
        self._compared = self._keep(
            jobs.unionByName(dead_letters).groupBy(*JOB).agg(*[F.bool_or(name).alias(name) for name in COMPARED])
        )
        differs = F.col("differs") & ~F.col("is_misplaced")
        [counts] = self._compared.agg(
            F.count("*").alias("jobs"),
            F.count_if("is_partly").alias("partly"),
            F.count_if(differs & ~F.col("has_moved")).alias("differ"),
            F.count_if(differs & F.col("has_moved")).alias("moved"),
        ).collect()
        return Compared(**counts.asDict())

    def misplaced(self) -> list[Any]:
        """Jobs in a shard that is not theirs."""
        return self._compared.where("is_misplaced").select(*JOB).limit(AUDIT_FLAWS_MAX).collect()

    def suspects(self) -> Suspects:
        """The jobs that differ, as many as are looked at again, each with its row of `fold` if it has events."""
        # Those that stood still come first: what moves is expected to differ.
        differing = self._compared.where("differs AND NOT is_misplaced").orderBy("has_moved", *JOB)
        picked = differing.select(*JOB).limit(AUDIT_LOOKS_MAX)
        ids = [((row["tenant"], row["queue"], row["shard"]), row["id"]) for row in picked.collect()]
        if not ids:
            return []
        named = self._spark.createDataFrame([(*place, id) for place, id in ids], _JOBS)
        told = fold(uncut(self._happened.join(F.broadcast(named), on=list(JOB), how="left_semi")))
        stories = {
            ((row["tenant"], row["queue"], row["shard"]), row["id"]): row.asDict(recursive=True)
            for row in told.collect()
        }
        return [(place, id, stories.get((place, id))) for place, id in ids]

    def close(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()

    def _read(self, **options: str) -> DataFrame:
        return self._spark.read.format("headrace").options(**self._options, **options).load()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]


def place_of(shard: Shard) -> Place:
    """How the rows of a shard name it."""
    return shard.queue.tenant, shard.queue.full_name, shard.index
