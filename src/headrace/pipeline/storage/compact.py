"""Merges the small files of a table's partitions, in bounded memory and beside readers and writers."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import StoreUnavailable
from headrace.model.limits import TABLE_MERGE_ROWS, TABLE_SMALL_BYTES
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.layout import Condition, DataFile, TableVersion
from headrace.pipeline.storage.write import write_sorted

Progress = Callable[[int, int], None]
"""How many merges are done, of how many."""


class Compacted(Struct):
    """What a compaction has merged."""

    folders: int = 0
    """Partitions of which files were merged."""
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def compact_table(
    table: steps.DataTable,
    *,
    where: Sequence[Condition] = (),
    small_bytes: int = TABLE_SMALL_BYTES,
    on_progress: Progress | None = None,
) -> Compacted:
    """Merge files of each partition that are smaller than `small_bytes`, each merge in a transaction of its own.

    `where` are conditions on partition columns. Stopped anywhere, it leaves nothing wrong behind.
    """
    now = table.version()
    if now is None:
        return Compacted()
    groups = list(_groups(now.files(where), small_bytes))
    done = Compacted(folders=len({_key(group[0]) for group in groups}))
    for number, group in enumerate(groups, 1):
        merged = list(_merge(table, group, now))
        steps.crash_point("merged", 0)
        table.commit(merged, replace=group, is_change=False)
        steps.crash_point("exchanged", 0)
        done.files_before += len(group)
        done.files_after += len(merged)
        done.bytes_before += sum(file.size for file in group)
        done.bytes_after += sum(file.size for file in merged)
        if on_progress is not None:
            on_progress(number, len(groups))
    return done


def _groups(files: Sequence[DataFile], small_bytes: int) -> Iterator[list[DataFile]]:
    """Small files of one partition that are to become one each, no more rows than fit into memory."""
    small = [file for file in files if file.size < small_bytes and file.rows < TABLE_MERGE_ROWS // 2]
    for _, found in groupby(sorted(small, key=lambda file: (_key(file), file.path)), key=_key):
        group: list[DataFile] = []
        rows = size = 0
        for file in found:
            if group and (rows + file.rows > TABLE_MERGE_ROWS or size >= small_bytes):
                if len(group) > 1:
                    yield group
                group, rows, size = [], 0, 0
            group.append(file)
            rows, size = rows + file.rows, size + file.size
        if len(group) > 1:
            yield group


def _merge(table: steps.DataTable, group: Sequence[DataFile], now: TableVersion) -> Iterator[DataFile]:
    # As the table is, which may have columns that this layout lacks.
    layout = replace(table.layout, schema=now.schema, partition_by=now.partition_by)
    fields = list(layout.file_schema)
    files, folder = table.location.filesystem()
    parts = []
    for file in group:
        with files.open_input_file(f"{folder}/{file.path}") as stream:
            parts.append(_with_fields(pq.read_table(stream), fields))
    rows = pa.concat_tables(parts)
    if rows.num_rows != sum(file.rows for file in group):
        raise StoreUnavailable(
            f"{len(group):,} files of {table.location} hold {rows.num_rows:,} rows, and the log says"
            f" {sum(file.rows for file in group):,}; nothing was changed: check the storage, and start again"
        )
    if layout.order:
        rows = rows.sort_by([(name, "ascending") for name in layout.order])
    for name, value in group[0].partition.items():
        wanted = now.schema.field(name)
        rows = rows.append_column(wanted, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows).cast(wanted.type))
    yield from write_sorted(iter([rows]), layout, table.write_location, f"{layout.name}-merged")


def _with_fields(rows: pa.Table, fields: Sequence[Any]) -> pa.Table:
    """The rows with these columns; those that a file has not are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in fields
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _key(file: DataFile) -> tuple[tuple[str, str], ...]:
    return tuple((name, value or "") for name, value in sorted(file.partition.items()))
