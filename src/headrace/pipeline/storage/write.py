"""Lets Spark's tasks write the final files of a table; the driver learns of each file one row."""

import secrets
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.model.limits import TABLE_GROUP_BYTES, TABLE_GROUP_ROWS
from headrace.model.times import iso_text
from headrace.pipeline.files import sync_file, sync_folder
from headrace.pipeline.storage.layout import DataFile, Layout
from headrace.pipeline.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.storage.table import DataTable

Summarize = Callable[[pa.Table], Any]
"""Says of the rows of a row group what the driver is to know, as a list that JSON can hold."""
_ROW = "file string"
_BLOOM_ROWS_MIN = 10_000
"""Below, a file is read as quickly as its filter."""
_TEXT_MAX = 128
"""Characters of a text in the log: of longer ones it has a shorter text that is less, or one that is greater."""
_LAST = "\U0010ffff"
"""No character is greater."""
_HAS_BLOOM = "bloom_filter_options" in signature(pq.ParquetWriter).parameters


def write_files(
    frame: "DataFrame", table: "DataTable", *, batch: int = 0, summarize: Summarize | None = None
) -> list[DataFile]:
    """Write the rows of a frame to new files of a table, which nobody sees before they are committed.

    Each task writes a file for each partition of the table that it has rows of: repartition or coalesce before. A task
    that is run again writes other files, and those of the first run are orphans for `vacuum`.
    """
    layout, home = table.layout, table.write_location
    by = [*layout.partition_by, *layout.order]
    rows = frame.select(*layout.schema.names)
    rows = rows.sortWithinPartitions(*by) if by else rows
    task = _WriteTask(layout, home, f"{layout.name}-{batch:09d}", summarize)
    found = rows.mapInArrow(task, _ROW).toArrow().column("file").to_pylist()
    return sorted((msgspec.json.decode(each, type=DataFile) for each in found), key=lambda file: file.path)


class _WriteTask:
    """What each task runs."""

    def __init__(self, layout: Layout, home: Location, prefix: str, summarize: Summarize | None) -> None:
        self._layout = layout
        self._home = home
        self._prefix = prefix
        self._summarize = summarize

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in write_sorted(map(self._typed, batches), self._layout, self._home, self._prefix, self._summarize):
            yield pa.record_batch([[msgspec.json.encode(file).decode()]], ["file"])

    def _typed(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([batch]).select(self._layout.schema.names).cast(self._layout.schema)


def write_sorted(
    tables: Iterator[pa.Table], layout: Layout, home: Location, prefix: str, summarize: Summarize | None = None
) -> Iterator[DataFile]:
    """Write rows that are in the order of the table's partitions, a file for each, and say which these are."""
    writer: _FileWriter | None = None
    for rows in tables:
        for partition, part in _runs(rows, layout.partition_by):
            if writer is None or writer.partition != partition:
                if writer is not None:
                    yield writer.close()
                writer = _FileWriter(layout, home, prefix, partition, summarize)
            writer.add(part)
    if writer is not None:
        yield writer.close()


def _runs(rows: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows cut where the values of a partition column change."""
    if not rows.num_rows:
        return
    columns = {name: rows.column(name).combine_chunks() for name in by}
    ends = {rows.num_rows}
    for column in columns.values():
        ends.update(pc.run_end_encode(column).run_ends.to_pylist())
    start = 0
    for end in sorted(ends):
        values = {name: column[start].as_py() for name, column in columns.items()}
        partition = {name: None if value is None else str(iso_text(value)) for name, value in values.items()}
        yield partition, rows.slice(start, end - start)
        start = end


class _FileWriter:
    """One file; rows are gathered to row groups of a size that engines can skip by."""

    def __init__(
        self,
        layout: Layout,
        home: Location,
        prefix: str,
        partition: dict[str, str | None],
        summarize: Summarize | None,
    ) -> None:
        self.partition = partition
        self._layout = layout
        self._home = home
        self._path = f"{layout.folder(partition)}{prefix}-{secrets.token_hex(8)}.parquet"
        self._summarize = summarize
        self._summary: list[Any] = []
        self._group: list[pa.Table] = []
        self._group_rows = self._group_bytes = 0
        self._stream: Any = None
        self._writer: Any = None

    def add(self, rows: pa.Table) -> None:
        """Take rows, in order."""
        self._group.append(rows)
        self._group_rows += rows.num_rows
        self._group_bytes += rows.nbytes
        if self._group_rows >= TABLE_GROUP_ROWS or self._group_bytes >= TABLE_GROUP_BYTES:
            self._flush()

    def close(self) -> DataFile:
        """Bring the file to its end, safe on disk, and say what is in it."""
        self._flush()
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        if self._home.is_local:
            file = self._home.path / self._path
            sync_file(file)
            sync_folder(file.parent)
        summary = self._summary if self._summarize is not None else None
        return _describe(self._footers[0], self._path, size, self._layout, self.partition, summary)

    def _flush(self) -> None:
        if not self._group:
            return
        rows = pa.concat_tables(self._group)
        self._group, self._group_rows, self._group_bytes = [], 0, 0
        if self._summarize is not None:
            self._summary += self._summarize(rows)
        rows = rows.select(self._layout.file_schema.names)
        if self._writer is None:
            self._open(rows)
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def _open(self, rows: pa.Table) -> None:
        files, folder = self._home.filesystem()
        path = f"{folder}/{self._path}"
        if self._home.is_local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._stream = files.open_output_stream(path)
        self._footers: list[Any] = []
        options: dict[str, Any] = {}
        # Filters are sized before rows come: as the first group, whose size the others have as well.
        if self._layout.bloom and rows.num_rows >= _BLOOM_ROWS_MIN and _HAS_BLOOM:
            distinct = {name: pc.count_distinct(rows.column(name)).as_py() for name in self._layout.bloom}
            options["bloom_filter_options"] = {name: {"ndv": max(n, 1), "fpp": 0.05} for name, n in distinct.items()}
        self._writer = pq.ParquetWriter(
            self._stream,
            rows.schema,
            compression="zstd",
            store_schema=False,
            metadata_collector=self._footers,
            **options,
        )


def _describe(
    footer: Any, path: str, size: int, layout: Layout, partition: dict[str, str | None], summary: list[Any] | None
) -> DataFile:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    positions = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    for name in layout.stats:
        found = [group.column(positions[name]).statistics for group in groups] if name in positions else []
        if not found or any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.has_min_max]
        is_text = pa.types.is_string(layout.schema.field(name).type)
        if len(bounded) < sum(each.num_values > 0 for each in found):
            # Parquet has no bounds of texts above 4 KiB.
            lows[name], highs[name] = ("", _LAST) if is_text else (None, None)
        elif bounded:
            low, high = iso_text(min(each.min for each in bounded)), iso_text(max(each.max for each in bounded))
            lows[name], highs[name] = (low[:_TEXT_MAX], _greater(high)) if is_text else (low, high)
    return DataFile(
        path=path,
        size=size,
        rows=footer.num_rows,
        partition=partition,
        lows=lows,
        highs=highs,
        nulls=nulls,
        summary=summary,
    )


def _greater(text: str) -> str:
    """A text that is not less than this one, and as long as those in the log, unless it goes on with the last one."""
    rest = text[_TEXT_MAX:]
    run = len(rest) - len(rest.lstrip(_LAST))
    return text[: _TEXT_MAX + run] + _LAST if rest else text
