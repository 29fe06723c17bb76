"""`headrace pipeline stats`: windows of throughput, times, rates and backlog, live or from all events."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import INTERRUPTED, OK
from headrace.cli.options import ALL, Json, option_groups
from headrace.cli.output import Output, counted
from headrace.cli.parse import typed_duration
from headrace.cli.pipeline.options import (
    EventOptions,
    EventsMax,
    Every,
    Lossy,
    MetricsHost,
    MetricsPort,
    Once,
    Rebuild,
    Rows,
    SparkOptions,
    Window,
)
from headrace.cli.pipeline.progress import ProgressLine, QueryRun
from headrace.cli.pipeline.session import PipelineRequest, open_events, query_metrics, short_path, spark_session
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms, duration_text

if TYPE_CHECKING:
    from headrace.pipeline.stats.run import BatchStats

FEED = "stats"
Feed = Annotated[str, typer.Option("--feed", help="Feed of each tenant to publish windows to.")]
NoFeed = Annotated[bool, typer.Option("--no-feed", help="Write the table only.")]


@option_groups
def stats(
    *,
    source: EventOptions,
    window: Window = "1m",
    once: Once = False,
    rebuild: Rebuild = False,
    every: Every = "2s",
    events_max: EventsMax = None,
    feed: Feed = FEED,
    no_feed: NoFeed = False,
    allow_loss: Lossy = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    limit: Rows = 10,
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Write windows of statistics to a table and the tenants' feeds.

    Runs live until Ctrl-C. With --once, it counts the events of the history (or the journal) that were not counted yet
    and exits, even beside a live run.

    Example: headrace pipeline stats --window 10s
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    window_ms, every_ms = duration_ms("window", typed_duration(window)), duration_ms("every", typed_duration(every))
    chosen = None if no_feed else feed
    if once:
        _all_windows(output, request, window_ms, chosen, limit, rebuild=rebuild)
        return OK
    if source.origin is not None or rebuild:
        option = "--rebuild" if rebuild else "--origin"
        raise BadConfig(f"{option} is for --once; live statistics follow the journal")
    serving = metrics_host, metrics_port
    return _live(output, request, window_ms, every_ms, events_max, chosen, allow_loss, serving)


def _all_windows(
    output: Output, request: PipelineRequest, window_ms: int, feed: str | None, limit: int, *, rebuild: bool
) -> None:
    with open_events(request, output) as work:
        if work is None:
            return
        from headrace.pipeline.spark_session import job_description
        from headrace.pipeline.stats.run import read_stats, write_stats
        from headrace.pipeline.tables.summary import latest_windows, top
        from headrace.pipeline.tables.write import cached_events

        work.line.stage(f"statistics, from {work.source}")
        folder, url = request.data_dir.location("stats"), None if feed is None else request.store
        with job_description(work.spark, "headrace: stats"), cached_events(work.events) as same:
            done = write_stats(work.spark, same, folder, window_ms=window_ms, rebuild=rebuild, url=url, feed=feed)
        rows, more = top(latest_windows(read_stats(work.spark, folder)), limit)
    table = {"rows": done.rows, "folder": str(folder), "events": done.events, "changed": done.changed}
    output.document({"origin": work.events.origin, "tables": {"stats": table}, "items": done.items, "stats": rows})
    output.table(
        ("window", "queue", "kind", "done#", "failed#", "dead#", "wait p95#", "run p95#", "backlog#"),
        [_cells(row) for row in rows],
        empty="there are no windows",
    )
    if more:
        output.say(f"and {more:,} more; --limit shows them")
    output.say(f"from {work.source}:")
    output.say(f"  {counted(done.rows, 'row')} in {short_path(folder)}, {done.changed:,} of them new or changed")
    _say_feed(output, request, feed, done.items)


def _live(
    output: Output,
    request: PipelineRequest,
    window_ms: int,
    every_ms: int,
    events_max: int | None,
    feed: str | None,
    allow_loss: bool,
    serving: tuple[str, int | None],
) -> int:
    request.read_backlog()
    query_run, line, counts = QueryRun(), ProgressLine(output), StatsCounts()
    folder = request.data_dir.location("stats")
    with spark_session(request.engine, line, None) as spark, query_metrics(spark, *serving, output):
        from headrace.pipeline.spark_session import is_connect
        from headrace.pipeline.stats.run import follow_stats

        is_counted = not is_connect(spark)  # the batches of a server are counted in its process
        line.stage(f"statistics into {short_path(folder)}")
        query = follow_stats(
            spark,
            request.store,
            folder,
            tenant=request.tenant,
            queue=request.queue,
            window_ms=window_ms,
            every_ms=every_ms,
            events_max=events_max,
            feed=feed,
            fail_on_loss=not allow_loss,
            on_batch=counts.add if is_counted else None,
        )
        progress = query_run.follow(query, line, counts.text if is_counted else str)
    output.document(
        {
            "events": progress.events,
            "batches": progress.batches,
            "windows": counts.windows if is_counted else None,
            "items": counts.items if is_counted else None,
            "behind": progress.behind,
            "seconds": query_run.seconds,
            "folder": str(folder),
        }
    )
    query_run.say_summary(output, "statistics", progress)
    if is_counted:
        output.say(f"  {counted(counts.windows, 'row')} new or changed in {short_path(folder)}")
        _say_feed(output, request, feed, counts.items)
    return INTERRUPTED if query_run.interrupted else OK


class StatsCounts:
    """The sums of the batches of live statistics."""

    def __init__(self) -> None:
        self.windows = self.items = 0

    def add(self, batch: "BatchStats") -> None:
        """Add a batch."""
        self.windows += batch.windows
        self.items += batch.items

    def text(self) -> str:
        """The sums as text."""
        return f" · {counted(self.windows, 'window')} written"


def _say_feed(output: Output, request: PipelineRequest, feed: str | None, items: int) -> None:
    if feed is not None:
        whose = "each tenant" if request.tenant == ALL else f"tenant {request.tenant}"
        output.say(f"  {counted(items, 'item')} published to feed {feed!r} of {whose}")
        name = "TENANT" if request.tenant == ALL else request.tenant
        output.hint(f"watch it with: headrace feeds tail {feed} --tenant {name}")
    output.hint(f"next: {request.words('report')}")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    times = (None if row[name] is None else duration_text(row[name]) for name in ("wait_p95", "run_p95"))
    return (
        f"{row['window_start']:%Y-%m-%d %H:%M:%S}",
        f"{row['tenant']}/{row['queue']}",
        row["kind"],
        row["done"],
        row["retried"] + row["stalled"],
        row["dead"],
        *times,
        row["backlog"],
    )
