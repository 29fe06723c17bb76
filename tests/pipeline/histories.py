"""Histories for tests: batches made by hand, and read by engines that know nothing of ours."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from headrace.pipeline.history.table import APP, HistoryState, history_files, history_table, read_state
from headrace.pipeline.history.verify import seq_runs
from headrace.pipeline.storage.layout import DataFile
from headrace.pipeline.storage.table import DataTable, Form
from headrace.pipeline.storage.write import write_sorted

Place = tuple[str, str, int, int]
"""Tenant, queue, shard, seq."""


def rows_of(table: DataTable, seqs: Sequence[int], *, day: str, queue: str, batch: int) -> pa.Table:
    """Events with a place, and nothing else in them."""
    fixed = {"tenant": "default", "queue": queue, "shard": 0, "epoch": 1, "batch": batch}
    rows = [{**fixed, "seq": seq, "happened_at": seq * 1_000_000, "day": date.fromisoformat(day)} for seq in seqs]
    return pa.Table.from_pylist(rows, schema=table.layout.schema)


def written(
    table: DataTable, batch: int, seqs: Sequence[int], *, day: str = "2030-01-31", queue: str = "mail"
) -> list[DataFile]:
    """The files of these events of a journal, which nobody has committed."""
    rows = rows_of(table, seqs, day=day, queue=queue, batch=batch)
    return list(write_sorted(iter([rows]), table.layout, table.write_location, f"history-{batch:09d}", seq_runs))


def put(folder: Path, seqs: Sequence[int], *, form: Form = "delta", **options: Any) -> HistoryState:
    """Commit a batch with these events of a journal."""
    table = history_table(folder, form=form)
    table.prepare()
    state = read_state(folder) or HistoryState()
    then = HistoryState(batch=state.batch + 1, events=state.events + len(seqs))
    table.commit(written(table, then.batch, seqs, **options), batch=(APP, then.batch), state=then)
    return then


def duckdb_places(folder: Path) -> list[Place]:
    """Where each event stands, in the words of docs for DuckDB."""
    files = history_files(folder)
    if not files:
        return []
    query = """
        SELECT tenant, queue, shard, seq
        FROM read_parquet(?, hive_partitioning = true, hive_types = {'day': DATE}, union_by_name = true)
        ORDER BY ALL
    """
    with duckdb.connect() as connection:
        return connection.execute(query, [files]).fetchall()


def polars_rows(folder: Path) -> list[dict[str, Any]]:
    """The events, in the words of the docs for Polars."""
    return pl.scan_delta(str(folder)).collect().to_dicts()


def places(rows: Sequence[dict[str, Any]]) -> list[Place]:
    """Where each row stands, in order."""
    return sorted((row["tenant"], row["queue"], row["shard"], row["seq"]) for row in rows)
