"""Says how a history lies in its table: columns, folders by day, and the order of rows."""

from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from headrace.model.errors import BadConfig
from headrace.pipeline.source.schema import JOURNAL, JOURNAL_PAYLOADS
from headrace.pipeline.storage.layout import Layout
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, Form, open_table

Split = Literal["tenant"]
ORDER = ("tenant", "queue", "shard", "seq")
"""Of the rows in a file: near to each other what is asked for together, so that engines skip the rest."""
_STATS = (*ORDER, "happened_at", "event", "id", "kind", "batch")


def history_table(
    folder: str | Path | Location, *, payloads: bool = False, form: Form | None = None, split: Split | None = None
) -> DataTable:
    """The table of the history in a folder, whether it is there or not, as it is to be written."""
    if split is not None and split not in get_args(Split):
        raise BadConfig(f"split is {split!r}; give {' or '.join(get_args(Split))}, or leave it out")
    fields = [*JOURNAL.arrow, pa.field("day", pa.date32()), pa.field("batch", pa.int64())]
    layout = Layout(
        name="history",
        schema=pa.schema([*fields, *(JOURNAL_PAYLOADS.arrow if payloads else [])]),
        partition_by=("tenant", "day") if split == "tenant" else ("day",),
        order=ORDER,
        stats=_STATS,
        bloom=("id",),
    )
    return open_table(Location.parse(folder), layout, form)
