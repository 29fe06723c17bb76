"""Folds new events into jobs: together with the events of open lives they give what all events would give."""

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.jobs import jobs
from headrace.pipeline.tables.layouts import LIVES
from headrace.pipeline.tables.lives import JOB, begins, lived, of_a_life, place
from headrace.pipeline.tables.usage import day_of

LIFE = (*JOB, "incarnation")
OPEN = "open"
"""The part of the table of lives with the events of open ones."""
OTHER = "other"
"""The part with the ended lives of ids that do not tell when they were made."""
EVENT = tuple(name for name in LIVES.schema.names if name not in ("part", "incarnation"))
"""The columns of events that jobs and attempts are made of."""
_UUID7 = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_CENTURY_MS = (946_684_800_000, 4_102_444_800_000)
"""From 2000 to 2100: an id that tells another time is not taken at its word."""


class Folded(Struct, frozen=True):
    """The rows that events become, each with the `day` on which its life ended; null while it is open."""

    jobs: DataFrame
    attempts: DataFrame
    lives: DataFrame
    """The events of open lives, and a row for each life that ended."""


def fold(story: DataFrame, *, continued: bool = False) -> Folded:
    """Fold events with the columns `EVENT`, and if they are `continued` those of `story_of`; cached by the caller."""
    ended = jobs(story, continued=continued).select(day_of("ended_at").alias("day"), "*").persist()
    days = ended.select(*LIFE, "day")
    events = (
        lived(story, continued=continued)
        .join(days.where("day IS NULL"), [*LIFE], "left_semi")
        .withColumn("part", F.lit(OPEN))
    )
    gone = days.where("day IS NOT NULL").select(part_of("id").alias("part"), *LIFE)
    return Folded(
        jobs=ended,
        attempts=attempts(story, continued=continued).join(days, [*LIFE]),
        lives=events.unionByName(gone, allowMissingColumns=True).select(*LIVES.schema.names),
    )


def story_of(fresh: DataFrame, kept: DataFrame, gone: DataFrame) -> DataFrame:
    """New events with the kept ones of open lives, whose `known_incarnation` is what it was; `lives_before` says how
    many lives of the id went before the new events.

    Reads events, the rows of the table of lives in `OPEN`, and those of ended lives of the ids that are in the events.
    """
    before = _last_lives(kept.select(*LIFE).unionByName(gone), "lives_before")
    new = fresh.select(*EVENT).join(before, [*JOB], "left")
    lives = F.coalesce("lives_before", F.lit(0)).alias("lives_before")
    return new.select(*EVENT, F.lit(None).cast("int").alias("known_incarnation"), lives).unionByName(
        kept.select(*EVENT, F.col("incarnation").alias("known_incarnation"), F.lit(0).alias("lives_before"))
    )


def orphans(fresh: DataFrame, kept: DataFrame, gone: DataFrame) -> DataFrame:
    """The jobs with events of lives that had ended before: `tenant queue shard id`, each once.

    A store writes nothing of a life that has ended; where a journal holds such an event all the same, the whole story
    of that job is read again."""
    begins_first = F.min_by(begins(), place())
    first = fresh.where(of_a_life()).groupBy(*JOB).agg(begins_first.alias("begins")).where("NOT begins")
    ended = _last_lives(gone, "gone").join(_last_lives(kept.select(*LIFE), "kept"), [*JOB], "left")
    return first.join(ended.where("kept IS NULL OR gone > kept"), [*JOB], "left_semi").select(*JOB)


def _last_lives(lives: DataFrame, name: str) -> DataFrame:
    return lives.groupBy(*JOB).agg(F.max("incarnation").alias(name))


def part_of(name: str) -> Column:
    """The part of the table of lives that ended lives of an id are in: the day that a UUID of version 7 tells."""
    at_ms = F.conv(F.concat(F.substring(name, 1, 8), F.substring(name, 10, 4)), 16, 10).cast("long")
    low, high = _CENTURY_MS
    day = F.date_format(F.date_from_unix_date(F.floor(at_ms / 86_400_000).cast("int")), "yyyy-MM-dd")
    return F.when(F.col(name).rlike(_UUID7) & at_ms.between(low, high), day).otherwise(F.lit(OTHER))
