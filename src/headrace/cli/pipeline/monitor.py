"""`headrace pipeline changes` and `freshness`: what moved since yesterday, and how far tables are behind."""

from typing import Annotated, Any

import typer

from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import ALL, Json, Url, option_groups
from headrace.cli.output import Output, counted, one_line
from headrace.cli.pipeline.options import (
    FOLDER,
    Dir,
    Rows,
    SparkOptions,
    StoreOptions,
)
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import PipelineRequest, check_store, short_path, spark_session
from headrace.model.redact import redact
from headrace.model.times import duration_text, read_instant_ms
from headrace.pipeline.packages import needing_spark

FEED = "changes"
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="INSTANT",
        show_default=False,
        help="End of the later day, such as 2030-01-31T12:00Z; the end of the last window by default.",
    ),
]
Feed = Annotated[str, typer.Option("--feed", help="Feed of each tenant for the changes.")]
NoFeed = Annotated[bool, typer.Option("--no-feed", help="Write the table only.")]
BehindMax = Annotated[
    int | None,
    typer.Option("--behind-max", min=0, show_default=False, help="Events; exit with 1 when a table is further behind."),
]
Write = Annotated[bool, typer.Option("--write", help="Write the table freshness too, which starts Spark.")]


@option_groups
def changes(
    *,
    url: Url = None,
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    until: Until = None,
    feed: Feed = FEED,
    no_feed: NoFeed = False,
    limit: Rows = 20,
    spark_options: SparkOptions,
    json: Json = False,
) -> None:
    """Write the changes of the last 24 hours.

    New errors, and backlogs, times and failure rates of queues that moved: the tables of statistics and errors are
    compared with the 24 hours before. Each change is also an item in a feed.

    Example: headrace pipeline changes --until 2030-01-31T12:00Z
    """
    output = Output(json=json)
    request = PipelineRequest(url=url, dir=dir, tenant=ALL, queue=ALL, engine=spark_options.engine)
    until_ms, data_dir, line = (
        None if until is None else read_instant_ms("until", until),
        request.data_dir,
        ProgressLine(output),
    )
    with needing_spark():
        from headrace.pipeline.monitor import check_tables, publish_changes, write_changes
    if not no_feed:
        check_store(request.store, new=False)
    check_tables(data_dir)
    with spark_session(request.engine, line, 0) as spark:
        from headrace.pipeline.tables.changes import ranked
        from headrace.pipeline.tables.summary import top
        from headrace.pipeline.tables.write import read_table

        line.stage(f"changes, from {short_path(data_dir.folder)}")
        count = write_changes(spark, data_dir, until_ms=until_ms)
        frame = ranked(read_table(spark, data_dir, "changes"))
        items = 0 if no_feed else publish_changes(request.store, frame, feed=feed)
        rows, more = top(frame, limit)
    for row in rows:
        row["message"] = None if row["message"] is None else redact(row["message"])
    output.document(
        {
            "tables": {"changes": {"rows": count, "folder": str(data_dir.table("changes"))}},
            "items": items,
            "changes": rows,
        }
    )
    output.table(
        ("queue", "what", "was#", "is#", "factor#", "error"),
        [_change_cells(row) for row in rows],
        empty="nothing moved",
    )
    if more:
        output.say(f"and {more:,} more in the files; --limit shows them here")
    output.say(f"  {counted(count, 'row')} in {short_path(data_dir.table('changes'))}")
    if not no_feed:
        output.say(f"  {counted(items, 'item')} published to feed {feed!r} of each tenant")


@option_groups
def freshness(
    *,
    source: StoreOptions,
    behind_max: BehindMax = None,
    write: Write = False,
    limit: Rows = 20,
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Show how far tables are behind the store, by queue.

    Exits with 1 when a table is further behind than --behind-max. Starts no Spark unless --write is set.

    Example: headrace pipeline freshness --behind-max 100000
    """
    output = Output(json=json)
    request = PipelineRequest.of(source, spark_options)
    data_dir = request.data_dir
    check_store(request.store, new=False)
    with needing_spark():
        from headrace.pipeline.freshness import freshness as compare

        found = compare(request.store, data_dir, tenant=request.tenant, queue=request.queue)
    if write:
        with spark_session(request.engine, ProgressLine(output), 0) as spark:
            from headrace.pipeline.monitor import write_freshness

            write_freshness(spark, found, data_dir)
    output.document({"freshness": found})
    output.table(
        ("table", "queue", "events behind#", "behind#"),
        [
            (
                each.table_name,
                f"{each.tenant}/{each.queue}",
                each.events_behind,
                None if each.behind_ms is None else duration_text(each.behind_ms),
            )
            for each in found[:limit]
        ],
        empty=f"there is no table in {short_path(data_dir.folder)} yet; run: headrace pipeline history --once",
    )
    if len(found) > limit:
        output.say(f"and {len(found) - limit:,} more; --limit shows them, and --json all")
    is_late = behind_max is not None and any(each.events_behind > behind_max for each in found)
    return NO if is_late else OK


def _change_cells(row: dict[str, Any]) -> tuple[object, ...]:
    is_time = row["change"].endswith("_p95")
    is_rate = row["change"] == "failure_rate"
    values = [
        None
        if value is None
        else duration_text(round(value))
        if is_time
        else f"{value:.1%}"
        if is_rate
        else round(value)
        for value in (row["before"], row["now"])
    ]
    factor = None if row["factor"] is None else f"{row['factor']:,.2g}"
    message = None if row["message"] is None else one_line(row["message"])
    return (f"{row['tenant']}/{row['queue']}", row["change"].replace("_", " "), *values, factor, message)
