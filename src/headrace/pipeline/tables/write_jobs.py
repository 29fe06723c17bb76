"""Writes the tables of jobs and attempts: rows are added when a life ends, and open ones lie beside."""

import secrets

from msgspec import Struct
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.event_source import Events
from headrace.pipeline.storage.layout import TableVersion
from headrace.pipeline.storage.table import Conflict, DataTable
from headrace.pipeline.storage.write import write_files
from headrace.pipeline.tables.fold import EVENT, OPEN, Folded, fold, orphans, part_of, story_of
from headrace.pipeline.tables.increment import Increment, TableMark, commit, mark_of, merge_small, spread, step_of
from headrace.pipeline.tables.lives import JOB

Jobs = list[tuple[object, ...]]
"""Tenant, queue, shard and id of each."""

_IDS_MAX = 1_000
"""Jobs whose whole story is read again at once: each is a comparison in a filter."""


class JobTables(Struct, frozen=True):
    """The three tables that are brought forward together; `lives` last, since it says what the others are to get."""

    jobs: DataTable
    attempts: DataTable
    lives: DataTable

    def all(self) -> tuple[DataTable, DataTable, DataTable]:
        """In the order in which they are committed."""
        return self.jobs, self.attempts, self.lives


def advance(spark: SparkSession, events: Events, tables: JobTables, *, rebuild: bool) -> None:
    """Bring the tables to the head of the events.

    A run that was killed between two commits has left tables that are ahead of `lives`; they are met there first.
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
    lives = marks[-1]
    if lives is None or len(known) < len(marks) or len({mark.generation for mark in known}) > 1:
        return step_of(events, None, rebuild=True)
    step = step_of(events, lives, rebuild=rebuild)
    if step is None or step.after is None:
        return step
    ahead = max(mark.batch for mark in known)
    return Increment(step.after, ahead) if ahead > lives.batch else step


def _make_anew(events: Events, tables: JobTables, step: Increment) -> None:
    mark = TableMark(source=events.source, batch=step.upto, generation=secrets.token_hex(8))
    folded = fold(events.frame.select(*EVENT))
    try:
        for table, frame in zip(tables.all(), (folded.jobs, folded.attempts, folded.lives), strict=True):
            now = table.prepare()
            by = [*table.layout.partition_by, "tenant", "queue", "id"]
            commit(table, now, write_files(spread(frame, step, *by), table, batch=max(step.upto, 0)), now.files(), mark)
    finally:
        folded.jobs.unpersist()


def _add(spark: SparkSession, events: Events, tables: JobTables, step: Increment) -> None:
    assert step.after is not None, "what has no beginning is made anew"
    generation = next(mark.generation for mark in _marks(tables) if mark is not None)
    mark = TableMark(source=events.source, batch=step.upto, generation=generation)
    fresh = events.between(step.after, step.upto).select(*EVENT).persist(StorageLevel.MEMORY_AND_DISK)
    kept = tables.lives.read(spark, where=[("part", "=", OPEN)]).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        parts = [
            row.part for row in fresh.where("id IS NOT NULL").select(part_of("id").alias("part")).distinct().collect()
        ]
        gone = tables.lives.read(spark, columns=[*JOB, "incarnation"], where=[("part", "in", parts)])
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
    now = tables.lives.prepare()
    if not _is_done(tables.lives, now, step):
        files = write_files(folded.lives.coalesce(1), tables.lives, batch=step.upto)
        commit(tables.lives, now, files, now.files([("part", "=", OPEN)]), mark)


def _is_done(table: DataTable, now: TableVersion, step: Increment) -> bool:
    """Whether a table has these batches; `Conflict` when another run has brought it elsewhere."""
    mark = mark_of(now)
    if mark is None or mark.batch not in (step.after, step.upto):
        raise Conflict(f"another run has written {table.location} meanwhile; start again")
    return mark.batch == step.upto


def _days_without(spark: SparkSession, table: DataTable, jobs: Jobs) -> tuple[list[object], DataFrame]:
    """The days on which lives of these jobs ended, and the rows of other jobs there."""
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
    whole = past.join(F.broadcast(named), [*JOB], "left_semi").withColumn("lives_before", F.lit(0))
    others = story.join(F.broadcast(named), [*JOB], "left_anti")
    return others.unionByName(whole, allowMissingColumns=True)


def _named(spark: SparkSession, jobs: Jobs) -> DataFrame:
    return spark.createDataFrame(jobs, "tenant string, queue string, shard int, id string")
