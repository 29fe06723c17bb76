"""Puts staged files into place under names that stay the same however often a batch is run."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.pipeline.files import locked, sync_file, sync_folder
from headrace.pipeline.history import layout, steps

_THREADS = 8
"""Disks take several requests at once, and a file waits for its disk."""


def place(folder: Path, files: Sequence[Path], batch: int) -> list[Path]:
    """Move staged files into the history, safe on disk, and say where they are now."""
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(sync_file, files))
    placed = []
    # Shared with other writers, never with who exchanges the folders that files are put into.
    with locked(folder / layout.LOCK, shared=True):
        for file in files:
            steps.reached("placing", batch)
            leaf = folder / file.parent.parent.name / file.parent.name
            leaf.mkdir(parents=True, exist_ok=True)
            placed.append(leaf / layout.batch_name(batch))
            file.replace(placed[-1])
        changed = {file.parent for file in placed}
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(sync_folder, {folder, *changed, *(leaf.parent for leaf in changed)}))
    return placed


def remove_leftovers(folder: Path, batch: int) -> None:
    """Remove what an earlier run has placed of a batch that it did not finish: planned anew, it may be another."""
    with locked(folder / layout.LOCK, shared=True):
        for leaf in layout.leaves(folder):
            (leaf / layout.batch_name(batch)).unlink(missing_ok=True)
