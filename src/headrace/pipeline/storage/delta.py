"""Keeps the log of a table as Delta's: any engine reads it, and two commits of one batch exclude each other."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from msgspec import Struct

from headrace.model.clock import SystemClock
from headrace.model.errors import StoreUnavailable
from headrace.model.times import iso_text
from headrace.pipeline.files import sync_file, sync_folder
from headrace.pipeline.storage.layout import Batch, DataFile, Layout, TableVersion
from headrace.pipeline.storage.location import Location, storage_errors
from headrace.pipeline.storage.table import Conflict, Form

NOTE = "headrace"
"""The key of our part of a commit's information."""
_STATES = "_states"
_INLINE_MAX = 16 * 1024
"""Bytes of a state within a commit: a larger one is a file of its own, since logs keep every commit for days."""
_RECENT = 20
_COMMITS_MAX = 1_000
"""Commits that are looked through for a state: other tools add some when they compact."""


class CommitNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit of ours says besides its files."""

    app: str
    batch: int
    state: Any = None
    file: str | None = None
    """Where the state is instead."""
    file_before: str | None = None
    """Where the state before was: a reader of the version before may still open it."""


class DeltaLog:
    """The log in `_delta_log`."""

    form: Form = "delta"

    def __init__(self, location: Location) -> None:
        self._location = location
        self.write_location = location

    def create(self, layout: Layout) -> None:
        """Make the table unless it is there, and add the columns that it lacks."""
        with storage_errors(self._location):
            table = self._open()
            if table is None:
                DeltaTable.create(
                    self._location.url,
                    layout.schema,
                    mode="ignore",
                    partition_by=list(layout.partition_by),
                    name=layout.name,
                    configuration={
                        "delta.logRetentionDuration": f"interval {layout.log_hours} hours",
                        # A reader would take a column that it expects statistics of, and that has none, for empty.
                        "delta.dataSkippingStatsColumns": ",".join(layout.stats),
                    },
                    storage_options=self._location.storage_options(),
                )
                self._sync(-1)
                return
            known = {field.name for field in table.schema().fields}
            missing = [field for field in layout.schema if field.name not in known]
            if missing:
                before = table.version()
                table.alter.add_columns([Field.from_arrow(field) for field in missing])
                self._sync(before)

    def load(self, number: int | None = None) -> TableVersion | None:
        """The newest version, or the one of this number; None when there is no table."""
        with storage_errors(self._location):
            table = self._open(number)
            if table is None:
                return None
            return TableVersion(
                id=str(table.metadata().id),
                number=table.version(),
                schema=_plain_schema(table),
                partition_by=tuple(table.metadata().partition_columns),
                data_files=tuple(_files(table)),
                find_batch=table.transaction_version,
                find_state=lambda app: self._state(table, app),
            )

    def commit(
        self,
        files: Sequence[DataFile],
        replace: Sequence[DataFile],
        batch: Batch | None,
        state: Any,
        *,
        is_change: bool,
    ) -> None:
        """Add and drop files in one transaction of the table."""
        with storage_errors(self._location):
            table = self._open()
            if table is None:
                raise StoreUnavailable(f"the table in {self._location} was removed while it was written; start again")
            # Without a batch, the last note again: the log may drop the commit that has it.
            note, obsolete = (_newest_note(table), None) if batch is None else self._note(table, batch, state)
            present = {file.path for file in _files(table)} if replace else set()
            if any(file.path not in present for file in replace):
                raise Conflict(f"another run has replaced files of {self._location} meanwhile; start again")
            before = table.version()
            try:
                table.create_write_transaction(
                    [*(_remove(file, is_change) for file in replace), *(_add(file, is_change) for file in files)],
                    "append",
                    table.schema(),
                    table.metadata().partition_columns,
                    commit_properties=CommitProperties(
                        custom_metadata=None if note is None else {NOTE: note},
                        app_transactions=None if batch is None else [Transaction(*batch)],
                    ),
                )
            except CommitFailedError as error:
                raise Conflict(
                    f"another run has committed to {self._location} meanwhile ({error}); start again"
                ) from None
            self._sync(before)
            if obsolete is not None:
                files_of, folder = self._location.filesystem()
                files_of.delete_file(f"{folder}/{obsolete}")

    def vacuum(self, hours: int) -> int:
        """Remove files that no version of the last hours needs, orphans among them, and say how many."""
        with storage_errors(self._location):
            table = self._open()
            if table is None:
                return 0
            return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True))

    def _open(self, number: int | None = None) -> DeltaTable | None:
        try:
            return DeltaTable(self._location.url, version=number, storage_options=self._location.storage_options())
        except TableNotFoundError:
            return None

    def _note(self, table: DeltaTable, batch: Batch, state: Any) -> tuple[str, str | None]:
        """What a commit is to say, and the file of a state that nobody needs after it."""
        app, number = batch
        last = table.transaction_version(app)
        if last is not None and last >= number:
            raise Conflict(
                f"batch {number:,} of {app} is in {self._location} already (the last is {last:,}): another run writes"
                " there; let it end, then start again"
            )
        before = None if last is None else self._last_note(table, app, last)
        file = before.file if before is not None else None
        obsolete = before.file_before if before is not None else None
        encoded = msgspec.json.encode(state)
        if len(encoded) <= _INLINE_MAX:
            return _text(CommitNote(app=app, batch=number, state=state, file_before=file)), obsolete
        fresh = f"{_STATES}/{app}-{number:09d}-{secrets.token_hex(8)}.json"
        files, folder = self._location.filesystem()
        files.create_dir(f"{folder}/{_STATES}")
        with files.open_output_stream(f"{folder}/{fresh}") as stream:
            stream.write(encoded)
        if self._location.is_local:
            sync_file(self._location.path / fresh)
            sync_folder((self._location.path / fresh).parent)
        return _text(CommitNote(app=app, batch=number, file=fresh, file_before=file)), obsolete

    def _state(self, table: DeltaTable, app: str) -> Any:
        with storage_errors(self._location):
            last = table.transaction_version(app)
            note = None if last is None else self._last_note(table, app, last)
            if note is None or note.file is None:
                return None if note is None else note.state
            files, folder = self._location.filesystem()
            with files.open_input_stream(f"{folder}/{note.file}") as stream:
                return msgspec.json.decode(stream.read())

    def _last_note(self, table: DeltaTable, app: str, last: int) -> CommitNote:
        for commits in (1, _RECENT, _COMMITS_MAX):
            for commit in table.history(commits):
                note = msgspec.json.decode(commit[NOTE], type=CommitNote) if NOTE in commit else None
                if note is not None and (note.app, note.batch) == (app, last):
                    return note
        raise StoreUnavailable(
            f"the log of {self._location} has batch {last:,} of {app}, and the commit that says more is gone; restore"
            " the log, or use a new folder"
        )

    def _sync(self, before: int) -> None:
        """Make safe on disk what has come to a local log since this version: nobody else does."""
        if not self._location.is_local:
            return
        log = self._location.path / "_delta_log"
        number = before + 1
        while (log / f"{number:020d}.json").exists():
            sync_file(log / f"{number:020d}.json")
            number += 1
        sync_folder(log)
        sync_folder(log.parent)


def _text(note: CommitNote) -> str:
    return msgspec.json.encode(note).decode()


def _newest_note(table: DeltaTable) -> str | None:
    return next((str(commit[NOTE]) for commit in table.history(_RECENT) if NOTE in commit), None)


def _add(file: DataFile, is_change: bool) -> AddAction:
    stats = {"numRecords": file.rows, "minValues": file.lows, "maxValues": file.highs, "nullCount": file.nulls}
    text = msgspec.json.encode(stats).decode()
    return AddAction(file.path, file.size, file.partition, SystemClock().now_ms(), is_change, text)


def _remove(file: DataFile, is_change: bool) -> RemoveAction:
    return RemoveAction(file.path, is_change, SystemClock().now_ms(), file.size, file.partition)


def _files(table: DeltaTable) -> Iterator[DataFile]:
    for row in pa.table(table.get_add_actions()).to_pylist():
        lows, highs = row.get("min") or {}, row.get("max") or {}
        known = [name for name, low in lows.items() if low is not None and highs.get(name) is not None]
        yield DataFile(
            path=row["path"],
            size=row["size_bytes"],
            rows=row["num_records"],
            partition={
                name: None if value is None else str(iso_text(value))
                for name, value in (row.get("partition") or {}).items()
            },
            lows={name: iso_text(lows[name]) for name in known},
            highs={name: iso_text(highs[name]) for name in known},
            nulls={name: count for name, count in (row.get("null_count") or {}).items() if count is not None},
        )


def _plain_schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())
