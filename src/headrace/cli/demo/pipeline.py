"""Runs the demo's pipeline: history, tables, audit and report, each timed, with an excerpt of each."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from headrace.model.clock import monotonic_ms

if TYPE_CHECKING:
    from headrace.pipeline.audit.findings import AuditReport
    from headrace.pipeline.data_dir import DataDir

Row = dict[str, Any]
WINDOW_MS = 1_000
"""Windows of a second, since the demo lasts seconds."""
ERRORS_SHOWN = 8
"""All errors of the demo: four causes for two tenants."""
STEPS = ("spark", "history", "jobs", "stats", "errors", "usage", "audit", "report", "map")
ORDERS = 300
ANSWERS_SHOWN = 4
"""Rows to show, with a result and without one."""


class DemoReport(Struct):
    """The results of the steps, their times, and an excerpt of each."""

    seconds: dict[str, float] = field(default_factory=dict)
    events: int = 0
    files: int = 0
    jobs: int = 0
    attempts: int = 0
    windows: int = 0
    fingerprints: int = 0
    kinds: list[Row] = field(default_factory=list)
    timeline: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    usage: list[Row] = field(default_factory=list)
    life: list[Row] = field(default_factory=list)
    answers: list[Row] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    """Of the rows that jobs processed."""
    audit: "AuditReport | None" = None
    report: Path | None = None


Going = Callable[[str], AbstractContextManager[Any]]


def read(
    url: str, data_dir: "DataDir", id: str, *, going: Going, done: Callable[[str, DemoReport], None]
) -> DemoReport:
    """Run the pipeline once over the store at `url`; `id` is the job whose events are shown.

    `going` shows a running step, within a block; `done` is called at its end.
    """
    demo = DemoReport()

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        begun_ms = monotonic_ms()
        with going(name):
            yield
        demo.seconds[name] = (monotonic_ms() - begun_ms) / 1_000
        done(name, demo)

    with ExitStack() as stack:
        with timed("spark"):
            # Imported here: Spark's packages take a second.
            from headrace.pipeline.spark_session import SHORT_RUN, open_session

            spark = stack.enter_context(open_session("headrace demo", "local[*]", SHORT_RUN))
        _read(spark, url, data_dir, id, demo, timed)
        with timed("map"):
            _map(spark, url, data_dir, demo)
    return demo


def _read(spark: Any, url: str, data_dir: "DataDir", id: str, demo: DemoReport, timed: Going) -> None:
    from headrace.pipeline.audit.run import audit
    from headrace.pipeline.event_source import events
    from headrace.pipeline.history.run import follow_history
    from headrace.pipeline.history.table import history_files
    from headrace.pipeline.report.report import write_report
    from headrace.pipeline.stats.run import read_stats, write_stats
    from headrace.pipeline.tables.errors import error_groups
    from headrace.pipeline.tables.summary import by_kind, latest_days, top
    from headrace.pipeline.tables.usage import tenant_usage
    from headrace.pipeline.tables.write import read_table, write_errors, write_jobs, write_usage

    with timed("history"):
        follow_history(spark, url, data_dir.history, once=True).awaitTermination()
        every = events(spark, url, data_dir, origin="history")
        demo.events, demo.files = every.frame.count(), len(history_files(data_dir.history))
    with timed("jobs"):
        counts = write_jobs(spark, every, data_dir)
        demo.jobs, demo.attempts = counts.jobs, counts.attempts
        anywhere = ("'' AS tenant", "'' AS queue", "kind")
        jobs = read_table(spark, data_dir, "jobs").selectExpr(*anywhere, "outcome")
        attempts = read_table(spark, data_dir, "attempts").selectExpr(*anywhere, "wait_ms", "run_ms")
        demo.kinds, _ = top(by_kind(jobs, attempts), 20)
        story = every.frame.where(f"id = '{id}'").orderBy("epoch", "seq")
        demo.life, _ = top(story.select("happened_at", "event", "worker", "fence", "run_ms", "stalls"), 20)
    with timed("stats"):
        write_stats(spark, every, data_dir.location("stats"), window_ms=WINDOW_MS)
        sums = [f"sum({name}) AS {name}" for name in ("opened", "closed", "done", "retried", "stalled", "dead")]
        windows = read_stats(spark, data_dir.location("stats"))
        windows.createOrReplaceTempView("windows")
        by_window = f"SELECT window_start, {', '.join(sums)} FROM windows GROUP BY 1 ORDER BY 1"  # noqa: S608 - ours
        demo.timeline, more = top(spark.sql(by_window), 1_000)
        demo.windows = len(demo.timeline) + more
    with timed("errors"):
        write_errors(spark, every, data_dir)
        groups = error_groups(read_table(spark, data_dir, "errors"))
        demo.errors, more = top(groups, ERRORS_SHOWN)
        demo.fingerprints = len(demo.errors) + more
    with timed("usage"):
        write_usage(spark, every, data_dir)
        demo.usage, _ = top(latest_days(tenant_usage(read_table(spark, data_dir, "usage"))), 10)
    with timed("audit"):
        demo.audit = audit(spark, url)
    with timed("report"):
        demo.report = write_report(spark, data_dir, title="Headrace demo")


def _map(spark: Any, url: str, data_dir: "DataDir", demo: DemoReport) -> None:
    """Process rows by jobs, on a fleet of this Spark session."""
    from headrace.pipeline.flows.map.run import map_rows
    from headrace.pipeline.tables.summary import top

    street = "element_at(array('Mill Lane', 'High Street', 'Station Road', 'Park Row'), int(id % 4) + 1)"
    address = f"concat(id % 89 + 1, ' ', if(id % 75 = 31, 'Nowhere', {street}))"
    orders = spark.range(ORDERS).selectExpr("id + 1 AS order", f"{address} AS address")
    found = map_rows(
        orders,
        "headrace.cli.demo.app:app",
        "geocode",
        key="order",
        name="geocode",
        url=url,
        tenant="acme",
        schema="lat double, lon double",
        folder=data_dir.path / "map" / "geocode",
    )
    demo.outcomes = found.outcomes
    both = orders.join(found.frame, on="order", how="inner")
    columns = ("order", "address", "outcome", "result.lat", "result.lon", "error_class", "error_message")
    for sort in ("outcome = 'done'", "outcome <> 'done'"):
        rows, _ = top(both.where(sort).orderBy("order").select(*columns), ANSWERS_SHOWN)
        demo.answers += rows
