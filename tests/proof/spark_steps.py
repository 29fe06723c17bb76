"""The steps of a batch of the history, reported by the history itself, and Spark's steps between them, by its files."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from headrace.pipeline.history import layout, steps

STEPS = ("begun", "staging", "staged", "checked", "placing", "placed", "noted", "advanced", "over")
"""Begun: Spark hands over a batch. Staging: its files are being written. Staged: they are. Checked: what they hold is
right. Placing: a file, not the first, is about to be put into place. Placed: all are. Noted: the state says so, and the
consumer is where it was. Advanced: it has moved, and Spark has not committed. Over: it has."""
DELTA_STEPS = (*STEPS[:6], "committed", *STEPS[6:])
"""Committed: the transaction of the table is, and the state does not know."""
LOOK_S = 0.002

Tell = Callable[[str, int], None]


class Steps:
    """Reports each step of each batch, in the thread of the batch."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self._staging = folder / layout.STAGING
        self._commits = folder / layout.CHECKPOINT / "commits"
        self._tell = tell
        self._last = ("", -1)
        self._left = set(self._staging.rglob("*.parquet"))
        """What a life before this one has left there."""

    def watch(self) -> None:
        """Begin."""
        steps.reached = self._reached
        threading.Thread(target=self._look_at_files, daemon=True).start()

    def _reached(self, step: str, batch: int) -> None:
        is_first_file = step == "placing" and self._last[0] != "placing"
        self._last = (step, batch)
        if not is_first_file:
            self._tell(step, batch)

    def _look_at_files(self) -> None:
        committed = _numbers(self._commits)
        while True:
            time.sleep(LOOK_S)
            step, batch = self._last
            if step == "begun" and self._has_files() and self._last == (step, batch):
                self._last = ("staging", batch)
                self._tell("staging", batch)
            if fresh := _numbers(self._commits) - committed:
                committed |= fresh
                self._tell("over", batch)

    def _has_files(self) -> bool:
        try:
            return any(path not in self._left for path in self._staging.rglob("*.parquet"))
        except FileNotFoundError:  # a folder that was removed meanwhile
            return False


def _numbers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()
