"""Faults to plant in the history and in tables, which the check of the proof must find."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.pipeline.storage import table
from headrace.pipeline.storage.layout import Batch, DataFile
from headrace.pipeline.storage.table import DataTable

Files = Sequence[DataFile]
Plant = Callable[[Any, str, Any], None]
"""Puts something else in place of an attribute: `setattr`, or what a test undoes afterwards."""


def append(plant: Plant) -> None:
    """The files of a batch are committed before its number and state: a batch that is run again is there twice."""

    def commit(self: DataTable, files: Files, *, replace: Files = (), batch: Batch, state: Any) -> None:
        self._log.commit(files, replace, None, None, is_change=True)
        table.crash_point("between", batch[1])
        self._log.commit([], (), batch, state, is_change=True)

    plant(DataTable, "commit", commit)


def note_too_early(plant: Plant) -> None:
    """The state says that a batch is in the table before it is: killed between the two, the batch is lost."""

    def commit(self: DataTable, files: Files, *, replace: Files = (), batch: Batch, state: Any) -> None:
        self._log.commit([], (), batch, state, is_change=True)
        table.crash_point("between", batch[1])
        self._log.commit(files, replace, None, None, is_change=True)

    plant(DataTable, "commit", commit)


FAULTS: dict[str, Callable[[Plant], None]] = {"append": append, "note_too_early": note_too_early}
