"""Keeps the log of a table on a local disk as one manifest file, where the package deltalake is not wanted."""

import base64
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace as changed

from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.pipeline.files import locked, sync_folder, write_whole
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.layout import Batch, DataFile, Layout, TableVersion
from headrace.pipeline.storage.location import Location

MANIFEST = "_table.json"
STAGING = "_staging"
_LOCK = "_lock"
VERSION = 1


class Manifest(Struct, frozen=True, kw_only=True):
    """What the manifest says: the files that count, and the last batch of each application with its state."""

    v: int = VERSION
    id: str
    name: str
    number: int = 0
    arrow_schema: str
    partition_by: tuple[str, ...]
    batches: dict[str, int] = {}
    states: dict[str, Any] = {}
    files: tuple[DataFile, ...] = ()


class ParquetLog:
    """The log in `_table.json`: tasks write to `_staging`, and a commit moves files into place, then writes it anew.

    Readers of the manifest see a commit whole. Others that list the folder see the moments in between, and what a
    killed run has moved until the next run or compaction removes it.
    """

    form: steps.Form = "parquet"

    def __init__(self, location: Location) -> None:
        self._folder = location.path
        self.write_location = location.child(STAGING)

    def create(self, layout: Layout) -> None:
        """Make the table unless it is there, add the columns that it lacks, and remove what killed runs have left."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            old = self._read()
            if old is None:
                self._write(
                    Manifest(
                        id=secrets.token_hex(16),
                        name=layout.name,
                        arrow_schema=_text(layout.schema),
                        partition_by=layout.partition_by,
                    )
                )
                return
            known = _schema(old.arrow_schema)
            missing = [field for field in layout.schema if field.name not in known.names]
            if missing:
                self._write(changed(old, arrow_schema=_text(pa.schema([*known, *missing]))))
            self._remove_orphans(old)

    def load(self, number: int | None = None) -> TableVersion | None:
        """The newest version; older ones are not kept. None when there is no table."""
        found = self._read()
        if found is None or number not in (None, found.number):
            return None
        return TableVersion(
            id=found.id,
            number=found.number,
            schema=_schema(found.arrow_schema),
            partition_by=found.partition_by,
            data_files=found.files,
            find_batch=found.batches.get,
            find_state=found.states.get,
        )

    def commit(
        self,
        files: Sequence[DataFile],
        replace: Sequence[DataFile],
        batch: Batch | None,
        state: Any,
        *,
        is_change: bool,  # noqa: ARG002  (a manifest does not say why)
    ) -> None:
        """Move files into place, say so in the manifest, and remove those that they replace."""
        number = 0 if batch is None else batch[1]
        with self._alone():
            old = self._read()
            if old is None:
                raise BadConfig(f"the table in {self._folder} was removed while it was written; start again")
            gone = {file.path for file in replace}
            if gone - {file.path for file in old.files}:
                raise steps.Conflict(f"another run has replaced files of {self._folder} meanwhile; start again")
            batches, states = dict(old.batches), dict(old.states)
            if batch is not None:
                app, number = batch
                if batches.get(app, number - 1) >= number:
                    raise steps.Conflict(
                        f"batch {number:,} of {app} is in {self._folder} already (the last is {batches[app]:,}):"
                        " another run writes there; let it end, then start again"
                    )
                batches[app], states[app] = number, msgspec.to_builtins(state)
            for file in files:
                target = self._folder / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                (self.write_location.path / file.path).replace(target)
                steps.crash_point("placing", number)
            for folder in {parent for file in files for parent in (self._folder / file.path).parents}:
                if folder.is_relative_to(self._folder):
                    sync_folder(folder)
            steps.crash_point("placed", number)
            kept = [file for file in old.files if file.path not in gone]
            fresh = tuple(changed(file, summary=None) for file in files)
            self._write(changed(old, number=old.number + 1, batches=batches, states=states, files=(*kept, *fresh)))
            steps.crash_point("noted", number)
            for path in gone:
                (self._folder / path).unlink(missing_ok=True)

    def vacuum(self, hours: int) -> int:
        """Remove what killed runs have left, in place and hours ago staged, and say how many files."""
        staged = self.write_location.path.rglob("*.parquet") if self.write_location.path.is_dir() else []
        until_s = SystemClock().now_ms() / 1_000 - hours * 3_600
        with self._alone():
            old = self._read()
            stale = [file for file in staged if file.stat().st_mtime < until_s]
            for file in stale:
                file.unlink()
            return len(stale) + (0 if old is None else self._remove_orphans(old))

    def _remove_orphans(self, old: Manifest) -> int:
        known = {file.path for file in old.files}
        glob = "*=*/" * len(old.partition_by) + f"{old.name}-*.parquet"
        orphans = [file for file in self._folder.glob(glob) if file.relative_to(self._folder).as_posix() not in known]
        for file in orphans:
            file.unlink()
        return len(orphans)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with locked(self._folder / _LOCK):
            yield

    def _read(self) -> Manifest | None:
        file = self._folder / MANIFEST
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            found = None
        if found is None or found.v != VERSION:
            raise BadConfig(
                f"{file} was written by another version of Headrace and cannot be read; use the version that wrote it,"
                " or a new folder"
            )
        return found

    def _write(self, manifest: Manifest) -> None:
        write_whole(self._folder / MANIFEST, msgspec.json.encode(manifest))


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
