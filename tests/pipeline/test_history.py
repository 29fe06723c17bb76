"""Promises of the history, written by a local Spark: every event of the journals once, whatever stops a run."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.history import layout, staging, steps
from headrace.pipeline.history.compact import compact
from headrace.pipeline.history.read import read_history
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.state import HistoryState, read_state, write_state
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.spark_errors import headrace_error
from headrace.stores.contract.store import Store
from tests.pipeline.filled_journals import T0, Story, fill, keep, tell
from tests.pipeline.histories import Place, duckdb_places, places, polars_rows
from tests.pipeline.shared_stores import ask
from tests.pipeline.store_scenarios import odd_story, store_events
from tests.support.stores import sqlite_url

MAIL, YEAR, TRUE, ODD = Queue("mail", shards=2), Queue("2024", "acme"), Queue("true", "acme"), Queue("odd")
DAY_MS = 86_400_000
SECONDS_MAX = 60
STEPS = ("staged", "placing", "placed", "committed", "noted", "advanced")


def run(spark: SparkSession, url: str, folder: Path, **options: Any) -> None:
    """Write what is there, and end."""
    query = follow_history(spark, url, folder, once=True, **options)
    assert query.awaitTermination(SECONDS_MAX)


def spark_places(spark: SparkSession, folder: Path) -> list[Place]:
    return places(read_history(spark, folder).toArrow().to_pylist())


def state_of(folder: Path) -> HistoryState:
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
    return [(each.seq, each.hold) for each in ask(url, lambda store: store.journal.consumers(Shard(queue)))]


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """Let a batch fail at a step; if it is reached for each file, then at the second."""
    times = 2 if step == "placing" else 1

    def fail(reached: str, batch: int) -> None:
        nonlocal times
        times -= reached == step
        if not times:
            raise RuntimeError(f"failed when {step}")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "reached", fail)
        yield


def test_every_event_is_in_the_files_once_with_all_its_columns_for_every_reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    # So that large batches are written by several tasks, and small ones by one.
    monkeypatch.setattr(staging, "HISTORY_TASK_EVENTS", 50)
    tell(url, fill(MAIL, 40), fill(YEAR, 12, every_ms=DAY_MS // 5), fill(TRUE, 3))
    tell(url, lambda store: odd_story(store, ODD))

    run(spark, url, folder, events_max=60)
    tell(url, fill(MAIL, 5, since=40))
    run(spark, url, folder)

    queues = [MAIL, YEAR, TRUE, ODD, ODD.fail_queue]
    expected = sorted(store_events(url, queues), key=str)
    frame = read_history(spark, folder)
    rows = frame.toArrow().to_pylist()
    days = {(row["queue"], str(row.pop("day"))) for row in rows}
    assert frame.columns == [*JOURNAL.names, "day"]
    assert frame.drop("day").schema == JOURNAL.spark
    assert sorted(rows, key=str) == expected
    assert {day for queue, day in days if queue == "2024"} == {"2023-11-14", "2023-11-15", "2023-11-16", "2023-11-17"}
    read = polars_rows(folder)
    assert {(row["queue"], str(row.pop("day"))) for row in read} == days
    assert sorted([{column: row[column] for column in JOURNAL.names} for row in read], key=str) == expected
    assert duckdb_places(folder) == places(rows)
    assert ask(url, lambda store: store.journal.consumers(Shard(YEAR)))[0].seq == 12
    assert (state_of(folder).events, state_of(folder).skipped) == (len(rows), 0)


def test_a_run_that_fails_at_any_step_is_brought_to_its_end_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Delta table, which has a step more, and the same files."""
    url, folder = sqlite_url(tmp_path), tmp_path / "history"

    for number, step in enumerate(STEPS):
        tell(url, fill(MAIL, 4, since=number * 4), fill(TRUE, 1, since=number))
        with failing(monkeypatch, step), pytest.raises(StreamingQueryException, match=f"failed when {step}"):
            run(spark, url, folder, form="delta")
    run(spark, url, folder, form="delta")

    expected = places(store_events(url, [MAIL, TRUE]))
    assert spark_places(spark, folder) == expected
    assert duckdb_places(folder) == expected
    assert state_of(folder).events == len(expected)


def test_a_lost_checkpoint_is_made_anew_from_the_state_and_batches_count_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, fill(MAIL, 4), fill(TRUE, 1))
    run(spark, url, folder, queue="mail")
    tell(url, fill(MAIL, 4, since=4))
    with failing(monkeypatch, "placed"), pytest.raises(StreamingQueryException):
        run(spark, url, folder, queue="mail")

    # What was placed of batch 1 is planned anew, with other limits and queues, and must not stay.
    shutil.rmtree(folder / layout.CHECKPOINT)
    run(spark, url, folder, events_max=2)
    batch = state_of(folder).batch
    run(spark, url, folder, tenant="acme")

    assert duckdb_places(folder) == places(store_events(url, [MAIL, TRUE]))
    assert batch == 3
    assert state_of(folder).shards.keys() == {"default/mail/0", "default/mail/1", "acme/true/0"}


def test_what_retention_has_dropped_is_refused_or_counted(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, fill(YEAR, 6))
    run(spark, url, folder)
    tell(url, fill(YEAR, 10, since=6), keep(Shard(YEAR), 3))

    with pytest.raises(StreamingQueryException) as refused:
        run(spark, url, folder)
    run(spark, url, folder, fail_on_loss=False)

    told = headrace_error(refused.value)
    assert isinstance(told, Refused)
    assert "acme/2024/0 up to seq 6, and retention has dropped what follows up to 14" in str(told)
    assert [seq for *_, seq in duckdb_places(folder)] == [*range(1, 7), 15, 16, 17]
    assert (state_of(folder).events, state_of(folder).skipped) == (9, 8)


def test_what_a_batch_finds_wrong_is_one_sentence_and_nothing_is_added(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, fill(TRUE, 6))
    query = follow_history(spark, url, folder, every_ms=0)
    try:
        query.processAllAvailable()
        state = state_of(folder)
        tell(url, fill(TRUE, 1, since=6))
        query.processAllAvailable()
        # Somebody has put an older place into the state.
        write_state(folder, replace(state_of(folder), shards=state.shards))
        tell(url, fill(TRUE, 1, since=7))

        with pytest.raises(StreamingQueryException) as wrong:
            query.processAllAvailable()
    finally:
        query.stop()

    told = headrace_error(wrong.value)
    assert isinstance(told, StoreUnavailable)
    assert str(told).startswith(
        "the history holds acme/true/0 up to seq 6, and this batch goes on after 7; nothing was"
    )
    assert len(duckdb_places(folder)) == 7


def test_a_second_run_is_refused_whatever_it_selects_and_the_first_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, fill(MAIL, 4), fill(TRUE, 2))
    query = follow_history(spark, url, folder, every_ms=0)
    try:
        query.processAllAvailable()
        origin = (folder / layout.CHECKPOINT / "_origin.json").read_bytes()
        for selection in ({}, {"queue": "mail"}, {"tenant": "acme", "consumer": "other"}):
            with pytest.raises(BadConfig, match=r"another run writes the history in .*; let it end"):
                follow_history(spark, url, folder, once=True, **cast(Any, selection))
        compact(folder)
        tell(url, fill(MAIL, 4, since=4))
        query.processAllAvailable()
    finally:
        query.stop()
    tell(url, fill(TRUE, 2, since=2))
    run(spark, url, folder, queue="true")

    assert origin != (folder / layout.CHECKPOINT / "_origin.json").read_bytes()
    assert duckdb_places(folder) == places(store_events(url, [MAIL, TRUE]))


def test_a_consumer_that_a_killed_run_left_behind_is_advanced_at_the_next_start_where_it_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, fill(YEAR, 4), fill(TRUE, 2))
    with failing(monkeypatch, "noted"), pytest.raises(StreamingQueryException):
        run(spark, url, folder)
    shutil.rmtree(folder / layout.CHECKPOINT)

    run(spark, url, folder, queue="2024", hold=True)
    named, left_out = consumers(url, YEAR), consumers(url, TRUE)
    run(spark, url, folder)

    assert (named, left_out) == ([(4, True)], [])
    assert consumers(url, TRUE) == [(2, False)]


def test_a_history_with_payloads_is_compacted_while_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    url, folder = sqlite_url(tmp_path), tmp_path / "history"
    tell(url, at_once(TRUE, 4, since=0))
    query = follow_history(spark, url, folder, every_ms=0, payloads=True)
    try:
        for number in range(1, 4):
            query.processAllAvailable()
            compact(folder)
            # At once: two batches would make a file more, which nobody merges at the end.
            tell(url, at_once(TRUE, 4, since=number * 4))
        query.processAllAvailable()
    finally:
        query.stop()

    rows = read_history(spark, folder).toArrow().to_pylist()
    assert places(rows) == places(store_events(url, [TRUE]))
    assert {(row["payload"], row["result"]) for row in rows} == {("null", None)}
    assert len(list(folder.glob(layout.GLOB))) == 2
