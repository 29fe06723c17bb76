"""Folds the events of a journal into the records that each job and each dead letter must have."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

WAITING_EVENTS = ("enqueued", "updated", "merged", "unblocked", "replayed", "retried", "released", "stalled")
"""After these a job waits, and its record has the values of the event."""
ACTIVE_EVENTS = ("claimed", "asked", "blocked")
"""After these it runs, and after `cancelled` with the reason `blocked`, which concerns its blocked job."""
FINAL_EVENTS = ("done", "dead", "cancelled", "removed", "purged")
"""After these it neither waits nor runs, except `cancelled` with the reason `blocked`, and `purged` with a dead
letter."""
SETTLEMENTS = ("done", "retried", "released", "stalled", "dead", "cancelled")
"""These end a delivery if they name its fence."""
UNBLOCKING_EVENTS = ("enqueued", "updated", "merged", "unblocked", "replayed", "claimed", "removed")
"""After these there is no blocked job, nor after `cancelled` with the reason `blocked`."""
FINISHED_EVENTS = ("done", "cancelled")
"""These leave a finished job, unless they concern a blocked job."""
FINISHED_DELETED = ("enqueued", "replayed", "removed")
"""These delete the finished job, except `removed` with the reason `lost`, which concerns the job alone."""
DEAD_LETTER_DELETED = ("replayed", "purged")
"""These delete the dead letter that they name."""
BLOCKED = "blocked"
"""The reason of a `cancelled` of a blocked job."""
LOST = "lost"
"""The reason of a `removed` of a job whose record was lost; its finished job and its dead letters stay."""

SHARD = ("tenant", "queue", "shard")
JOB = (*SHARD, "id")
DEAD_LETTER = (*SHARD, "dead_letter")
EVENT = (
    *JOB,
    "seq",
    "happened_at",
    "event",
    "kind",
    "attempts",
    "stalls",
    "fence",
    "run_at",
    "reason",
    "dead_letter",
    "payload_bytes",
)
"""The columns of the journal that the audit reads."""
_COUNTS = ("attempts", "stalls")
_RECORD = ("kind", "run_at_ms", "payload_bytes")


def fold(events: DataFrame) -> DataFrame:
    """One row per job: the records that it must have after its events.

    Reads `tenant queue shard id seq event kind attempts stalls fence run_at reason dead_letter payload_bytes` of the
    journal, and `alive_upto ended_upto`: the seq up to which events count for the live job and for the finished job,
    null for all.

    Returns `tenant queue shard id` and, each null where no event has it
    - `last`: seq and event of the last one
    - `live`: `state` (waiting, active or over), with the `seq` and `event` of it
    - `record`: `kind run_at_ms payload_bytes attempts stalls` of the live job
    - `fence` of the last delivery
    - `blocked_job`: `is_there`, `kind run_at_ms payload_bytes`
    - `finished_job`: `state` (done, cancelled or none), `kind attempts stalls seq`
    - `deaths`: `seq dead_letter kind attempts stalls reason` of each death whose dead letter was not removed
    - `gone`: the dead letters that were replayed, purged or removed
    """
    alive = F.when(F.col("seq") <= F.coalesce("alive_upto", "seq"), F.col("seq"))
    ended = F.when(F.col("seq") <= F.coalesce("ended_upto", "seq"), F.col("seq"))
    happened = events.where(F.col("id").isNotNull()).withColumn("run_at_ms", F.unix_millis("run_at"))
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in _COUNTS]
    state, blocked_job, finished_job = state_after(), blocked_job_after(), _finished_job_after()
    died = F.struct("seq", "dead_letter", "kind", *counts, "reason")
    folded = happened.groupBy(*JOB).agg(
        F.max_by(F.struct("seq", "event"), "seq").alias("last"),
        _last(F.struct(state.alias("state"), "seq", "event"), state.isNotNull(), alive).alias("live"),
        _last(F.struct(*_RECORD, *counts), F.col("event").isin(*WAITING_EVENTS), alive).alias("record"),
        _last(F.col("fence"), F.col("event").isin("claimed", "asked"), alive).alias("fence"),
        _last(F.struct(blocked_job.alias("is_there"), *_RECORD), blocked_job.isNotNull(), alive).alias("blocked_job"),
        _last(F.struct(finished_job.alias("state"), "kind", *counts, "seq"), finished_job.isNotNull(), ended).alias(
            "finished_job"
        ),
        F.collect_list(F.when(F.col("event") == "dead", died)).alias("deaths"),
        F.collect_set(F.when(F.col("event").isin(*DEAD_LETTER_DELETED), F.col("dead_letter"))).alias("gone"),
        F.max(F.when(_removes_all(), F.col("seq"))).alias("removed_seq"),
    )
    removed_seq = F.coalesce("removed_seq", F.lit(0))
    kept = F.filter("deaths", lambda death: death["seq"] > removed_seq)
    removed = F.transform(
        F.filter("deaths", lambda death: death["seq"] < removed_seq), lambda death: death["dead_letter"]
    )
    return folded.withColumns({"deaths": kept, "gone": F.array_union("gone", removed)}).drop("removed_seq")


def fold_dead_letters(events: DataFrame) -> DataFrame:
    """One row per dead letter that the journal knows.

    Reads the columns of `fold`. Returns `tenant queue shard dead_letter`, `id kind attempts stalls reason dead_seq` of
    the death, `deaths` (how many have that number), and `gone_seq`: the event that deleted the dead letter."""
    numbered = events.where(F.col("dead_letter").isNotNull())
    dead, gone = F.col("event") == "dead", F.col("event").isin(*DEAD_LETTER_DELETED)
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in _COUNTS]
    death = F.struct("id", "kind", *counts, "reason", F.col("seq").alias("dead_seq"))
    dead_letters = numbered.groupBy(*DEAD_LETTER).agg(
        _last(death, dead, F.col("seq")).alias("death"),
        F.max("id").alias("any_id"),
        F.count_if(dead).alias("deaths"),
        F.min(F.when(gone, F.col("seq"))).alias("deleted_seq"),
    )
    removed = events.where(_removes_all()).groupBy(*JOB).agg(F.max("seq").alias("removed_seq"))
    named = dead_letters.select(
        *DEAD_LETTER, F.coalesce("death.id", "any_id").alias("id"), "death.kind", "death.attempts", "death.stalls",
        "death.reason", "death.dead_seq", "deaths", "deleted_seq",
    )  # fmt: skip
    # A dead letter is deleted by its own event, or with everything of its id.
    later = F.when(F.col("removed_seq") > F.col("dead_seq"), F.col("removed_seq"))
    joined = named.join(removed, on=list(JOB), how="left")
    return joined.withColumn("gone_seq", F.least("deleted_seq", later)).drop("deleted_seq", "removed_seq")


def state_after() -> Column:
    """The state of the live job after an event; null for an event of something else."""
    event, of_blocked_job, of_dead_letter = F.col("event"), _concerns_blocked_job(), F.col("dead_letter").isNotNull()
    return (
        F.when(event.isin(*WAITING_EVENTS), "waiting")
        .when(event.isin(*ACTIVE_EVENTS) | of_blocked_job, "active")
        .when((event == "purged") & of_dead_letter, None)
        .when(event.isin(*FINAL_EVENTS), "over")
    )


def blocked_job_after() -> Column:
    """Whether there is a blocked job after an event; null for an event of something else."""
    return F.when(F.col("event") == "blocked", True).when(
        F.col("event").isin(*UNBLOCKING_EVENTS) | _concerns_blocked_job(), False
    )


def cut_at(events: DataFrame, seen: DataFrame) -> DataFrame:
    """Events with the columns `alive_upto ended_upto` of `seen`, up to which they count."""
    cuts = seen.select(*JOB, "alive_upto", "ended_upto")
    return events.join(cuts, on=list(JOB), how="left")


def uncut(events: DataFrame) -> DataFrame:
    """Events that all count, in the columns of `cut_at`."""
    nothing = F.lit(None).cast("long")
    return events.withColumn("alive_upto", nothing).withColumn("ended_upto", nothing)


def _finished_job_after() -> Column:
    event = F.col("event")
    return F.when(event.isin(*FINISHED_EVENTS) & ~_concerns_blocked_job(), event).when(
        event.isin(*FINISHED_DELETED) & ~((event == "removed") & _has_reason(LOST)), "none"
    )


def _removes_all() -> Column:
    return (F.col("event") == "removed") & ~_has_reason(LOST)


def _concerns_blocked_job() -> Column:
    return (F.col("event") == "cancelled") & _has_reason(BLOCKED)


def _has_reason(reason: str) -> Column:
    return F.coalesce(F.col("reason") == reason, F.lit(False))


def _last(what: Column, where: Column, upto: Column) -> Column:
    return F.max_by(what, F.when(where, upto))


def same(one: Column, other: Column, names: Sequence[str]) -> Column:
    """Whether two structs have the same values under these names."""
    found = F.lit(True)
    for name in names:
        found = found & one[name].eqNullSafe(other[name])
    return found
