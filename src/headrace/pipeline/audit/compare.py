"""Reads journal and records with Spark, and compares each record with the folded events up to its seq."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from msgspec import Struct
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.event import Bounds
from headrace.model.limits import AUDIT_FLAWS_MAX, AUDIT_LOOKS_MAX
from headrace.model.names import FAIL_QUEUE_SUFFIX, Shard
from headrace.pipeline.audit.fold import DEAD_LETTER, EVENT, JOB, SHARD, cut_at, fold, fold_dead_letters, same, uncut
from headrace.pipeline.audit.journal_flaws import EventRange, dead_letter_flaws, number_flaws, order_flaws

_JOBS = "tenant string, queue string, shard int, id string"
_SHARDS = "tenant string, queue string, shard int, shards int, first_seq long, is_whole boolean, stood_seq long"
ShardKey = tuple[str, str, int]
"""A shard by tenant, queue and index."""
Suspects = list[tuple[ShardKey, str, dict[str, Any] | None]]
"""Jobs by shard and id, each with its row of `fold` if it has events."""
ROW = (
    *JOB,
    "state",
    "kind",
    "attempts",
    "stalls",
    "run_at",
    "fence",
    "reason",
    "dead_letter",
    "payload_bytes",
    "as_of_seq",
)
"""The columns of jobs that the audit reads."""
_DEAD_LETTER = ("id", "kind", "attempts", "stalls", "reason")
"""The columns that a dead letter and its death share."""
COMPARED = ("differs", "has_moved", "is_partial", "is_misplaced")
"""The result for each job."""
_ALIVE = ("waiting", "active")
_ENDED = ("done", "cancelled")


class ComparisonCounts(Struct, frozen=True):
    """Counts of jobs after the comparison in Spark."""

    jobs: int
    partial: int
    """Compared in part only."""
    differ: int
    """Differ without having moved."""
    moved: int
    """Differ, but moved during the comparison."""


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


def seen_jobs(rows: DataFrame) -> DataFrame:
    """One row per job that was read from the store, without its dead letters.

    Reads the columns `ROW` of jobs. Returns `tenant queue shard id`, the structs `alive`, `blocked` and `ended` (each
    null for none) with `as_of_seq state fence kind run_at_ms payload_bytes attempts stalls`, and `alive_upto
    ended_upto`: the last seq of the journal when they were read.
    """
    names = ("as_of_seq", "state", "fence", "kind", "run_at_ms", "payload_bytes", "attempts", "stalls")
    row = F.struct(*names)
    grouped = (
        rows.where(F.col("state") != "dead")
        .withColumn("run_at_ms", F.unix_millis("run_at"))
        .groupBy(*JOB)
        .agg(
            F.max(F.when(F.col("state").isin(*_ALIVE), row)).alias("alive"),
            F.max(F.when(F.col("state") == "blocked", row)).alias("blocked"),
            F.max(F.when(F.col("state").isin(*_ENDED), row)).alias("ended"),
        )
    )
    return grouped.withColumn("alive_upto", F.col("alive.as_of_seq")).withColumn("ended_upto", F.col("ended.as_of_seq"))


def compare_jobs(folded: DataFrame, seen: DataFrame, shards: DataFrame) -> DataFrame:
    """One row per job of journal or store.

    Reads what `fold` and `seen_jobs` return, and of each shard `tenant queue shard shards is_whole stood_seq` (whether
    its journal still has its first event, and its last seq before anything was read). Returns `tenant queue shard
    id`, `differs`, `has_moved` (while it was read, so that it may differ), `is_partial` (some of it could not be
    compared) and `is_misplaced` (its id belongs to another shard).
    """
    both = folded.drop("deaths", "gone").join(seen.drop("alive_upto", "ended_upto"), on=list(JOB), how="full_outer")
    both = both.join(F.broadcast(shards), on=list(SHARD), how="inner")
    live, record, blocked_job, finished_job = (
        F.col(name) for name in ("live", "record", "blocked_job", "finished_job")
    )
    alive, blocked, ended, whole = (F.col(name) for name in ("alive", "blocked", "ended", "is_whole"))
    differs = [
        (live.isNotNull() | whole) & ~_alive_of(live).eqNullSafe(alive["state"]),
        alive.isNotNull() & record.isNotNull() & ~_same_record(record, alive),
        (alive["state"] == "active") & (F.col("fence") != alive["fence"]),
        _blocked_job_differs(blocked_job, blocked, _alive_of(live), whole),
        ended.isNotNull() & (finished_job.isNotNull() | whole) & ~_same_finished_job(finished_job, ended),
    ]
    unknown = [
        alive.isNotNull() & (live.isNull() | record.isNull()),
        (alive["state"] == "active") & F.col("fence").isNull(),
        ended.isNotNull() & finished_job.isNull(),
    ]
    return both.select(
        *JOB,
        _any(*differs).alias("differs"),
        _any(F.col("last.seq") > F.col("stood_seq")).alias("has_moved"),
        (~whole & _any(*unknown)).alias("is_partial"),
        _is_misplaced().alias("is_misplaced"),
    )


def compare_dead_letters(dead_letters: DataFrame, rows: DataFrame, shards: DataFrame) -> DataFrame:
    """The jobs whose dead letters differ, or could not be compared.

    Reads what `fold_dead_letters` returns, the columns `ROW` of jobs, and shards as `compare_jobs` does. Returns the
    columns of `compare_jobs`.
    """
    seen = rows.where(F.col("state") == "dead").select(*DEAD_LETTER, F.struct(*_DEAD_LETTER, "as_of_seq").alias("seen"))
    both = dead_letters.join(seen, on=list(DEAD_LETTER), how="full_outer").join(
        F.broadcast(shards), on=list(SHARD), how="inner"
    )
    found, upto, dead_seq = F.col("seen").isNotNull(), F.col("seen.as_of_seq"), F.col("dead_seq")
    expected = F.struct(*_DEAD_LETTER)
    exists = (dead_seq <= upto) & ~F.coalesce(F.col("gone_seq") <= upto, F.lit(False))
    differs = [
        found & dead_seq.isNotNull() & ~(exists & same(expected, F.col("seen"), _DEAD_LETTER)),
        found & dead_seq.isNull() & (F.col("is_whole") | (F.col("gone_seq") <= upto)),
        ~found & dead_seq.isNotNull() & F.col("gone_seq").isNull(),
    ]
    partial = found & dead_seq.isNull() & ~F.col("is_whole")
    named = both.select(
        *SHARD,
        F.explode(F.array_distinct(F.array_compact(F.array("id", "seen.id")))).alias("id"),
        "shards",
        _any(*differs).alias("differs"),
        _any(F.greatest("dead_seq", "gone_seq") > F.col("stood_seq")).alias("has_moved"),
        partial.alias("is_partial"),
    )
    named = named.withColumn("is_misplaced", _is_misplaced())
    return named.where("differs OR is_partial").select(*JOB, *COMPARED)


def _is_misplaced() -> Column:
    """Whether an id is in another shard than that of `Queue.index_of`."""
    id = F.col("id")
    # A fail job is in the shard of the dead job: its id without the number of the dead letter.
    routed = F.when(
        F.col("queue").endswith(FAIL_QUEUE_SUFFIX), F.regexp_replace(id, "(?s)(?<=.)#[^#]*$", "")
    ).otherwise(id)
    return F.crc32(routed.cast("binary")) % F.col("shards") != F.col("shard")


def _alive_of(live: Column) -> Column:
    return F.when(live["state"] != "over", live["state"])


def _same_record(record: Column, alive: Column) -> Column:
    # A waiting job has the time of its event; a running one keeps an earlier time.
    due = (alive["state"] != "waiting") | record["run_at_ms"].eqNullSafe(alive["run_at_ms"])
    return due & same(record, alive, ("kind", "payload_bytes", "attempts", "stalls"))


def _blocked_job_differs(blocked_job: Column, blocked: Column, state: Column, whole: Column) -> Column:
    runs, expected = F.coalesce(state == "active", F.lit(False)), F.coalesce(blocked_job["is_there"], F.lit(False))
    known = blocked_job.isNotNull() | whole | ~runs
    other = blocked.isNotNull() & expected & ~same(blocked_job, blocked, ("kind", "run_at_ms", "payload_bytes"))
    return (known & ((runs & expected) != blocked.isNotNull())) | other


def _same_finished_job(finished_job: Column, ended: Column) -> Column:
    alike = same(finished_job, ended, ("state", "kind", "attempts", "stalls"))
    return F.coalesce(alike, F.lit(False))


def _any(*conditions: Column) -> Column:
    found = F.lit(False)
    for condition in conditions:
        found = found | F.coalesce(condition, F.lit(False))
    return found
