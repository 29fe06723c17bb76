"""Where everything lies in the folder of a history; what begins with an underscore is not seen by readers."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.model.errors import BadConfig

GLOB = "day=*/queue=*/*.parquet"
"""All files of events, for any engine that reads Parquet."""
STATE = "_state.json"
LOCK, WRITING, COMPACTING_LOCK = "_lock", "_writing", "_compacting.lock"
CHECKPOINT, STAGING, COMPACTING, DELTA_LOG = "_checkpoint", "_staging", "_compacting", "_delta_log"

_BATCH = re.compile(r"batch-(\d{9,})(?:-(\d{9,}))?\.parquet")
_PATTERNS = re.compile(r"[*?\[\]{}\\]")


def batch_name(batch: int) -> str:
    """The file of a batch in a leaf folder: always the same, so that a batch that is run again overwrites itself."""
    return f"batch-{batch:09d}.parquet"


def merged_name(first: int, last: int) -> str:
    """The file that several batches of a leaf folder were merged into."""
    return f"batch-{first:09d}-{last:09d}.parquet"


def batches_of(name: str) -> tuple[int, int] | None:
    """The first and the last batch that a file holds; None for a file that is none of ours."""
    found = _BATCH.fullmatch(name)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def history_folder(folder: str | Path) -> Path:
    """The folder as an absolute path; refuses what is no path that all processes of Spark see as a folder."""
    if "://" in str(folder):
        raise BadConfig(
            f"the history needs a folder, and {str(folder)!r} is a URL; mount it where the driver and all executors see"
            " it under the same path, and give that path"
        )
    path = Path(folder).expanduser().absolute()
    if _PATTERNS.search(str(path)):
        raise BadConfig(f"the folder {str(path)!r} holds one of * ? [ ] {{ }} \\, which Spark takes for a pattern")
    return path


def spark_path(path: Path) -> str:
    """A path as Spark is to take it, whatever its default file system is."""
    return f"file://{path}"


def leaves(folder: Path) -> Iterator[Path]:
    """The folders of days and queues."""
    for day in _folders(folder, "day="):
        yield from _folders(day, "queue=")


def _folders(folder: Path, prefix: str) -> Iterator[Path]:
    with os.scandir(folder) as found:
        names = sorted(each.name for each in found if each.name.startswith(prefix))
    for name in names:
        yield folder / name
