"""What the tests of statistics look at: files, feeds, and whether they equal the second opinion."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.model.feed import FeedName
from headrace.model.names import Queue
from headrace.pipeline.stats.run import follow_stats, read_stats
from headrace.pipeline.tables.layouts import TIMES
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store
from tests.pipeline.stats_by_hand import Place, Row, journal_of, stats_by_hand

WINDOW_MS = 10_000
SECONDS_MAX = 100
"""For a query that has little to do."""


def follow(spark: SparkSession, url: str, folder: Path, **options: Any) -> None:
    """Follow a store up to what is there now."""
    query = follow_stats(spark, url, folder, **{"window_ms": WINDOW_MS, "once": True, **options})
    assert query.awaitTermination(SECONDS_MAX)


def rows_in(spark: SparkSession, folder: Path) -> dict[Place, Row]:
    """The rows of the table, by place and in their order."""
    found: dict[Place, Row] = {}
    for row in read_stats(spark, folder).drop(*TIMES).orderBy("window_start", "tenant", "queue").toArrow().to_pylist():
        start = row.pop("window_start")
        assert row.pop("day") == start.date()
        assert (row.pop("window_end") - start).total_seconds() * 1_000 == WINDOW_MS
        place = (int(start.timestamp()) * 1_000, row.pop("tenant"), row.pop("queue"), row.pop("kind"))
        assert place not in found
        found[place] = row
    return found


def expected(url: str, *queues: Queue) -> dict[Place, Row]:
    """What plain Python makes of the journals."""
    return stats_by_hand(journal_of(url, list(queues)), WINDOW_MS)


def items_of(url: str, tenant: str) -> dict[Place, Row]:
    """The items of a tenant's feed, by the place that their ids name."""

    async def read(store: Store) -> dict[Place, Row]:
        found = {}
        for item in (await store.items.snapshot(FeedName("stats", tenant))).rows:
            row = json.loads(item.item)
            start, end, queue, kind = (row.pop(name) for name in ("window_start", "window_end", "queue", "kind"))
            assert item.id == f"{start}/{queue}/{kind or ''}"
            start_ms, end_ms = (int(datetime.fromisoformat(text).timestamp()) * 1_000 for text in (start, end))
            assert end_ms - start_ms == WINDOW_MS
            found[start_ms, row.pop("tenant"), queue, kind] = row
        return found

    return call_store(url, read)


def cursor_of(url: str, tenant: str) -> str:
    """Where the log of a tenant's feed ends: it moves with every change."""

    async def read(store: Store) -> str:
        state = await store.feeds.describe(FeedName("stats", tenant))
        return "" if state is None else str(state.cursor)

    return call_store(url, read)
