"""Promises of live statistics: whatever comes late, twice or after a fall, they equal what plain Python counts."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.model.names import Queue, Shard
from headrace.pipeline.stats.live import Counted
from headrace.pipeline.stats.run import follow_stats, read_stats, write_stats
from headrace.stores.contract.store import Store
from tests.pipeline.bustle import bustle
from tests.pipeline.filling import T0, fill, keep, tell
from tests.pipeline.served import SERVED, ask, fresh_url
from tests.pipeline.stats_checks import SECONDS_MAX, WINDOW_MS, cursor_of, expected, follow, items_of, rows_in
from tests.support.stores import sqlite_url

MAIL, NEWS, LATE = Queue("mail", "acme", 2), Queue("news", "birch"), Queue("late", "acme")
HOURS_MS = 3_600_000


@pytest.mark.parametrize("name", SERVED)
def test_live_statistics_equal_plain_python_and_a_rerun_changes_nothing(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    url, folder = fresh_url(name, tmp_path), tmp_path / "stats"
    tell(url, bustle(MAIL, 100), bustle(NEWS, 40, seed=2))
    follow(spark, url, folder, events_max=150)
    # Late: another queue tells of minutes that are long counted.
    tell(url, bustle(LATE, 30, seed=3, begin_ms=T0 - 15_000))
    follow(spark, url, folder)

    right = expected(url, MAIL, NEWS, LATE)
    cursors = [cursor_of(url, tenant) for tenant in ("acme", "birch")]
    files = {file: file.read_bytes() for file in folder.glob("day=*/*.parquet")}
    follow(spark, url, tmp_path / "again", events_max=400)

    assert len(right) > 40
    assert rows_in(folder) == rows_in(tmp_path / "again") == right
    assert [cursor_of(url, tenant) for tenant in ("acme", "birch")] == cursors
    assert files == {file: file.read_bytes() for file in folder.glob("day=*/*.parquet")}
    for tenant in ("acme", "birch"):
        items = {id: item for id, item in items_of(url, tenant)}
        assert len(items) == sum(1 for place in right if place[1] == tenant)
        for (_, of, queue, kind), row in right.items():
            if of == tenant:
                [item] = [each for id, each in items.items() if id.endswith(f"/{queue}/{kind}") and _is(each, row)]
                assert item["tenant"] == tenant


def _is(item: dict[str, object], row: dict[str, object]) -> bool:
    return all(item[name] == value for name, value in row.items())
