"""Promises of the runs: tables that anybody can read, replaced in one step, written where they may be written."""

import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events, events
from headrace.pipeline.files import locked
from headrace.pipeline.flows.map.results import replace_table
from headrace.pipeline.stats.run import read_stats
from headrace.pipeline.tables.summary import by_kind, top
from headrace.pipeline.tables.write import (
    TableCounts,
    cached_events,
    read_table,
    write_errors,
    write_jobs,
    write_tables,
    write_usage,
)
from headrace.stores.contract.store import Store
from tests.pipeline.by_hand import ENQUEUED, at, frame_of, only
from tests.pipeline.store_scenarios import odd_story, run_scenario, url_of

QUEUE = Queue("mail", "acme", 3)


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data of mine")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = url_of(tmp_path / "jobs.db")

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=QUEUE, id=id, kind="k") for id in "abcde"], now_ms=1_000)
        await store.jobs.cancel(QUEUE, ["b", "d"], now_ms=2_000)

    run_scenario(url, story)
    return url


def numbers(spark: SparkSession, *found: int) -> Events:
    return Events(spark.createDataFrame([(each,) for each in found], "n int"), "journal", "by hand")


def test_the_table_of_jobs_is_read_by_others_and_its_rows_are_counted(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    counts = write_jobs(spark, events(spark, url, data_dir), data_dir)

    found = sorted((row["id"], row["outcome"]) for row in pq.read_table(data_dir.table("jobs")).to_pylist())
    assert counts == TableCounts(jobs=5, attempts=0)
    assert found == [("a", None), ("b", "cancelled"), ("c", None), ("d", "cancelled"), ("e", None)]


def test_a_table_is_replaced_whole_and_what_a_killed_run_left_is_gone(spark: SparkSession, data_dir: DataDir) -> None:
    folder = data_dir.table("usage")
    replace_table(numbers(spark, 1, 2).frame, folder)
    left = folder.with_name(".usage.new")
    left.mkdir()
    (left / "part-0.parquet").write_text("half a table")

    rows = replace_table(numbers(spark, 3).frame, folder)

    assert rows == 1
    assert pq.read_table(folder).to_pylist() == [{"n": 3}]
    assert sorted(each.name for each in data_dir.path.iterdir()) == [".usage.lock", "usage"]


def is_awaited(lock: Path) -> bool:
    """Whether somebody stands in line for a lock."""
    inode = f":{lock.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_one_run_at_a_time_replaces_a_table(spark: SparkSession, data_dir: DataDir) -> None:
    folder = data_dir.table("usage")
    replace_table(numbers(spark, 1).frame, folder)

    with locked(folder.with_name(".usage.lock")):
        second = threading.Thread(target=replace_table, args=(numbers(spark, 2).frame, folder))
        second.start()
        while second.is_alive() and not is_awaited(folder.with_name(".usage.lock")):
            second.join(0.01)
        meanwhile = pq.read_table(folder).to_pylist(), second.is_alive()
    second.join()

    assert meanwhile == ([{"n": 1}], True)
    assert pq.read_table(folder).to_pylist() == [{"n": 2}]


def test_what_is_no_table_is_never_overwritten(spark: SparkSession, data_dir: DataDir) -> None:
    precious = data_dir.table("jobs") / "precious.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")

    with pytest.raises(BadConfig, match=r"holds something else .*; name a folder that is new or empty"):
        write_jobs(spark, numbers(spark, 1), data_dir)

    assert precious.read_text() == "mine"


def test_tables_that_are_made_together_are_made_of_the_same_events(
    spark: SparkSession, url: str, data_dir: DataDir
) -> None:
    async def more(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=QUEUE, id="f", kind="k")], now_ms=3_000)

    with cached_events(events(spark, url, data_dir)) as same:
        before = same.frame.where("event <> 'claimed'").count()
        run_scenario(url, more)
        after = same.frame.where("id is not null").count()

    assert (before, after, events(spark, url, data_dir).frame.count()) == (7, 7, 8)


def test_all_tables_of_every_kind_of_event_are_written(spark: SparkSession, tmp_path: Path, data_dir: DataDir) -> None:
    url, stages = url_of(tmp_path / "odd.db"), list[str]()
    run_scenario(url, lambda store: odd_story(store, Queue("odd", "acme")))

    write_tables(spark, events(spark, url, data_dir), data_dir, window_ms=10_000, on_stage=stages.append)

    rows = {name: read_table(spark, data_dir, name).count() for name in ("jobs", "attempts", "errors", "usage")}
    assert stages == ["jobs and attempts", "errors", "usage", "statistics"]
    assert all(rows.values()), rows
    assert read_stats(spark, data_dir.location("stats")).select("window_start").distinct().count() == 2


def test_errors_and_usage_are_counted_as_they_are_written(spark: SparkSession, data_dir: DataDir) -> None:
    failed = {"event": "retried", "kind": "mail", "fence": 1, "run_ms": 5, "error_class": "E", "error_message": "no 1"}
    events = Events(frame_of(spark, ENQUEUED, failed, {**failed, "error_message": "no 2"}), "journal", "by hand")

    assert (write_errors(spark, events, data_dir), write_usage(spark, events, data_dir)) == (1, 1)

    [error] = read_table(spark, data_dir, "errors").toArrow().to_pylist()
    assert (error["day"], error["failures"], error["last"]) == (
        at(3).date(),
        2,
        {"epoch": 1, "seq": 3, "happened_at": at(3), "message": "no 2"},
    )


def test_a_summary_by_kind_tells_how_jobs_ended_and_how_long_they_took(spark: SparkSession) -> None:
    jobs = spark.createDataFrame(
        [("a", "m", kind, outcome) for kind, outcome in [("k", "done")] * 3 + [("k", None), (None, "removed")]],
        "tenant string, queue string, kind string, outcome string",
    )
    attempts = spark.createDataFrame(
        [("a", "m", "k", 10 * number, number) for number in range(1, 101)] + [("a", "m", "k", None, None)],
        "tenant string, queue string, kind string, wait_ms long, run_ms long",
    )
    rows, more = top(by_kind(jobs, attempts), 1)
    found = by_kind(jobs, attempts).toArrow().to_pylist()

    assert (len(rows), more) == (1, 1)
    assert only(found, "kind", "jobs", "open", "done", "gone", "deliveries", "wait_p50", "wait_p95", "run_p95") == [
        ("k", 4, 1, 3, 0, 101, 500, 950, 95),
        (None, 1, 0, 0, 1, 0, None, None, None),
    ]
