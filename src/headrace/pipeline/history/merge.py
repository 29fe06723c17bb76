"""Merges Parquet files of a history into one, in bounded memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.errors import StoreUnavailable
from headrace.model.limits import HISTORY_GROUP_BYTES, HISTORY_GROUP_ROWS
from headrace.pipeline.files import sync_file
from headrace.pipeline.history.staging import ORDER

_PAGE_ROWS = 16_384
_PAGES_MIN = 8
"""In a group of rows that is bounded by its size; as many are read at once as a file says that they take."""


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
    sync_file(target)


def _groups(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    pages: list[pa.Table] = []
    rows = size = 0
    for page in _pages(files):
        if pages and (rows + page.num_rows > HISTORY_GROUP_ROWS or size + page.nbytes > HISTORY_GROUP_BYTES):
            yield pa.concat_tables(pages)
            pages, rows, size = [], 0, 0
        pages.append(_as(page, schema))
        rows, size = rows + page.num_rows, size + page.nbytes
    if pages:
        yield pa.concat_tables(pages)


def _pages(files: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of files, few at a time where they are large: a page of payloads could be more than a machine has."""
    for file in files:
        with pq.ParquetFile(file) as opened:
            for number in range(opened.num_row_groups):
                group = opened.metadata.row_group(number)
                row_bytes = group.total_byte_size / max(group.num_rows, 1)
                rows = int(min(_PAGE_ROWS, HISTORY_GROUP_BYTES / _PAGES_MIN / max(row_bytes, 1)))
                for batch in opened.iter_batches(max(rows, 1), row_groups=[number]):
                    yield pa.Table.from_batches([batch])


def _as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of the schema; what a file has not (payloads) is null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
