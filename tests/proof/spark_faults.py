"""Faults to plant in the history, which the check of the proof must find."""

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.history import batch, layout, steps
from headrace.pipeline.history.place import place
from headrace.pipeline.history.state import HistoryState, write_state

Plant = Callable[[Any, str, Any], None]
"""Puts something else in place of an attribute: `setattr`, or what a test undoes afterwards."""


def append(plant: Plant) -> None:
    """Files have another name at each attempt: a batch that is run again is there twice."""
    plant(layout, "batch_name", lambda number: f"batch-{number:09d}-{secrets.token_hex(4)}.parquet")


def note_too_early(plant: Plant) -> None:
    """The state says that a batch is in place before it is: killed between the two, the batch is lost."""
    staged: list[tuple[Path, Sequence[Path], int]] = []

    def keep(folder: Path, files: Sequence[Path], number: int) -> list[Path]:
        staged.append((folder, files, number))
        return []

    def write(folder: Path, state: HistoryState) -> None:
        write_state(folder, state)
        steps.reached("noted", state.batch)
        place(*staged.pop())

    plant(batch, "place", keep)
    plant(batch, "write_state", write)


FAULTS: dict[str, Callable[[Plant], None]] = {"append": append, "note_too_early": note_too_early}
STEP_OF = {"append": "placed", "note_too_early": "noted"}
"""Where each does harm when the run stops there."""
