"""Merges Parquet files of a history into one, in bounded memory."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.errors import StoreUnavailable
from headrace.model.limits import HISTORY_GROUP_BYTES, HISTORY_GROUP_ROWS
from headrace.pipeline.history.staging import ORDER

_PAGE_ROWS = 16_384


def merge(files: Sequence[Path], target: Path) -> None:
    """Write the rows of all files to `target`, safe on disk.

    Files come in the order of their batches. Rows are put in order within each group of rows, and groups follow in the
    order of time, so that statistics of groups still tell engines what to skip.
    """
    footers = [pq.read_metadata(file) for file in files]
    schema = pa.unify_schemas([footer.schema.to_arrow_schema().remove_metadata() for footer in footers])
    wanted, written = sum(footer.num_rows for footer in footers), 0
    with pq.ParquetWriter(target, schema, compression="zstd", store_schema=False) as writer:
        for rows in _groups(files, schema):
            writer.write_table(rows.sort_by([(name, "ascending") for name in ORDER]), row_group_size=HISTORY_GROUP_ROWS)
            written += rows.num_rows
    if written != wanted:
        raise StoreUnavailable(
            f"{len(files):,} files of {files[0].parent} hold {wanted:,} events, and {written:,} were read; nothing was"
            " changed: check the disk, and start again"
        )
    handle = os.open(target, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _groups(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    pages: list[pa.Table] = []
    rows = size = 0
    for file in files:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_PAGE_ROWS):
                pages.append(_as(pa.Table.from_batches([batch]), schema))
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows + _PAGE_ROWS > HISTORY_GROUP_ROWS or size > HISTORY_GROUP_BYTES:
                    yield pa.concat_tables(pages)
                    pages, rows, size = [], 0, 0
    if pages:
        yield pa.concat_tables(pages)


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of the schema; what a file has not (payloads) is null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
