"""Merges the small files of a history beside its readers and its writer."""

import re
from pathlib import Path

from headrace.model.errors import BadConfig
from headrace.model.limits import TABLE_SMALL_BYTES
from headrace.pipeline.history.layout import history_table
from headrace.pipeline.storage.compact import Compacted, Progress, compact_table
from headrace.pipeline.storage.layout import Condition
from headrace.pipeline.storage.location import Location

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
