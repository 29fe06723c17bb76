"""Asks the tables of a folder what the report shows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.model.limits import PAGE_DAYS_MAX, PAGE_FAILURES_MAX, PAGE_KINDS_MAX, PAGE_SAMPLES_MAX
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.report import queries
from headrace.pipeline.report.model import WRITTEN_BY, Numbers, Scope, TimeSpan
from headrace.pipeline.report.part import EVERYTHING, ReportPart
from headrace.pipeline.report.scopes import named_of, scopes_of, span_of
from headrace.pipeline.report.views import Row, ViewRequest, views_of
from headrace.pipeline.stats.run import read_stats
from headrace.pipeline.stats.table import stats_table
from headrace.pipeline.tables.errors import error_groups
from headrace.pipeline.tables.usage import tenant_usage
from headrace.pipeline.tables.write import read_table, table_of

READ_TRIES = 5
"""How often the tables are read because one was replaced meanwhile, and its files are gone: others write tables less
often than we read them."""

T = TypeVar("T")


def collect(spark: SparkSession, data_dir: DataDir, *, made_at_ms: int, part: ReportPart = EVERYTHING) -> Numbers:
    """All that the report shows of a part. Tables that are not there are named in `lacking`; BadConfig if none is."""
    there = [name for name in WRITTEN_BY if _is_there(data_dir, name)]
    if not there:
        raise BadConfig(
            f"there is no table in {data_dir.folder} to draw a report from; run headrace pipeline stats, jobs, errors"
            " and usage first, or name the folder that they have written to"
        )
    return read_again(lambda: _collect(spark, data_dir, there, made_at_ms, part))


def read_again(ask: Callable[[], T]) -> T:
    """The answer of `ask`, which is asked again if a file that it reads has gone meanwhile."""
    for left in range(READ_TRIES - 1, -1, -1):
        try:
            return ask()
        except (PySparkException, Py4JJavaError) as error:  # Spark does not wrap all that Java raises
            if left == 0 or "FAILED_READ_FILE" not in str(error):
                raise
    raise AssertionError("there is at least one try")


def _is_there(data_dir: DataDir, name: str) -> bool:
    now = (stats_table(data_dir.location(name)) if name == "stats" else table_of(data_dir, name)).version()
    return now is not None and bool(now.files())


def _collect(
    spark: SparkSession, data_dir: DataDir, there: Sequence[str], made_at_ms: int, part: ReportPart
) -> Numbers:
    tables = {name: part.of(read_table(spark, data_dir, name)) for name in there if name != "stats"}
    stats = part.of(read_stats(spark, data_dir.location("stats"))).cache()
    try:
        seen = _rows(queries.overview(stats))
        span, scopes = span_of(seen), scopes_of(seen)
        asked = _ask(stats, tables, span, scopes, named_of(seen, scopes))
    finally:
        stats.unpersist()
    return Numbers(
        views=views_of(scopes, span, asked),
        span=span,
        made_at_ms=made_at_ms,
        part=part.text,
        lacking=[name for name in WRITTEN_BY if name not in there],
    )


def _ask(
    stats: DataFrame,
    tables: dict[str, DataFrame],
    span: TimeSpan | None,
    scopes: Sequence[Scope],
    named: Sequence[Scope],
) -> ViewRequest:
    asked = ViewRequest(named=named)
    if span is not None:
        shown = queries.scoped(stats, named)
        asked.counts = _rows(queries.counts(shown, span))
        asked.backlogs = _rows(queries.backlogs(shown, span))
        asked.unknowns = _rows(queries.unknowns(shown))
        asked.latencies = _rows(queries.latencies(shown, span))
        asked.kinds = _rows(queries.kinds(shown, PAGE_KINDS_MAX))
    if "errors" in tables:
        asked.failures = _failures(tables["errors"], scopes)
    if "usage" in tables:
        asked.usage = _usage(tenant_usage(tables["usage"]), scopes)
    return asked


def _failures(errors: DataFrame, scopes: Sequence[Scope]) -> list[Row]:
    """Only of those that are shown: a folder may have thousands of tenants, each with its samples."""

    def most(some: DataFrame, *by: str) -> list[Row]:
        return _rows(queries.failures(some, by, PAGE_FAILURES_MAX, PAGE_SAMPLES_MAX))

    groups = error_groups(errors, PAGE_SAMPLES_MAX)
    found = most(groups)
    if tenants := [scope.tenant for scope in scopes if scope.tenant and not scope.queue]:
        found += most(groups.where(groups.tenant.isin(*tenants)), "tenant")
    if any(scope.queue for scope in scopes):
        of_queues = error_groups(queries.failures_of(errors, scopes), PAGE_SAMPLES_MAX, ("tenant", "queue"))
        found += most(of_queues, "tenant", "queue")
    return found


def _usage(usage: DataFrame, scopes: Sequence[Scope]) -> list[Row]:
    """Of all tenants together, and day by day of those that are shown so."""
    totals = _rows(queries.consumption(usage))
    tenants = {scope.tenant for scope in scopes} if len(totals) > 1 else {row["tenant"] for row in totals}
    return totals + _rows(queries.consumption_by_day(usage, sorted(tenants), PAGE_DAYS_MAX))


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in frame.collect()]
