"""Keeps refused rows: each task writes a file, which readers see once the write has ended."""

import os
import secrets
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.errors import BadConfig
from headrace.model.limits import REFUSED_BYTES_BUFFERED, REFUSED_ROWS_BUFFERED
from headrace.pipeline.files import exchange, sync_folder

TASKS = "_tasks"
"""The folder of the tasks; readers of Parquet skip names that begin with an underscore."""
_NAME_CHARS_MAX = 180
"""Of a folder's name with room for a prefix and a suffix: file systems allow 255 bytes."""
_WHOLES = (
    "delay_ms",
    "priority",
    "timeout_ms",
    "max_attempts",
    "max_stalls",
    "backoff_ms",
    "backoff_ms_max",
    "result_ttl_ms",
)
_INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("reason", "sentence", "kind", "payload", "id", "key", "queue", "tenant")]
    + [("run_at", _INSTANT), ("expires_at", _INSTANT)]
    + [(name, pa.int64()) for name in _WHOLES]
    + [("tag", pa.string()), ("headers", pa.map_(pa.string(), pa.string()))]
)
"""The columns of a kept row: the reason of the refusal and the row, its payload as text."""
Row = dict[str, Any]


class RejectWriter:
    """Writes the refused rows of one attempt of a task; the file counts only if the attempt reports it to the
    driver."""

    def __init__(self, folder: str, run: str) -> None:
        self._folder = Path(folder) / TASKS
        self._name = f"{run_name(run)}@{secrets.token_hex(8)}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[Row] = []
        self._bytes = 0

    def add(self, row: Row) -> None:
        """Keep a row of `SCHEMA`."""
        self._rows.append(row)
        self._bytes += len(row.get("payload") or "") + len(row["sentence"])
        if len(self._rows) >= REFUSED_ROWS_BUFFERED or self._bytes >= REFUSED_BYTES_BUFFERED:
            self._flush()

    def close(self) -> str | None:
        """Sync the file to disk and return its name; None if no row was refused."""
        if self._rows:
            self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        return self._name

    def drop(self) -> None:
        """Delete the file: the task has failed."""
        if self._writer is not None:
            self._writer.close()
            self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return self._folder / self._name

    def _flush(self) -> None:
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, SCHEMA, compression="zstd")
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=SCHEMA))
        self._rows, self._bytes = [], 0


def run_name(run: str) -> str:
    """The id of a run as part of a path."""
    name = quote(run, safe="")
    return name if len(name) <= _NAME_CHARS_MAX else blake2b(run.encode(), digest_size=16).hexdigest()


def run_folder(folder: str, run: str) -> Path:
    """The folder of the refused rows of a run."""
    return Path(folder) / f"run={run_name(run)}"


def settle_refused(folder: str, run: str, names: Sequence[str]) -> str | None:
    """Move the files of successful attempts into the folder of the run in one step, and delete the others.

    Replaces the files of an earlier end of the same run: a batch of a stream may end twice. Returns the folder; None if
    no row was refused.
    """
    tasks, target = Path(folder) / TASKS, run_folder(folder, run)
    if not names:
        _drop(target)
        clear_refused(folder, run)
        return None
    fresh = tasks / f"{run_name(run)}.new"
    _drop(fresh)
    if not all((tasks / name).is_file() for name in names):
        raise BadConfig(
            f"refused rows that tasks wrote to {tasks} are missing; set option refusedDir to a folder that the"
            " driver and all executors see under the same path"
        )
    fresh.mkdir()
    for at, name in enumerate(names):
        (tasks / name).rename(fresh / f"part-{at:05}-{name.rpartition('@')[2]}")
    sync_folder(fresh)
    if target.exists():
        exchange(fresh, target)
        _drop(fresh)
    else:
        fresh.rename(target)
    sync_folder(target.parent)
    clear_refused(folder, run)
    return str(target)


def clear_refused(folder: str, run: str) -> None:
    """Delete the files of failed attempts of a run."""
    tasks = Path(folder) / TASKS
    if not tasks.is_dir():
        return
    for file in tasks.iterdir():
        if file.name.startswith(f"{run_name(run)}@"):
            file.unlink(missing_ok=True)


def _drop(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
