"""The checks that the proofs of history and tables rest on: they are content after a stop, and find each fault."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.model.event import Event
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.table import read_history
from headrace.pipeline.storage import table
from headrace.pipeline.storage.location import Location
from headrace.pipeline.tables.write import write_jobs
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.test_increments import Story, history
from tests.proof.spark_check import IDENTITY, Found, Key, behind, compare, counted_by_duckdb, journal_of, wrong_rows
from tests.proof.spark_faults import FAULTS
from tests.proof.spark_writer import Writer
from tests.proof.table_check import compare_tables

SECONDS_MAX = 60
ROUNDS = 2


async def write(store: Store) -> None:
    writer = Writer(store)
    await writer.begin()
    await writer.write(ROUNDS)


async def write_on(store: Store) -> None:
    await Writer(store, ROUNDS).write(ROUNDS)


def stop_at(wanted: str) -> Callable[[str, int], None]:
    def reached(step: str, _: int) -> None:
        if step == wanted:
            raise RuntimeError(f"stopped when {step}")

    return reached


def run(spark: SparkSession, url: str, folder: Path) -> None:
    query = follow_history(spark, url, folder, once=True)
    assert query.awaitTermination(SECONDS_MAX)


def stopped_and_drained(
    spark: SparkSession, url: str, folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history whose first batch was stopped at a step, and that was started again when there was more."""
    with monkeypatch.context() as patch:
        patch.setattr(table, "crash_point", stop_at(step))
        with pytest.raises(StreamingQueryException, match="stopped when"):
            run(spark, url, folder)
    call_store(url, write_on)
    run(spark, url, folder)


def counted(spark: SparkSession, folder: Path, journal: dict[Key, Event]) -> tuple[Found, Found]:
    by_spark = read_history(spark, folder).groupBy(*IDENTITY).count().toArrow()
    return compare(journal, by_spark), compare(journal, counted_by_duckdb(Location.parse(folder)))


def test_a_history_that_was_stopped_after_its_files_were_written_is_the_journal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = fresh_url("sqlite", tmp_path), tmp_path / "history"
    call_store(url, write)

    stopped_and_drained(spark, url, folder, "written", monkeypatch)

    journal = call_store(url, journal_of)
    by_spark, by_duckdb = counted(spark, folder, journal)
    assert by_spark == by_duckdb == Found(rows=len(journal), distinct=len(journal))
    assert wrong_rows(Location.parse(folder), journal) == 0
    assert call_store(url, lambda store: behind(store, "history")) == 0


@pytest.mark.parametrize(("fault", "found"), [("append", "duplicate"), ("note_too_early", "missing")])
def test_the_same_check_finds_a_planted_fault(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, found: str
) -> None:
    url, folder = fresh_url("sqlite", tmp_path), tmp_path / "history"
    call_store(url, write)
    FAULTS[fault](monkeypatch.setattr)

    stopped_and_drained(spark, url, folder, "between", monkeypatch)

    for each in counted(spark, folder, call_store(url, journal_of)):
        assert not each.is_right
        assert getattr(each, found) > 0


@pytest.mark.parametrize(("fault", "found"), [("append", "surplus"), ("note_too_early", "missing")])
def test_the_check_of_tables_finds_a_planted_fault(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, found: str
) -> None:
    data_dir, anew, batches = DataDir(tmp_path / "tables"), DataDir(tmp_path / "anew"), Story(5, 120).cut(3)
    write_jobs(spark, history(spark, batches, 0), data_dir)
    with monkeypatch.context() as patch:
        FAULTS[fault](patch.setattr)
        patch.setattr(table, "crash_point", stop_at("between"))
        with pytest.raises(RuntimeError, match="stopped when"):
            write_jobs(spark, history(spark, batches, 1), data_dir)

    write_jobs(spark, history(spark, batches, 2), data_dir)

    write_jobs(spark, history(spark, batches, 2), anew, rebuild=True)
    difference = compare_tables(spark, data_dir, anew, ("jobs",))["jobs"]
    assert not difference.is_equal
    assert getattr(difference, found) > 0
