"""Promises of compaction: files become fewer, and whoever reads sees each event once, whatever happens meanwhile."""

import threading
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headrace.model.errors import BadConfig
from headrace.pipeline.history.table import APP, HistoryState, compact, history_files, history_table, read_state
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.storage import compact as merging
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.compact import Compacted
from headrace.pipeline.storage.table import Form
from headrace.pipeline.storage.write import write_sorted
from tests.pipeline.histories import duckdb_places, places, polars_rows, put, rows_of, written


@pytest.fixture(params=["delta", "parquet"])
def form(request: pytest.FixtureRequest) -> Form:
    return cast("Form", request.param)


def expected(last: int, queue: str = "mail") -> list[tuple[str, str, int, int]]:
    return [("default", queue, 0, seq) for seq in range(1, last + 1)]


def test_small_files_of_a_day_become_one_and_each_event_stays_once(tmp_path: Path, form: Form) -> None:
    for batch in range(4):
        put(tmp_path, range(batch * 3 + 1, batch * 3 + 4), form=form)
        put(tmp_path, [batch + 1], queue="2024", form=form)
    state = put(tmp_path, [13], day="2030-02-01", form=form)
    progress: list[tuple[int, int]] = []

    done = compact(tmp_path, on_progress=lambda *each: progress.append(each))
    again = compact(tmp_path)

    assert sorted(file.split("/")[-2] for file in history_files(tmp_path)) == ["day=2030-01-31", "day=2030-02-01"]
    assert sorted(duckdb_places(tmp_path)) == sorted([*expected(13), *expected(4, "2024")])
    assert (done.folders, done.files_before, done.files_after) == (1, 8, 1)
    assert 0 < done.bytes_after < done.bytes_before
    assert (progress, again) == ([(1, 1)], Compacted())
    assert read_state(tmp_path) == state


def test_deltalake_and_polars_read_the_merged_table_with_the_journal_s_types(tmp_path: Path) -> None:
    put(tmp_path, [3, 4])
    put(tmp_path, [1, 2])

    compact(tmp_path)

    [file] = history_files(tmp_path)
    assert pq.read_table(file, partitioning=None)["seq"].to_pylist() == [1, 2, 3, 4]
    by_arrow = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert by_arrow.select(JOURNAL.names).schema == JOURNAL.arrow
    assert places(by_arrow.to_pylist()) == places(polars_rows(tmp_path)) == expected(4)


def test_large_files_and_later_days_are_left_alone(tmp_path: Path, form: Form) -> None:
    put(tmp_path, range(1, 2_001), form=form)
    [large] = history_files(tmp_path)
    for batch in range(1, 6):
        put(tmp_path, [2_000 + batch], form=form)
    for batch in (6, 7):
        put(tmp_path, [2_000 + batch], day="2030-02-01", form=form)

    done = compact(tmp_path, until_day="2030-01-31", small_bytes=Path(large).stat().st_size)

    assert (done.files_before, done.files_after) == (5, 1)
    assert large in history_files(tmp_path)
    assert duckdb_places(tmp_path) == expected(2_007)


def test_files_with_payloads_and_without_are_merged(tmp_path: Path, form: Form) -> None:
    put(tmp_path, [1], form=form)
    table = history_table(tmp_path, payloads=True)
    table.prepare()
    rows = rows_of(table, [2], day="2030-01-31", queue="mail", batch=1)
    rows = rows.set_column(rows.schema.get_field_index("payload"), "payload", pa.array(["{}"]))
    files = list(write_sorted(iter([rows]), table.layout, table.write_location, "history-1"))
    table.commit(files, batch=(APP, 1), state=HistoryState(batch=1))

    compact(tmp_path)

    [file] = history_files(tmp_path)
    assert pl.read_parquet(file).select("seq", "payload").rows() == [(1, None), (2, "{}")]


def test_a_merge_has_no_more_rows_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "TABLE_MERGE_ROWS", 100)
    for batch in range(10):
        put(tmp_path, range(batch * 30 + 1, batch * 30 + 31))

    compact(tmp_path)

    assert sorted(pq.read_metadata(file).num_rows for file in history_files(tmp_path)) == [30, 90, 90, 90]
    assert duckdb_places(tmp_path) == expected(300)


@pytest.mark.parametrize("step", ["merged", "placed", "noted", "exchanged"])
def test_a_run_that_is_stopped_at_any_step_leaves_a_right_history_and_the_next_one_ends_it(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        put(tmp_path, [batch + 1], form="parquet")

    def stop(reached: str, _: int) -> None:
        if reached == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(steps, "crash_point", stop)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path)
    stopped = duckdb_places(tmp_path)
    compact(tmp_path)

    assert stopped == expected(3)
    assert duckdb_places(tmp_path) == expected(3)
    assert len(list(tmp_path.glob("day=*/*.parquet"))) == 1


def test_what_a_writer_commits_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    for batch in range(3):
        put(tmp_path, [batch + 1], form=form)

    def write(reached: str, _: int) -> None:
        if reached == "merged":
            put(tmp_path, [4], form=form)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "crash_point", write)
        compact(tmp_path)

    assert duckdb_places(tmp_path) == expected(4)
    assert len(history_files(tmp_path)) == 2
    assert read_state(tmp_path) == HistoryState(batch=3, events=4)


def test_readers_beside_a_compaction_and_a_writer_see_each_event_once(tmp_path: Path) -> None:
    batches, ended, seen, wrong = 15, threading.Event(), list[int](), list[object]()
    put(tmp_path, [1])

    def read() -> None:
        while not ended.is_set():
            found = [seq for *_, seq in duckdb_places(tmp_path)]
            seen.append(len(found))
            if found != list(range(1, len(found) + 1)):
                wrong.append(found)

    def merge() -> None:
        while not ended.is_set():
            compact(tmp_path)

    others = [threading.Thread(target=each) for each in (read, merge)]
    for each in others:
        each.start()
    for batch in range(1, batches):
        put(tmp_path, [batch + 1])
    ended.set()
    for each in others:
        each.join(30)

    assert not wrong
    assert seen
    assert duckdb_places(tmp_path) == expected(batches)


def test_files_that_nobody_committed_do_not_count_and_go_with_a_vacuum(tmp_path: Path, form: Form) -> None:
    put(tmp_path, [1], form=form)
    table = history_table(tmp_path)
    [orphan] = written(table, 1, [2])

    assert duckdb_places(tmp_path) == expected(1)
    table.vacuum(hours=0)

    assert not (table.write_location.path / orphan.path).exists()


def test_a_folder_without_a_history_and_a_day_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    put(tmp_path / "history", [1])

    with pytest.raises(BadConfig, match="there is no history in"):
        compact(tmp_path / "other")
    with pytest.raises(BadConfig, match=r"until_day is '31.1.'; give a day such as"):
        compact(tmp_path / "history", until_day="31.1.")
