"""Compares folded events with records in Spark, each record with the journal up to the seq of that record."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.names import FAIL_QUEUE_SUFFIX
from headrace.pipeline.audit.fold import DEAD_LETTER, JOB, SHARD, same

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
