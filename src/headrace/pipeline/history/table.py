"""Opens the table of a history: its layout, how far it is, its rows as a DataFrame, and its small files merged."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.limits import TABLE_SMALL_BYTES
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.source.schema import JOURNAL, JOURNAL_PAYLOADS
from headrace.pipeline.storage.compact import Compacted, Progress, compact_table
from headrace.pipeline.storage.layout import Condition, Layout, TableVersion
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, Form, open_log, open_table

if TYPE_CHECKING:  # a command looks at a history before it waits for Spark to load
    from pyspark.sql import DataFrame, SparkSession

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


VERSION = 1
APP = "headrace-history"
"""The application whose batches are the transactions of the table."""


class HistoryState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the transaction of a batch says besides its files. A new run begins here."""

    v: int = VERSION
    batch: int = -1
    """The last one."""
    events: int = 0
    skipped: int = 0
    """Events that were dropped before they were read."""
    lost: int = 0
    """Events that are in the history and that the store no longer knows."""
    shards: dict[str, Mark] = {}
    """The last event of each journal, by `tenant/queue/shard`."""


def read_state(folder: str | Path | Location) -> HistoryState | None:
    """The state of the history in a folder; None when there is none."""
    location = Location.parse(folder)
    now = open_log(location).load()
    if now is None:
        return None
    stored = now.state(APP)
    if stored is None:
        return HistoryState()
    try:
        state = msgspec.convert(stored, HistoryState)
    except msgspec.ValidationError:
        state = None
    if state is None or state.v != VERSION:
        raise BadConfig(
            f"the history in {location} was written by another version of Headrace and cannot be read; use the version"
            " that wrote it, or a new folder"
        )
    return state


def read_history(
    spark: "SparkSession", folder: str | Path | Location, *, where: Sequence[Condition] = ()
) -> "DataFrame":
    """The events of the history in a folder: the journal's columns, `day`, `batch`, and `payload` and `result` if it
    has them.

    `where` are conditions such as `("day", "=", "2030-01-31")` or `("batch", ">", 17)`: only files that may hold such
    events are opened. Later filters on `day` skip folders, and on other columns row groups. What is added later is seen
    by who reads again.
    """
    from headrace.pipeline.storage.read import read_version

    location, now = open_newest(folder)
    return read_version(spark, location, now, (), where)


def history_files(folder: str | Path | Location, *, where: Sequence[Condition] = ()) -> list[str]:
    """The paths or URLs of the files that hold the events now, for engines that read Parquet and no table format."""
    location, now = open_newest(folder)
    return [str(location.child(file.path)) for file in now.files(where)]


def open_newest(folder: str | Path | Location) -> tuple[Location, TableVersion]:
    """The folder of a history and its newest version; `BadConfig` when there is none."""
    location = Location.parse(folder)
    now = open_log(location).load()
    if now is None:
        raise BadConfig(
            f"there is no history in {location}; check the path, or write one with headrace pipeline history"
        )
    return location, now


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def compact(
    folder: str | Path | Location,
    *,
    until_day: str | None = None,
    small_bytes: int = TABLE_SMALL_BYTES,
    on_progress: Progress | None = None,
) -> Compacted:
    """Merge the files of each day that are smaller than `small_bytes`, and say how many there were and are.

    The history may be written and read meanwhile: each merge is one transaction of the table. `until_day` (2030-01-31)
    leaves later days alone. Stopped anywhere, it leaves nothing wrong behind. Files that were merged go after a week,
    and those that failed runs have left; the form parquet drops them at once.
    """
    if until_day is not None and not _DAY.fullmatch(until_day):
        raise BadConfig(f"until_day is {until_day!r}; give a day such as 2030-01-31")
    table = history_table(folder)
    if table.version() is None:
        raise BadConfig(f"there is no history in {table.location}; check the path")
    until: list[Condition] = [] if until_day is None else [("day", "<=", until_day)]
    done = compact_table(table, where=until, small_bytes=small_bytes, on_progress=on_progress)
    table.vacuum()
    return done
