"""Writes the tables of changes, freshness and findings, and publishes changes to the tenants' feeds."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.client.tasks import retry
from headrace.feeds.feed import batches, refusal
from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName, Publication
from headrace.model.times import instant_text
from headrace.pipeline.audit.findings import Finding
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.freshness import Freshness, freshness_frame
from headrace.pipeline.source.sink.result import make_feed
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.storage.table import DataTable
from headrace.pipeline.storage.write import write_files
from headrace.pipeline.tables.changes import changes
from headrace.pipeline.tables.increment import rows_in
from headrace.pipeline.tables.write import read_table, table_of
from headrace.stores.contract.store import Store

FEED = "changes"
INSTANCE = "spark changes"
PUBLISHED_MAX = 1_000
"""The largest changes of a tenant in one run, since people read the feed."""
FINDINGS = (
    "what string, tenant string, queue string, shard int, id string, journal string, store string, seq bigint,"
    " hint string"
)
_encode = msgspec.json.Encoder().encode


def write_changes(spark: SparkSession, data_dir: DataDir, *, until_ms: int | None = None) -> int:
    """Write the table of changes from those of statistics and errors; returns its number of rows.

    Compares the 24 hours up to `until_ms`, by default the end of the last window, with the 24 hours before.
    """
    check_tables(data_dir)
    stats = read_table(spark, data_dir, "stats")
    if until_ms is None:
        [last] = stats.agg(F.max(F.unix_millis("window_end")).alias("at_ms")).collect()
        until_ms = last.at_ms or 0
    frame = changes(stats, read_table(spark, data_dir, "errors"), until_ms)
    return _replace_rows(frame, table_of(data_dir, "changes"))


def check_tables(data_dir: DataDir) -> None:
    """Refuse a folder without the tables that changes need."""
    for name, command in (("stats", "stats --once"), ("errors", "errors")):
        if table_of(data_dir, name).version() is None:
            raise BadConfig(
                f"changes need the table {name}, which {data_dir.folder} lacks; write it with: headrace pipeline"
                f" {command}"
            )


def publish_changes(url: str, frame: DataFrame, *, feed: str = FEED) -> int:
    """Publish changes to this feed of each tenant; returns the number of written items.

    An item's id is the day, the queue and the measure, so that a later run of the day edits it. Creates missing feeds.
    """
    _ = FeedName(feed)
    rows: dict[str, list[Publication]] = defaultdict(list)
    for row in frame.select(F.unix_millis("until").alias("until_ms"), "*").toLocalIterator():
        if len(rows[row.tenant]) < PUBLISHED_MAX:
            rows[row.tenant].append(_publication(row.asDict()))
    with connect(url) as (runner, store):
        return sum(runner.run(_publish(store, FeedName(feed, tenant), found)) for tenant, found in rows.items())


def _publication(row: dict[str, Any]) -> Publication:
    until = instant_text(row.pop("until_ms"))
    item = {**row, "until": until}
    return Publication(_encode(item), "/".join([until[:10], row["change"], row["fingerprint"] or row["queue"]]))


async def _publish(store: Store, feed: FeedName, publications: Sequence[Publication]) -> int:
    state = await retry(lambda: store.feeds.describe(feed))
    if state is None:
        await make_feed(store, feed, INSTANCE)
    elif state.config.type == "queue":
        raise BadConfig(f"feed {str(feed)!r} is an item queue, whose items cannot be edited; name another feed")
    is_sorted = state is not None and state.config.type == "sorted"
    written = 0
    for part in batches(publications):
        there = await retry(partial(store.items.find, feed, [each.id or "" for each in part]))
        changed = [
            each if item is None else msgspec.structs.replace(each, edit=is_sorted)
            for each, item in zip(part, there, strict=True)
            if item is None or item.item != each.item
        ]
        answers = await retry(partial(store.items.publish, feed, changed, instance=INSTANCE))
        for each, answer in zip(changed, answers, strict=True):
            if not answer.ok:
                raise refusal(feed, each, answer)
        written += len(changed)
    return written


def write_freshness(spark: SparkSession, found: Sequence[Freshness], data_dir: DataDir) -> int:
    """Write the table of freshness from the result of `freshness`; returns its number of rows."""
    return _replace_rows(freshness_frame(spark, found), table_of(data_dir, "freshness"))


def write_findings(spark: SparkSession, findings: Sequence[Finding], data_dir: DataDir) -> int:
    """Write the table of findings of an audit, which may be empty; returns its number of rows."""
    return _replace_rows(findings_frame(spark, findings), table_of(data_dir, "findings"))


def findings_frame(spark: SparkSession, findings: Sequence[Finding]) -> DataFrame:
    """The findings of an audit as a DataFrame: `what tenant queue shard id journal store seq hint`."""
    return spark.createDataFrame([msgspec.structs.astuple(each) for each in findings], FINDINGS)


def _replace_rows(frame: DataFrame, table: DataTable) -> int:
    """Replace the rows of a table in one transaction; returns their number."""
    old = table.prepare().files()
    files = write_files(frame.coalesce(1), table)
    if files or old:
        table.commit(files, replace=old)
    return rows_in(table)
