"""Says how a table lies in files: its columns, the partitions, the order of rows, and what is known of each file."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.times import iso_text
from headrace.model.validate import bounded_repr

Op = Literal["=", "<", "<=", ">", ">=", "in"]
Condition = tuple[str, Op, Any]
"""A column, how it compares, and the value; `in` takes a list. Rows without a value meet none."""
Batch = tuple[str, int]
"""An application and the number of what it commits: each number once."""

NULL = "__HIVE_DEFAULT_PARTITION__"
_SAFE = re.compile(r"[A-Za-z0-9._-]+")


class Layout(Struct, frozen=True):
    """What a table is like."""

    name: str
    """Begins the names of its files."""
    schema: Any
    """Arrow's, of all columns; instants as timestamp[us, UTC]."""
    partition_by: tuple[str, ...] = ()
    """Columns whose values are folders, `day=2030-01-31`, and not in the files."""
    order: tuple[str, ...] = ()
    """Of the rows in each file."""
    stats: tuple[str, ...] = ()
    """Columns of which the log holds the least and the greatest value of each file."""
    bloom: tuple[str, ...] = ()
    """Columns with Bloom filters: engines skip row groups that lack a value."""
    log_hours: int = 24
    """How long the log keeps commits: each opening lists them, and a live query makes thousands an hour."""

    @property
    def file_schema(self) -> Any:
        """The columns that are in the files."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])

    def folder(self, partition: Mapping[str, str | None]) -> str:
        """Where the files of these partition values lie; empty for a table without partitions."""
        return "".join(f"{name}={_folder_value(name, partition[name])}/" for name in self.partition_by)


class DataFile(Struct, frozen=True, kw_only=True):
    """A file of a table, as the log knows it. Values are texts, numbers and truths; days and instants are ISO 8601."""

    path: str
    """Within the table's folder."""
    size: int
    rows: int
    partition: dict[str, str | None] = {}
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    summary: Any = None
    """What `summarize` said of its rows when it was written; not kept in the log."""


class TableVersion(Struct, frozen=True, kw_only=True):
    """A table as of one commit."""

    id: str
    """Another one for each table that is made, also in a folder where one was before."""
    number: int
    schema: Any
    """Arrow's, of all columns."""
    partition_by: tuple[str, ...]
    data_files: tuple[DataFile, ...]
    find_batch: Callable[[str], int | None]
    find_state: Callable[[str], Any]

    def files(self, where: Sequence[Condition] = ()) -> list[DataFile]:
        """The files that may hold rows for which all conditions hold; on partition columns this is exact."""
        conditions = [(column, op, plain_values(value)) for column, op, value in where]
        return [file for file in self.data_files if all(_may_meet(file, *condition) for condition in conditions)]

    def batch(self, app: str) -> int | None:
        """The last batch that an application has committed; None when there is none."""
        return self.find_batch(app)

    def state(self, app: str) -> Any:
        """What the application committed with its last batch, as JSON holds it; None when there is nothing."""
        return self.find_state(app)


def plain_values(value: Any) -> Any:
    """The value of a condition, or each of its values, as statistics hold them."""
    return [iso_text(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else iso_text(value)


def _may_meet(file: DataFile, column: str, op: Op, value: Any) -> bool:
    if column in file.partition:
        low = high = file.partition[column]
        if low is None:
            return False
    else:
        low, high = file.lows.get(column), file.highs.get(column)
        if low is None or high is None:
            # Nothing is known of it, unless that all of its values are missing.
            return file.nulls.get(column) != file.rows
    return _overlaps(low, high, op, value)


def _overlaps(low: Any, high: Any, op: Op, value: Any) -> bool:
    match op:
        case "=":
            return bool(low <= value <= high)
        case "in":
            return any(low <= each <= high for each in value)
        case "<":
            return bool(low < value)
        case "<=":
            return bool(low <= value)
        case ">":
            return bool(high > value)
        case ">=":
            return bool(high >= value)


def _folder_value(name: str, value: str | None) -> str:
    if value is None:
        return NULL
    if not _SAFE.fullmatch(value):
        raise BadConfig(
            f"partition column {name} holds {bounded_repr(value)}, which is not a valid folder name; partition by a"
            " column of letters, digits, '.', '-' and '_'"
        )
    return value
