"""Histories for tests: written by hand, and read by engines that know nothing of ours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from headrace.pipeline.history.state import HistoryState, read_state, write_state
from headrace.pipeline.source.schema import JOURNAL

Place = tuple[str, str, int, int]
"""Tenant, queue, shard, seq."""
INSIDE = JOURNAL.without(["queue"]).arrow
"""The columns of a file: its folders say the rest."""


def put(folder: Path, batch: int, seqs: Sequence[int], *, day: str = "2030-01-31", queue: str = "mail") -> Path:
    """Put a batch with these events of a journal into place, and note it."""
    file = folder / f"day={day}" / f"queue={queue}" / f"batch-{batch:09d}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows_of(seqs), file)
    write_state(folder, replace(read_state(folder) or HistoryState(), batch=batch))
    return file


def rows_of(seqs: Sequence[int]) -> pa.Table:
    """Events with a place, and nothing else in them."""
    rows = [{"tenant": "default", "shard": 0, "epoch": 1, "seq": seq, "happened_at": seq * 1_000_000} for seq in seqs]
    return pa.Table.from_pylist(rows, schema=INSIDE)


def duckdb_places(folder: Path) -> list[Place]:
    """Where each event stands, in the words of docs for DuckDB."""
    query = f"""
        SELECT tenant, queue, shard, seq
        FROM read_parquet(
            '{folder}/day=*/queue=*/*.parquet',
            hive_partitioning = true, hive_types = {{'day': DATE, 'queue': VARCHAR}}, union_by_name = true
        )
        ORDER BY ALL
    """  # noqa: S608 - our own folder
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def polars_rows(folder: Path) -> list[dict[str, Any]]:
    """The events, in the words of the docs for Polars."""
    events = pl.scan_parquet(
        f"{folder}/day=*/queue=*/*.parquet",
        hive_partitioning=True,
        hive_schema={"day": pl.Date, "queue": pl.String},
    )
    return events.collect().to_dicts()


def places(rows: Sequence[dict[str, Any]]) -> list[Place]:
    """Where each row stands, in order."""
    return sorted((row["tenant"], row["queue"], row["shard"], row["seq"]) for row in rows)
