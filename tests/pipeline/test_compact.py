"""Promises of compaction: files become fewer, and whoever reads sees each event once, whatever happens meanwhile."""

import threading
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from headrace.model.errors import BadConfig
from headrace.pipeline.files import exclusive
from headrace.pipeline.history import layout, steps
from headrace.pipeline.history import merge as merging
from headrace.pipeline.history.compact import compact
from headrace.pipeline.history.place import place
from headrace.pipeline.history.state import HistoryState, write_state
from headrace.pipeline.storage.compact import Compacted
from tests.pipeline.histories import duckdb_places, put, rows_of


def expected(last: int, queue: str = "mail") -> list[tuple[str, str, int, int]]:
    return [("default", queue, 0, seq) for seq in range(1, last + 1)]


def garbage(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / layout.COMPACTING).rglob("*.parquet"))


def names(leaf: Path) -> list[str]:
    return sorted(file.name for file in leaf.iterdir())


def test_small_files_of_a_day_and_queue_become_one_and_each_event_stays_once(tmp_path: Path) -> None:
    for batch in range(4):
        put(tmp_path, batch, range(batch * 3 + 1, batch * 3 + 4))
        put(tmp_path, batch, [batch + 1], queue="2024")
    single = put(tmp_path, 4, [13], day="2030-02-01")
    told: list[tuple[int, int]] = []

    done = compact(tmp_path, on_progress=lambda *each: told.append(each))

    assert names(tmp_path / "day=2030-01-31" / "queue=mail") == ["batch-000000000-000000003.parquet"]
    assert single.exists()
    assert sorted(duckdb_places(tmp_path)) == sorted([*expected(13), *expected(4, "2024")])
    assert (done.folders, done.files_before, done.files_after) == (2, 8, 2)
    assert 0 < done.bytes_after < done.bytes_before
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert garbage(tmp_path) == 0


def test_what_is_merged_is_in_order_and_keeps_its_types(tmp_path: Path) -> None:
    first = put(tmp_path, 0, [3, 4])
    types = pq.read_schema(first)
    put(tmp_path, 1, [1, 2])

    compact(tmp_path)
    again = compact(tmp_path)

    [file] = first.parent.iterdir()
    merged = pq.read_table(file)
    assert merged["seq"].to_pylist() == [1, 2, 3, 4]
    assert merged.schema.equals(types)
    assert again == Compacted()


def test_large_files_later_days_and_batches_that_are_not_in_place_are_left_alone(tmp_path: Path) -> None:
    large = put(tmp_path, 0, range(1, 2_001))
    for batch in range(1, 6):
        put(tmp_path, batch, [2_000 + batch])
    for batch in (6, 7):
        put(tmp_path, batch, [2_000 + batch], day="2030-02-01")
    write_state(tmp_path, HistoryState(batch=4))

    compact(tmp_path, until_day="2030-01-31", small_bytes=large.stat().st_size)

    assert names(large.parent) == [
        "batch-000000000.parquet",
        "batch-000000001-000000004.parquet",
        "batch-000000005.parquet",
    ]
    assert len(names(tmp_path / "day=2030-02-01" / "queue=mail")) == 2
    assert duckdb_places(tmp_path) == expected(2_007)


def test_files_with_payloads_and_without_are_merged(tmp_path: Path) -> None:
    put(tmp_path, 0, [1])
    later = put(tmp_path, 1, [2])
    rows = rows_of([2])
    pq.write_table(rows.append_column("payload", [["{}"]]), later)

    compact(tmp_path)

    [file] = later.parent.iterdir()
    assert pq.read_table(file, columns=["seq", "payload"]).to_pylist() == [
        {"seq": 1, "payload": None},
        {"seq": 2, "payload": "{}"},
    ]


def test_large_rows_are_merged_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, files = 64 * 1024, [put(tmp_path, batch, [1]) for batch in range(2)]
    for batch, file in enumerate(files):
        seqs = range(batch * 100 + 1, batch * 100 + 101)
        payloads = [str(seq).ljust(large, chr(33 + seq % 90)) for seq in seqs]
        pq.write_table(rows_of(seqs).append_column("payload", [payloads]), file, use_dictionary=False)
    most = 16 * large
    monkeypatch.setattr(merging, "HISTORY_GROUP_BYTES", most)

    compact(tmp_path)

    [file] = files[0].parent.iterdir()
    footer = pq.read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert footer.num_rows == 200
    assert max(group.num_rows for group in groups) <= most // large
    assert duckdb_places(tmp_path) == expected(200)


@pytest.mark.parametrize("step", ["merged", "linked", "exchanged"])
def test_a_run_that_is_stopped_at_any_step_leaves_a_right_history_and_the_next_one_ends_it(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        put(tmp_path, batch, [batch + 1])

    def stop(reached: str, batch: int) -> None:
        if reached == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(steps, "reached", stop)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path)
    stopped = duckdb_places(tmp_path)
    compact(tmp_path)

    assert stopped == expected(3)
    assert duckdb_places(tmp_path) == expected(3)
    assert names(tmp_path / "day=2030-01-31" / "queue=mail") == ["batch-000000000-000000002.parquet"]
    assert garbage(tmp_path) == 0


def test_what_a_writer_places_or_overwrites_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(3):
        put(tmp_path, batch, [batch + 1])
    put(tmp_path, 3, [999])
    write_state(tmp_path, HistoryState(batch=2))

    def write(reached: str, batch: int) -> None:
        # The writer runs batch 3 once more, and then the next.
        if reached == "merged":
            for number in (3, 4):
                staged = put(tmp_path / "_staging", number, [number + 1])
                place(tmp_path, [staged], number)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "reached", write)
        compact(tmp_path)

    assert duckdb_places(tmp_path) == expected(5)
    assert names(tmp_path / "day=2030-01-31" / "queue=mail") == [
        "batch-000000000-000000002.parquet",
        "batch-000000003.parquet",
        "batch-000000004.parquet",
    ]


def test_readers_beside_a_compaction_and_a_writer_see_each_event_once_or_fail(tmp_path: Path) -> None:
    batches, ended, seen, wrong = 25, threading.Event(), list[int](), list[object]()
    put(tmp_path, 0, [1])

    def read() -> None:
        while not ended.is_set():
            try:
                found = [seq for *_, seq in duckdb_places(tmp_path)]
            except (duckdb.IOException, duckdb.InvalidInputException):
                continue  # a file that it had listed is gone
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
        staged = put(tmp_path / "_staging", batch, [batch + 1])
        place(tmp_path, [staged], batch)
        write_state(tmp_path, HistoryState(batch=batch))
    ended.set()
    for each in others:
        each.join(30)

    assert not wrong
    assert seen
    assert duckdb_places(tmp_path) == expected(batches)


def test_a_second_run_a_folder_without_a_history_and_a_day_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    put(tmp_path, 0, [1])

    with pytest.raises(BadConfig, match="there is no history in"):
        compact(tmp_path / "other")
    with pytest.raises(BadConfig, match=r"until_day is '31.1.'; give a day such as"):
        compact(tmp_path, until_day="31.1.")
    with (
        exclusive(tmp_path / layout.COMPACTING_LOCK, ""),
        pytest.raises(BadConfig, match="another run compacts"),
    ):
        compact(tmp_path)
