"""The files of statistics: one for each window, whole or not there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.files import sync_folder, write_whole
from headrace.pipeline.stats.columns import ROW, STATS, Row, day_of, key_of, name_of, start_of

GLOB = "day=*/*.parquet"
"""Where the files are, for DuckDB, Polars and everybody else."""


class Files:
    """The windows of a folder, by their start."""

    def __init__(self, folder: Path, window_ms: int) -> None:
        self._folder = folder
        self._window_ms = window_ms

    def starts(self, since_ms: int = 0, until_ms: int | None = None) -> list[int]:
        """The windows that are there with `since_ms <= start < until_ms`, oldest first."""
        first_day, first = day_of(since_ms), f"{name_of(since_ms)}.parquet"
        names = [
            file.name
            for day in self._folder.glob("day=*")
            if day.name >= first_day
            for file in day.glob("[0-9]*.parquet")
            if file.name >= first
        ]
        starts = [start_of(name.removesuffix(".parquet")) for name in sorted(names)]
        return starts if until_ms is None else [start for start in starts if start < until_ms]

    def read(self, start_ms: int) -> list[Row]:
        """The rows of a window; none when it is not there."""
        path = self._path(start_ms)
        return _read(path, ROW.names) if path.is_file() else []

    def nets(self, start_ms: int) -> dict[Any, int]:
        """By how much a window changed the number of open jobs, by tenant, queue and kind."""
        found = _read(self._path(start_ms), ("tenant", "queue", "kind", "opened", "closed"))
        return {key_of(row): row["opened"] - row["closed"] for row in found}

    def write(self, start_ms: int, rows: Sequence[Row]) -> None:
        """Put the rows of a window in place of those that are there."""
        path = self._path(start_ms)
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            sync_folder(self._folder)
        window = {"window_start": start_ms * 1_000, "window_end": (start_ms + self._window_ms) * 1_000}
        columns = [
            pa.array([window[name]] * len(rows), STATS.arrow.field(name).type)
            if name in window
            else pa.array([row[name] for row in rows], STATS.arrow.field(name).type)
            for name in STATS.names
        ]
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.Table.from_arrays(columns, schema=STATS.arrow), sink, use_dictionary=False, compression="zstd"
        )
        write_whole(path, sink.getvalue().to_pybytes())

    def _path(self, start_ms: int) -> Path:
        return self._folder / day_of(start_ms) / f"{name_of(start_ms)}.parquet"


def _read(path: Path, names: Sequence[str]) -> list[Row]:
    # A small file by itself: threads, and a look at its folder, would cost more than reading it.
    with pq.ParquetFile(path) as file:
        found: list[Row] = file.read(columns=list(names), use_threads=False).to_pylist()
    return found
