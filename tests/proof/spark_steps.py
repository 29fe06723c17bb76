"""The steps of a batch of the history, reported by the history itself, and Spark's steps between them, by its files."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from headrace.pipeline.history.run import CHECKPOINT
from headrace.pipeline.history.table import history_table
from headrace.pipeline.storage import table
from headrace.pipeline.storage.location import Location

STORAGE_STEPS = ("begun", "written", "checked", "committed", "advanced")
"""Begun: Spark hands over a batch. Written: its files are, by the tasks. Checked: what they hold is right. Committed:
the table has them, and the consumer is where it was. Advanced: it has moved, and Spark has not committed."""
STEPS = (STORAGE_STEPS[0], "writing", *STORAGE_STEPS[1:], "over")
"""On a disk, besides: Writing: the tasks are at it. Over: Spark has committed."""
PARQUET_STEPS = (*STEPS[:4], "placing", "placed", "noted", *STEPS[4:])
"""Placing: a file was moved, others are not. Placed: all are. Noted: the manifest says so, and files that were replaced
are there."""
LOOK_S = 0.002

Tell = Callable[[str, int], None]


class Steps:
    """Reports each step of each batch, in the thread of the batch."""

    def __init__(self, location: Location, tell: Tell) -> None:
        self._location = location
        self._tell = tell
        self._last = ("", -1)

    def watch(self) -> None:
        """Begin."""
        table.crash_point = self._reached
        if self._location.is_local:
            threading.Thread(target=self._look_at_files, daemon=True).start()

    def _reached(self, step: str, batch: int) -> None:
        self._last = (step, batch)
        self._tell(step, batch)

    def _look_at_files(self) -> None:
        written = history_table(self._location).write_location.path
        left = _files(written)  # what a life before this one has written
        commits = self._location.path / CHECKPOINT / "commits"
        committed: set[str] = set()
        while True:
            time.sleep(LOOK_S)
            step, batch = self._last
            if step == "begun" and _files(written) - left and self._last == (step, batch):
                self._last = ("writing", batch)
                self._tell("writing", batch)
            elif step != "begun":
                left = _files(written) if step == "committed" else left
            numbers = {path.name for path in commits.iterdir() if path.name.isdigit()} if commits.exists() else set()
            if numbers - committed:
                committed = numbers
                self._tell("over", batch)


def _files(folder: Path) -> set[Path]:
    try:
        return set(folder.rglob("*.parquet"))
    except FileNotFoundError:  # a folder that was removed meanwhile
        return set()
