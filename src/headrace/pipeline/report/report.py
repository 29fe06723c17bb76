"""Writes the report of a folder: asks its tables what the page shows, of a part and of the last days."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.model.limits import PAGE_DAYS_MAX, PAGE_FAILURES_MAX, PAGE_KINDS_MAX, PAGE_SAMPLES_MAX
from headrace.model.times import instant_text, read_instant_ms
from headrace.model.validate import check_int
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.files import write_whole
from headrace.pipeline.report import queries
from headrace.pipeline.report.model import WRITTEN_BY, Numbers, Scope, TimeSpan
from headrace.pipeline.report.page import page
from headrace.pipeline.report.views import Row, ViewRequest, named_of, scopes_of, span_of, views_of
from headrace.pipeline.source.options import ALL
from headrace.pipeline.stats.table import open_before, read_windows, state_of
from headrace.pipeline.storage.layout import Condition
from headrace.pipeline.tables.errors import error_groups
from headrace.pipeline.tables.usage import tenant_usage
from headrace.pipeline.tables.write import table_of

_DAY_MS = 86_400_000
READ_TRIES = 5
"""How often the tables are read because one was replaced meanwhile, and its files are gone: others write tables less
often than we read them."""

T = TypeVar("T")


class ReportPart(Struct, frozen=True):
    """A tenant and queues, as commands are given them: a name, queues with commas between them, or `*`."""

    tenant: str = ALL
    queue: str = ALL

    @property
    def text(self) -> str:
        """What it is, for people; nothing if it is everything."""
        named = [("tenant", self.tenant), ("queue", ", ".join(self._queues))]
        return ", ".join(f"{what} {name}" for what, name in named if name not in (ALL, ""))

    def of(self, frame: DataFrame) -> DataFrame:
        """The rows of a table that belong to it; of a table without queues, those of the tenant."""
        if self.tenant != ALL:
            frame = frame.where(F.col("tenant") == self.tenant)
        if self._queues and "queue" in frame.columns:
            frame = frame.where(F.col("queue").isin(*self._queues))
        return frame

    @property
    def _queues(self) -> list[str]:
        return [] if self.queue == ALL else [name.strip() for name in self.queue.split(",")]


EVERYTHING = ReportPart()


def collect(
    spark: SparkSession,
    data_dir: DataDir,
    *,
    made_at_ms: int,
    part: ReportPart = EVERYTHING,
    days: int = PAGE_DAYS_MAX,
) -> Numbers:
    """All that the report shows of a part, of so many last days that the tables have.

    Tables that are not there are named in `lacking`; BadConfig if none is.
    """
    since_ms = first_day_ms(data_dir, days)
    if since_ms is None:
        raise BadConfig(
            f"there is no table in {data_dir.folder} to draw a report from; run headrace pipeline stats, jobs, errors"
            " and usage first, or name the folder that they have written to"
        )
    return read_again(lambda: _collect(spark, data_dir, since_ms, made_at_ms, part))


def first_day_ms(data_dir: DataDir, days: int) -> int | None:
    """When the first of so many last days began, up to the latest that a table has; None when no table has rows."""
    versions = [table_of(data_dir, name).version() for name in WRITTEN_BY]
    last = max(
        (day for now in versions if now is not None for file in now.files() if (day := file.partition["day"])),
        default=None,
    )
    return None if last is None else read_instant_ms("day", f"{last}T00:00:00Z") - (days - 1) * _DAY_MS


def read_again(ask: Callable[[], T]) -> T:
    """The answer of `ask`, which is asked again if a file that it reads has gone meanwhile."""
    for left in range(READ_TRIES - 1, -1, -1):
        try:
            return ask()
        except (PySparkException, Py4JJavaError) as error:  # Spark does not wrap all that Java raises
            if left == 0 or "FAILED_READ_FILE" not in str(error):
                raise
    raise AssertionError("there is at least one try")


def _collect(spark: SparkSession, data_dir: DataDir, since_ms: int, made_at_ms: int, part: ReportPart) -> Numbers:
    versions = {name: table_of(data_dir, name).version() for name in WRITTEN_BY}
    there = [name for name, now in versions.items() if now is not None and now.files()]
    recent: list[Condition] = [("day", ">=", instant_text(since_ms)[:10])]
    tables = {name: part.of(table_of(data_dir, name).read(spark, where=recent)) for name in there if name != "stats"}
    if "stats" not in there:
        return _numbers(part, made_at_ms, there, None, [Scope()], _ask_others(tables, [Scope()]))
    table, state = table_of(data_dir, "stats"), state_of(versions["stats"])
    assert state is not None, "windows are committed with their state"
    stats = part.of(read_windows(table, spark, state, since_ms).select(*queries.READ)).cache()
    try:
        seen = _rows(queries.overview(stats))
        span, scopes = span_of(seen), scopes_of(seen)
        asked = _ask_others(tables, scopes)
        asked.named = named_of(seen, scopes)
        if span is not None:
            _ask_stats(asked, stats, part.of(open_before(stats, state)), span)
    finally:
        stats.unpersist()
    return _numbers(part, made_at_ms, there, span, scopes, asked)


def _numbers(
    part: ReportPart,
    made_at_ms: int,
    there: Sequence[str],
    span: TimeSpan | None,
    scopes: Sequence[Scope],
    asked: ViewRequest,
) -> Numbers:
    return Numbers(
        views=views_of(scopes, span, asked),
        span=span,
        made_at_ms=made_at_ms,
        part=part.text,
        lacking=[name for name in WRITTEN_BY if name not in there],
    )


def _ask_stats(asked: ViewRequest, stats: DataFrame, openings: DataFrame, span: TimeSpan) -> None:
    shown = queries.scoped(stats, asked.named)
    asked.counts = _rows(queries.counts(shown, span))
    asked.backlogs = _rows(queries.backlogs(shown, queries.scoped(openings, asked.named), span))
    asked.unknowns = _rows(queries.unknowns(shown))
    asked.latencies = _rows(queries.latencies(shown, span))
    asked.kinds = _rows(queries.kinds(shown, PAGE_KINDS_MAX))


def _ask_others(tables: dict[str, DataFrame], scopes: Sequence[Scope]) -> ViewRequest:
    asked = ViewRequest()
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


TITLE = "Headrace report"
_DAYS_MAX = 36_500


def write_report(
    spark: SparkSession,
    data_dir: DataDir,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    days: int = PAGE_DAYS_MAX,
    title: str | None = None,
    now_ms: int | None = None,
) -> Path:
    """Draw the tables of a folder as one HTML page, and return where it is: `report.html` in that folder.

    The page is a single file without links to others: it opens from a disk, and from a mail. It shows so many last
    `days` of the tables stats, errors and usage, and says which command writes what is missing; BadConfig if there is
    none of them. A report that is there already is replaced. `now_ms` is when it says it was made; now, if left out.
    With a `tenant`, or a `queue` (several with commas between them), it shows that part alone.
    """
    check_int("days", days, 1, _DAYS_MAX)
    made_at_ms = SystemClock().now_ms() if now_ms is None else now_ms
    numbers = collect(spark, data_dir, made_at_ms=made_at_ms, part=ReportPart(tenant, queue), days=days)
    write_whole(data_dir.report, page(numbers, title=title or TITLE).encode())
    return data_dir.report
