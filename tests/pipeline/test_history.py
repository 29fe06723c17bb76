"""Promises of the history, written by a local Spark: every event of the journals once, whatever stops a run."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline import spark_session
from headrace.pipeline.history.run import CHECKPOINT, follow_history
from headrace.pipeline.history.table import APP, HistoryState, compact, history_files, read_history, read_state
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.spark_errors import headrace_error
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import open_log
from headrace.stores.contract.store import Store
from tests.pipeline.filled_journals import T0, Story, fill, fill_store, keep
from tests.pipeline.histories import Place, duckdb_places, places, polars_rows
from tests.pipeline.shared_stores import call_store
from tests.pipeline.store_scenarios import odd_story, store_events
from tests.support.stores import sqlite_url

MAIL, YEAR, TRUE, ODD = Queue("mail", shards=2), Queue("2024", "acme"), Queue("true", "acme"), Queue("odd")
DAY_MS = 86_400_000
SECONDS_MAX = 60
STEPS = ("begun", "written", "checked", "committed", "advanced")
PARQUET_STEPS = ("written", "placing", "placed", "noted", "committed")


def run(spark: SparkSession, url: str, folder: Path | Location, **options: Any) -> None:
    """Write what is there, and end."""
    query = follow_history(spark, url, folder, once=True, **options)
    assert query.awaitTermination(SECONDS_MAX)


def spark_places(spark: SparkSession, folder: Path | Location) -> list[Place]:
    return places(read_history(spark, folder).toArrow().to_pylist())


def state_of(folder: Path | Location) -> HistoryState:
    state = read_state(folder)
    assert state is not None
    return state


def at_once(queue: Queue, count: int, *, since: int) -> Story:
    """So many events, in one step."""

    async def story(store: Store) -> None:
        jobs = [Job(queue=queue, id=f"job-{number}", kind="k") for number in range(since, since + count)]
        await store.jobs.enqueue(jobs, now_ms=T0 + since * 1_000)

    return story


def consumers(url: str, queue: Queue) -> list[tuple[int, bool]]:
    """How far those of a journal are, and whether retention waits for them."""
    return [(each.seq, each.hold) for each in call_store(url, lambda store: store.journal.consumers(Shard(queue)))]


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """Let a batch fail at a step."""

    def fail(reached: str, batch: int) -> None:
        if reached == step:
            raise RuntimeError(f"failed when {step}")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "crash_point", fail)
        yield


def test_every_event_is_in_the_files_once_with_all_its_columns_for_every_reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    # So that large batches are written by several tasks, and small ones by one.
    monkeypatch.setattr(spark_session, "TASK_EVENTS_MIN", 20)
    fill_store(url, fill(MAIL, 40), fill(YEAR, 12, every_ms=DAY_MS // 5), fill(TRUE, 3))
    fill_store(url, lambda store: odd_story(store, ODD))

    run(spark, url, folder, events_max=60)
    fill_store(url, fill(MAIL, 5, since=40))
    run(spark, url, folder)

    queues = [MAIL, YEAR, TRUE, ODD, ODD.fail_queue]
    expected = sorted(store_events(url, queues), key=str)
    frame = read_history(spark, folder)
    rows = frame.toArrow().to_pylist()
    days = {(row["queue"], str(row.pop("day"))) for row in rows}
    assert {row.pop("batch") for row in rows} == set(range(state_of(folder).batch + 1))
    assert frame.columns == [*JOURNAL.names, "day", "batch"]
    assert frame.drop("day", "batch").schema == JOURNAL.spark
    assert sorted(rows, key=str) == expected
    assert {day for queue, day in days if queue == "2024"} == {"2023-11-14", "2023-11-15", "2023-11-16", "2023-11-17"}
    read = polars_rows(folder)
    assert {(row["queue"], str(row.pop("day"))) for row in read} == days
    assert sorted([{column: row[column] for column in JOURNAL.names} for row in read], key=str) == expected
    assert duckdb_places(folder) == places(rows)
    assert call_store(url, lambda store: store.journal.consumers(Shard(YEAR)))[0].seq == 12
    assert (state_of(folder).events, state_of(folder).skipped) == (len(rows), 0)


@pytest.mark.parametrize(
    ("form", "failures"), [("delta", STEPS), pytest.param("parquet", PARQUET_STEPS, marks=pytest.mark.proof)]
)
def test_a_run_that_fails_at_any_step_is_brought_to_its_end_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, failures: tuple[str, ...]
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"

    for number, step in enumerate(failures):
        fill_store(url, fill(MAIL, 4, since=number * 4), fill(TRUE, 1, since=number))
        with failing(monkeypatch, step), pytest.raises(StreamingQueryException, match=f"failed when {step}"):
            run(spark, url, folder, form=form)
    run(spark, url, folder, form=form)

    expected = places(store_events(url, [MAIL, TRUE]))
    assert spark_places(spark, folder) == expected
    assert duckdb_places(folder) == expected
    assert state_of(folder).events == len(expected)


def test_a_history_on_object_storage_is_brought_to_its_end_and_compacted(
    spark: SparkSession, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), Location.parse(bucket).child("history")

    for number, step in enumerate(("written", "committed")):
        fill_store(url, fill(MAIL, 4, since=number * 4))
        with failing(monkeypatch, step), pytest.raises(StreamingQueryException, match=f"failed when {step}"):
            run(spark, url, folder)
    run(spark, url, folder)
    fill_store(url, fill(TRUE, 2))
    run(spark, url, folder)
    done = compact(folder)

    expected = places(store_events(url, [MAIL, TRUE]))
    assert done.files_after == 1
    assert spark_places(spark, folder) == expected
    only_true = read_history(spark, folder).where("queue = 'true' AND day = DATE'2023-11-14'")
    assert places(only_true.toArrow().to_pylist()) == [place for place in expected if place[1] == "true"]
    assert state_of(folder).events == len(expected)


def test_each_run_begins_where_the_table_ends_whatever_became_of_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(MAIL, 4), fill(TRUE, 1))
    run(spark, url, folder, queue="mail")
    fill_store(url, fill(MAIL, 4, since=4))

    shutil.rmtree(folder / CHECKPOINT)
    run(spark, url, folder, events_max=2)
    batch = state_of(folder).batch
    run(spark, url, folder, tenant="acme")

    assert duckdb_places(folder) == places(store_events(url, [MAIL, TRUE]))
    assert batch == 3
    assert state_of(folder).batch == 3, "a run with nothing new adds none"
    assert state_of(folder).shards.keys() == {"default/mail/0", "default/mail/1", "acme/true/0"}


def test_only_files_of_the_batches_that_are_asked_for_are_read(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    for number in range(3):
        fill_store(url, fill(TRUE, 2, since=number * 2))
        run(spark, url, folder)

    later = read_history(spark, folder, where=[("batch", ">", 0)])

    assert sorted(row.seq for row in later.collect()) == [3, 4, 5, 6]
    assert len(later.inputFiles()) == 2
    assert len(history_files(folder)) == 3


def test_a_tenant_can_be_deleted_from_a_history_that_is_split_by_tenant(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(MAIL, 4), fill(TRUE, 2))
    run(spark, url, folder, split="tenant")

    DeltaTable(str(folder)).delete("tenant = 'acme'")
    fill_store(url, fill(TRUE, 1, since=2))
    run(spark, url, folder)

    assert spark_places(spark, folder) == [("acme", "true", 0, 3), *places(store_events(url, [MAIL]))]
    assert {path.partition("/")[0] for path in files_within(folder)} == {"tenant=acme", "tenant=default"}


def files_within(folder: Path) -> list[str]:
    return [str(Path(file).relative_to(folder)) for file in history_files(folder)]


def test_what_retention_has_dropped_is_refused_or_counted(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(YEAR, 6))
    run(spark, url, folder)
    fill_store(url, fill(YEAR, 10, since=6), keep(Shard(YEAR), 3))

    with pytest.raises(Refused, match="acme/2024/0 up to seq 6, and retention has dropped what follows up to 14"):
        run(spark, url, folder)
    run(spark, url, folder, fail_on_loss=False)

    assert [seq for *_, seq in duckdb_places(folder)] == [*range(1, 7), 15, 16, 17]
    assert (state_of(folder).events, state_of(folder).skipped) == (9, 8)


def test_a_writer_whose_batch_another_has_committed_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(TRUE, 6))
    query = follow_history(spark, url, folder, every_ms=0)
    try:
        query.processAllAvailable()
        # Another driver, which sees the same object storage and not this lock.
        open_log(Location.parse(folder)).commit([], [], (APP, 1), state_of(folder), is_change=True)
        fill_store(url, fill(TRUE, 1, since=6))

        with pytest.raises(StreamingQueryException) as wrong:
            query.processAllAvailable()
    finally:
        query.stop()

    error = headrace_error(wrong.value)
    assert isinstance(error, BadConfig)
    assert "batch 1 of headrace-history is in" in str(error)
    assert "another run writes there; let it end" in str(error)
    assert len(duckdb_places(folder)) == 6


def test_a_second_run_is_refused_whatever_it_selects_and_the_first_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(MAIL, 4), fill(TRUE, 2))
    query = follow_history(spark, url, folder, every_ms=0)
    try:
        query.processAllAvailable()
        metadata = (folder / CHECKPOINT / "metadata").read_bytes()
        for selection in ({}, {"queue": "mail"}, {"tenant": "acme", "consumer": "other"}):
            with pytest.raises(BadConfig, match=r"another run writes the history in .*; let it end"):
                follow_history(spark, url, folder, once=True, **cast("Any", selection))
        assert metadata == (folder / CHECKPOINT / "metadata").read_bytes()
        compact(folder)
        fill_store(url, fill(MAIL, 4, since=4))
        query.processAllAvailable()
    finally:
        query.stop()
    fill_store(url, fill(TRUE, 2, since=2))
    run(spark, url, folder, queue="true")

    assert duckdb_places(folder) == places(store_events(url, [MAIL, TRUE]))


def test_a_consumer_that_a_killed_run_left_behind_is_advanced_at_the_next_start_where_it_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, fill(YEAR, 4), fill(TRUE, 2))
    with failing(monkeypatch, "committed"), pytest.raises(StreamingQueryException):
        run(spark, url, folder)

    run(spark, url, folder, queue="2024", hold=True)
    named, left_out = consumers(url, YEAR), consumers(url, TRUE)
    run(spark, url, folder)

    assert (named, left_out) == ([(4, True)], [])
    assert consumers(url, TRUE) == [(2, False)]


def test_a_history_with_payloads_is_compacted_while_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    fill_store(url, at_once(TRUE, 4, since=0))
    query = follow_history(spark, url, folder, every_ms=0, payloads=True)
    try:
        for number in range(1, 4):
            query.processAllAvailable()
            compact(folder)
            # At once: two batches would make a file more, which nobody merges at the end.
            fill_store(url, at_once(TRUE, 4, since=number * 4))
        query.processAllAvailable()
    finally:
        query.stop()

    rows = read_history(spark, folder).toArrow().to_pylist()
    assert places(rows) == places(store_events(url, [TRUE]))
    assert {(row["payload"], row["result"]) for row in rows} == {("null", None)}
    assert len(history_files(folder)) == 2
