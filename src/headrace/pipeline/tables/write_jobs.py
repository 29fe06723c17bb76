"""Writes the tables of jobs and attempts: folds new events into open jobs, and adds rows when a generation ends."""

import secrets

from msgspec import Struct
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.event_source import Events
from headrace.pipeline.storage.layout import TableVersion
from headrace.pipeline.storage.table import Conflict, DataTable
from headrace.pipeline.storage.write import write_files
from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.increment import Increment, TableMark, commit, mark_of, merge_small, spread, step_of
from headrace.pipeline.tables.jobs import JOB, begins, jobs, of_a_generation, place, with_generation
from headrace.pipeline.tables.layouts import GENERATIONS
from headrace.pipeline.tables.usage import day_of

GENERATION = (*JOB, "generation")
OPEN = "open"
"""The part of the table of generations with the events of open ones."""
OTHER = "other"
"""The part with the ended generations of ids that do not tell when they were made."""
EVENT = tuple(name for name in GENERATIONS.schema.names if name not in ("part", "generation"))
"""The columns of events that jobs and attempts are made of."""
_UUID7 = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_CENTURY_MS = (946_684_800_000, 4_102_444_800_000)
"""From 2000 to 2100: an id that tells another time is not taken at its word."""


class Folded(Struct, frozen=True):
    """The rows that events become, each with the `day` on which its generation ended; null while it is open."""

    jobs: DataFrame
    attempts: DataFrame
    generations: DataFrame
    """The events of open generations, and a row for each generation that ended."""


def fold(story: DataFrame, *, continued: bool = False) -> Folded:
    """Fold events with the columns `EVENT`, and if they are `continued` those of `story_of`; cached by the caller."""
    ended = jobs(story, continued=continued).select(day_of("ended_at").alias("day"), "*").persist()
    days = ended.select(*GENERATION, "day")
    events = (
        with_generation(story, continued=continued)
        .join(days.where("day IS NULL"), [*GENERATION], "left_semi")
        .withColumn("part", F.lit(OPEN))
    )
    gone = days.where("day IS NOT NULL").select(part_of("id").alias("part"), *GENERATION)
    return Folded(
        jobs=ended,
        attempts=attempts(story, continued=continued).join(days, [*GENERATION]),
        generations=events.unionByName(gone, allowMissingColumns=True).select(*GENERATIONS.schema.names),
    )


def story_of(fresh: DataFrame, kept: DataFrame, gone: DataFrame) -> DataFrame:
    """New events with the kept ones of open generations, whose `known_generation` is what it was; `generations_before`
    says how many generations of the id went before the new events.

    Reads events, the rows of the table of generations in `OPEN`, and those of ended generations of the ids that are in
    the events.
    """
    before = _last_generations(kept.select(*GENERATION).unionByName(gone), "generations_before")
    new = fresh.select(*EVENT).join(before, [*JOB], "left")
    generations = F.coalesce("generations_before", F.lit(0)).alias("generations_before")
    return new.select(*EVENT, F.lit(None).cast("int").alias("known_generation"), generations).unionByName(
        kept.select(*EVENT, F.col("generation").alias("known_generation"), F.lit(0).alias("generations_before"))
    )


def orphans(fresh: DataFrame, kept: DataFrame, gone: DataFrame) -> DataFrame:
    """The jobs with events of generations that had ended before: `tenant queue shard id`, each once.

    A store writes nothing of a generation that has ended; where a journal holds such an event all the same, the whole
    story of that job is read again.
    """
    begins_first = F.min_by(begins(), place())
    first = fresh.where(of_a_generation()).groupBy(*JOB).agg(begins_first.alias("begins")).where("NOT begins")
    ended = _last_generations(gone, "gone").join(_last_generations(kept.select(*GENERATION), "kept"), [*JOB], "left")
    return first.join(ended.where("kept IS NULL OR gone > kept"), [*JOB], "left_semi").select(*JOB)


def _last_generations(generations: DataFrame, name: str) -> DataFrame:
    return generations.groupBy(*JOB).agg(F.max("generation").alias(name))


def part_of(name: str) -> Column:
    """The part of the table for ended generations of an id: the day that a UUID of version 7 tells."""
    at_ms = F.conv(F.concat(F.substring(name, 1, 8), F.substring(name, 10, 4)), 16, 10).cast("long")
    low, high = _CENTURY_MS
    day = F.date_format(F.date_from_unix_date(F.floor(at_ms / 86_400_000).cast("int")), "yyyy-MM-dd")
    return F.when(F.col(name).rlike(_UUID7) & at_ms.between(low, high), day).otherwise(F.lit(OTHER))


Jobs = list[tuple[object, ...]]
"""Tenant, queue, shard and id of each."""

_IDS_MAX = 1_000
"""Jobs whose whole story is read again at once: each is a comparison in a filter."""


class JobTables(Struct, frozen=True):
    """The three tables that are brought forward together; `generations` last, since it says what the others lack."""

    jobs: DataTable
    attempts: DataTable
    generations: DataTable

    def all(self) -> tuple[DataTable, DataTable, DataTable]:
        """In the order in which they are committed."""
        return self.jobs, self.attempts, self.generations


def advance(spark: SparkSession, events: Events, tables: JobTables, *, rebuild: bool) -> None:
    """Bring the tables to the head of the events.

    A run that was killed between two commits has left tables that are ahead of `generations`; they are met there first.
    """
    for table in tables.all():
        table.prepare()
    while (step := _next_step(events, tables, rebuild=rebuild)) is not None:
        if step.after is None:
            _make_anew(events, tables, step)
            return
        _add(spark, events, tables, step)
        rebuild = False
    for table in tables.all():
        merge_small(table)


def _marks(tables: JobTables) -> list[TableMark | None]:
    return [mark_of(table.prepare()) for table in tables.all()]


def _next_step(events: Events, tables: JobTables, *, rebuild: bool) -> Increment | None:
    marks = _marks(tables)
    known = [mark for mark in marks if mark is not None]
    generations = marks[-1]
    if generations is None or len(known) < len(marks) or len({mark.rebuild_id for mark in known}) > 1:
        return step_of(events, None, rebuild=True)
    step = step_of(events, generations, rebuild=rebuild)
    if step is None or step.after is None:
        return step
    ahead = max(mark.batch for mark in known)
    return Increment(step.after, ahead) if ahead > generations.batch else step


def _make_anew(events: Events, tables: JobTables, step: Increment) -> None:
    mark = TableMark(source=events.source, batch=step.upto, rebuild_id=secrets.token_hex(8))
    folded = fold(events.frame.select(*EVENT))
    try:
        for table, frame in zip(tables.all(), (folded.jobs, folded.attempts, folded.generations), strict=True):
            now = table.prepare()
            by = [*table.layout.partition_by, "tenant", "queue", "id"]
            commit(table, now, write_files(spread(frame, step, *by), table, batch=max(step.upto, 0)), now.files(), mark)
    finally:
        folded.jobs.unpersist()


def _add(spark: SparkSession, events: Events, tables: JobTables, step: Increment) -> None:
    assert step.after is not None, "what has no beginning is made anew"
    rebuild_id = next(mark.rebuild_id for mark in _marks(tables) if mark is not None)
    mark = TableMark(source=events.source, batch=step.upto, rebuild_id=rebuild_id)
    fresh = events.between(step.after, step.upto).select(*EVENT).persist(StorageLevel.MEMORY_AND_DISK)
    kept = tables.generations.read(spark, where=[("part", "=", OPEN)]).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        parts = [
            row.part for row in fresh.where("id IS NOT NULL").select(part_of("id").alias("part")).distinct().collect()
        ]
        gone = tables.generations.read(spark, columns=[*JOB, "generation"], where=[("part", "in", parts)])
        gone = gone.join(fresh.select(*JOB).distinct(), [*JOB], "left_semi").persist()
        again = [tuple(row) for row in orphans(fresh, kept, gone).collect()]
        story = story_of(fresh, kept, gone)
        if again:
            story = _with_whole_stories(spark, events, story, again, step)
        story = story.persist(StorageLevel.MEMORY_AND_DISK)
        folded = fold(story, continued=True)
        _write(spark, tables, folded, mark, step, again)
        folded.jobs.unpersist()
        story.unpersist()
        gone.unpersist()
    finally:
        kept.unpersist()
        fresh.unpersist()


def _write(
    spark: SparkSession,
    tables: JobTables,
    folded: Folded,
    mark: TableMark,
    step: Increment,
    again: list[tuple[object, ...]],
) -> None:
    for table, frame in ((tables.jobs, folded.jobs), (tables.attempts, folded.attempts)):
        now = table.prepare()
        if _is_done(table, now, step):
            continue  # by a run that was killed
        old = [file for file in now.files() if file.partition["day"] is None]
        rows = frame
        if again:
            days, others = _days_without(spark, table, again)
            old += now.files([("day", "in", days)]) if days else []
            rows = frame.unionByName(others) if days else frame
        commit(table, now, write_files(rows.coalesce(1), table, batch=step.upto), old, mark)
    now = tables.generations.prepare()
    if not _is_done(tables.generations, now, step):
        files = write_files(folded.generations.coalesce(1), tables.generations, batch=step.upto)
        commit(tables.generations, now, files, now.files([("part", "=", OPEN)]), mark)


def _is_done(table: DataTable, now: TableVersion, step: Increment) -> bool:
    """Whether a table has these batches; `Conflict` when another run has brought it elsewhere."""
    mark = mark_of(now)
    if mark is None or mark.batch not in (step.after, step.upto):
        raise Conflict(f"another run has written {table.location} meanwhile; start again")
    return mark.batch == step.upto


def _days_without(spark: SparkSession, table: DataTable, jobs: Jobs) -> tuple[list[object], DataFrame]:
    """The days on which generations of these jobs ended, and the rows of other jobs there."""
    named = _named(spark, jobs)
    rows = table.read(spark)
    days = [
        row.day
        for row in rows.join(named, [*JOB], "left_semi").where("day IS NOT NULL").select("day").distinct().collect()
    ]
    return days, table.read(spark, where=[("day", "in", days)]).join(named, [*JOB], "left_anti")


def _with_whole_stories(
    spark: SparkSession, events: Events, story: DataFrame, jobs: Jobs, step: Increment
) -> DataFrame:
    """The story with all events of these jobs, from the first on."""
    named = _named(spark, jobs)
    past = events.between(-1, step.upto).select(*EVENT)
    if len(jobs) <= _IDS_MAX:
        past = past.where(F.col("id").isin([job[-1] for job in jobs]))
    whole = past.join(F.broadcast(named), [*JOB], "left_semi").withColumn("generations_before", F.lit(0))
    others = story.join(F.broadcast(named), [*JOB], "left_anti")
    return others.unionByName(whole, allowMissingColumns=True)


def _named(spark: SparkSession, jobs: Jobs) -> DataFrame:
    return spark.createDataFrame(jobs, "tenant string, queue string, shard int, id string")
