"""Merges the small files of a history beside a running writer: readers see the old files or the new, never both."""

import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.model.errors import BadConfig
from headrace.model.limits import HISTORY_SMALL_BYTES
from headrace.pipeline.files import exchange, exclusive, locked, sync_folder
from headrace.pipeline.history import layout, steps
from headrace.pipeline.history.merge import merge
from headrace.pipeline.history.state import HistoryState, read_state
from headrace.pipeline.storage.compact import Compacted

_COMPACTED = "compacted.parquet"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
Progress = Callable[[int, int], None]
"""How many folders of days and queues are done, of how many."""


def compact(
    folder: str | Path,
    *,
    until_day: str | None = None,
    small_bytes: int = HISTORY_SMALL_BYTES,
    on_progress: Progress | None = None,
) -> Compacted:
    """Merge the files of each day and queue that are smaller than `small_bytes`, and say how many files are left.

    The history may be written and read meanwhile. A reader that has listed files before their folder was exchanged may
    find one gone: it fails, and reads right when it is run again. `until_day` (2030-01-31) leaves later days alone.
    Stopped anywhere, it leaves nothing wrong behind.
    """
    home = layout.history_folder(folder)
    if until_day is not None and not _DAY.fullmatch(until_day):
        raise BadConfig(f"until_day is {until_day!r}; give a day such as 2030-01-31")
    state = read_state(home)
    if state is None:
        raise BadConfig(f"there is no history in {home}; check the path")
    with exclusive(home / layout.COMPACTING_LOCK, f"another run compacts the history in {home}; let it end"):
        if state.form == "delta":
            from headrace.pipeline.history.delta import compact_table

            return compact_table(home, until_day, small_bytes)
        return _compact_files(home, state, until_day, small_bytes, on_progress or _silent)


def _compact_files(
    home: Path, state: HistoryState, until_day: str | None, small_bytes: int, on_progress: Progress
) -> Compacted:
    done = Compacted()
    # What a killed run has left.
    shutil.rmtree(home / layout.COMPACTING, ignore_errors=True)
    leaves = [leaf for leaf in layout.leaves(home) if until_day is None or _day(leaf) <= until_day]
    for number, leaf in enumerate(leaves, 1):
        groups = _groups(leaf, state.batch, small_bytes)
        if groups:
            _compact_leaf(home, leaf, groups, done)
        on_progress(number, len(leaves))
    return done


def _groups(leaf: Path, last_batch: int, small_bytes: int) -> list[list[Path]]:
    """The files of a folder that are to become one each: neighbours, small ones, of batches that are in place."""
    found = [(batches, file) for file in leaf.iterdir() if (batches := layout.batches_of(file.name))]
    groups: list[list[Path]] = [[]]
    size = 0
    for file in [file for (_, last), file in sorted(found) if last <= last_batch]:
        file_bytes = file.stat().st_size
        if file_bytes >= small_bytes or size >= small_bytes:
            groups.append([])
            size = 0
        if file_bytes < small_bytes:
            groups[-1].append(file)
            size += file_bytes
    return [group for group in groups if len(group) > 1]


def _compact_leaf(home: Path, leaf: Path, groups: list[list[Path]], done: Compacted) -> None:
    fresh = home / layout.COMPACTING / secrets.token_hex(8) / leaf.name
    fresh.mkdir(parents=True)
    for group in groups:
        ranges = [batches for file in group if (batches := layout.batches_of(file.name))]
        target = fresh / layout.merged_name(ranges[0][0], ranges[-1][1])
        merge(group, target)
        done.bytes_before += sum(file.stat().st_size for file in group)
        done.bytes_after += target.stat().st_size
    steps.reached("merged", 0)
    merged = {file.name for group in groups for file in group}
    # Alone: nobody puts a file into the folder between the look at it and the exchange.
    with locked(home / layout.LOCK):
        for file in leaf.iterdir():
            if file.name not in merged:
                (fresh / file.name).hardlink_to(file)
        steps.reached("linked", 0)
        sync_folder(fresh)
        exchange(fresh, leaf)
        steps.reached("exchanged", 0)
        sync_folder(leaf.parent)
    _empty(fresh)
    done.folders += 1
    done.files_before += len(merged)
    done.files_after += len(groups)


def _empty(old: Path) -> None:
    """Remove the files that were merged; they lie where the new ones were made.

    A reader may have opened the folder before the exchange and list it only now. So that it does not take it for an
    empty one, a name stays that it will not find in the new folder, and fails over; the next run removes it.
    """
    mark = old / _COMPACTED
    mark.touch()
    for file in old.iterdir():
        if file != mark:
            file.unlink()


def _day(leaf: Path) -> str:
    return leaf.parent.name.removeprefix("day=")


def _silent(done: int, of: int) -> None:
    pass
