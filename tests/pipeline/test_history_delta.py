"""Promises of a history as a Delta table: a batch is one transaction, which brings its state along."""

import os
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from headrace.model.errors import BadConfig
from headrace.pipeline.history.compact import compact
from headrace.pipeline.history.delta import APP, commit, prepare_table, table_files
from headrace.pipeline.history.resume import begin
from headrace.pipeline.history.state import HistoryState, read_state, write_state
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.source.schema import JOURNAL
from tests.pipeline.histories import INSIDE, places, put

MAIL, GONE = "default/mail/0", "default/gone/0"


def add(folder: Path, state: HistoryState, *seqs: int, queue: str = "mail") -> HistoryState:
    """Put a batch into place and into the table, as far as the commit."""
    file = put(folder, state.batch + 1, seqs, queue=queue)
    batch = state.batch + 1
    after = replace(
        state,
        batch=batch,
        committed=batch,
        events=state.events + len(seqs),
        shards={MAIL: Mark(1, seqs[-1], "", 0)},
    )
    write_state(folder, state)
    commit(folder, [file], state, after)
    return after


def test_polars_duckdb_and_deltalake_read_the_table_with_the_journal_s_types(tmp_path: Path) -> None:
    state = begin(tmp_path, "delta", payloads=False)
    state = add(tmp_path, state, 1, 2)
    add(tmp_path, state, 1, queue="2024")

    by_polars = pl.scan_delta(str(tmp_path)).collect()
    by_arrow = DeltaTable(str(tmp_path)).to_pyarrow_table()
    with duckdb.connect() as connection:
        by_duckdb = connection.execute(
            "SELECT tenant, queue, shard, seq"
            " FROM read_parquet(?, hive_partitioning = true, hive_types = {'queue': VARCHAR}) ORDER BY ALL",
            [table_files(tmp_path)],
        ).fetchall()

    expected = [("default", "2024", 0, 1), ("default", "mail", 0, 1), ("default", "mail", 0, 2)]
    assert by_duckdb == expected
    assert places(by_polars.to_dicts()) == expected
    assert places(by_arrow.to_pylist()) == expected
    assert by_arrow.column_names == [*JOURNAL.names, "day"]
    assert by_arrow.select(INSIDE.names).schema == INSIDE


def test_a_state_that_was_not_written_is_in_the_transaction_of_its_batch(tmp_path: Path) -> None:
    state = replace(begin(tmp_path, "delta", payloads=False), shards={GONE: Mark(1, 5, "", 0)})
    after = add(tmp_path, state, 1, 2)
    compact(tmp_path)

    found = begin(tmp_path, "delta", payloads=False)

    assert found == after
    assert found.shards.keys() == {MAIL}
    assert read_state(tmp_path) == after
    assert DeltaTable(str(tmp_path)).transaction_version(APP) == 0
    assert begin(tmp_path, "delta", payloads=False) == after


def test_a_table_is_compacted_and_its_old_files_stay_for_readers_that_know_them(tmp_path: Path) -> None:
    state = begin(tmp_path, "delta", payloads=False)
    for seq in range(1, 6):
        state = add(tmp_path, state, seq)
        write_state(tmp_path, state)

    done = compact(tmp_path, until_day="2030-01-31")
    later = compact(tmp_path, until_day="2030-01-30")

    assert (done.folders, done.files_before, done.files_after) == (1, 5, 1)
    assert done.bytes_after < done.bytes_before
    assert later.files_before == 0
    assert [row["seq"] for row in sorted(pl.scan_delta(str(tmp_path)).collect().to_dicts(), key=str)] == [1, 2, 3, 4, 5]
    assert len(list(tmp_path.glob("day=*/queue=*/*.parquet"))) == 6
    assert begin(tmp_path, "delta", payloads=False) == state


def test_payloads_may_be_asked_for_later(tmp_path: Path) -> None:
    state = add(tmp_path, begin(tmp_path, "delta", payloads=False), 1)

    begin(tmp_path, "delta", payloads=True)
    add(tmp_path, state, 2)

    columns = pl.scan_delta(str(tmp_path)).collect().columns
    assert columns == [*JOURNAL.names, "day", "payload", "result"]


def test_the_transaction_of_a_batch_is_safe_on_disk_before_the_state_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, synced = begin(tmp_path, "delta", payloads=False), set[str]()
    fsync = os.fsync

    def noting(handle: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", noting)
        add(tmp_path, state, 1)

    log = tmp_path / "_delta_log"
    assert {str(log / f"{1:020d}.json"), str(log)} <= synced
    assert str(log / f"{0:020d}.json") not in synced


def test_a_table_that_lacks_a_batch_of_its_state_is_refused_and_batches_without_events_are_none(
    tmp_path: Path,
) -> None:
    state = add(tmp_path, begin(tmp_path, "delta", payloads=False), 1)
    then = replace(add(tmp_path, state, 2), batch=4)

    quiet = prepare_table(tmp_path, then, payloads=False)
    (tmp_path / "_delta_log" / f"{2:020d}.json").unlink()

    assert quiet == then
    with pytest.raises(BadConfig, match="lacks batch 1, which its state says is in place: its log was replaced by"):
        prepare_table(tmp_path, then, payloads=False)


def test_a_table_without_its_log_and_one_that_is_ahead_by_batches_are_refused(tmp_path: Path) -> None:
    first = begin(tmp_path, "delta", payloads=False)
    add(tmp_path, add(tmp_path, first, 1), 2)

    with pytest.raises(BadConfig, match="is at batch 1, and its state at -1: it was replaced by an older one"):
        prepare_table(tmp_path, first, payloads=False)
    (tmp_path / "_delta_log").rename(tmp_path / "_lost")
    with pytest.raises(BadConfig, match=r"the log of the Delta table in .* is missing; restore it"):
        prepare_table(tmp_path, replace(first, batch=1), payloads=False)
