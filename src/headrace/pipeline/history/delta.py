"""A history as a Delta table: the same files in the same places, and each batch is one transaction of the table."""

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import BadConfig
from headrace.pipeline.files import sync_file, sync_folder
from headrace.pipeline.history.layout import DELTA_LOG
from headrace.pipeline.history.state import HistoryState
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.source.schema import JOURNAL, JOURNAL_PAYLOADS
from headrace.pipeline.storage.compact import Compacted

if TYPE_CHECKING:
    from deltalake import DeltaTable

APP = "headrace-history"
"""Whose transactions the batches are; the version of a transaction is the number of its batch."""
_NOTE = "headrace"
_PARTITIONS = ["day", "queue"]
_NOTES_MAX = 1_000
"""Commits that are looked through for the last batch: others add some when they compact."""


class _Note(Struct, frozen=True):
    """How a batch changes the state; in the transaction itself, so that no crash can part them."""

    batch: int
    events: int
    skipped: int
    lost: int
    payloads: bool
    shards: dict[str, Mark]
    gone: list[str]


def check_installed() -> None:
    """Refuse to go on without the package that writes Delta tables."""
    if find_spec("deltalake") is None:
        raise BadConfig("the form delta needs the package deltalake; install it with pip install 'headrace[delta]'")


def prepare_table(folder: Path, state: HistoryState, *, payloads: bool) -> HistoryState:
    """Make the table if it is new, and give the state as the table has it: it may be a batch ahead."""
    check_installed()
    from deltalake import DeltaTable, Field
    from deltalake.schema import PrimitiveType

    if not (folder / DELTA_LOG).is_dir():
        if state.batch >= 0:
            raise BadConfig(f"the log of the Delta table in {folder} is missing; restore it, or use a new folder")
        DeltaTable.create(str(folder), _schema(payloads=payloads), partition_by=_PARTITIONS, name="history")
        _sync_log(folder, set())
    table, known = DeltaTable(str(folder)), _names(folder)
    columns = {field.name for field in table.schema().fields}
    added = [name for name in JOURNAL_PAYLOADS.names if payloads and name not in columns]
    if added:
        table.alter.add_columns([Field(name, PrimitiveType("string"), nullable=True) for name in added])
        _sync_log(folder, known)
    return _as_committed(folder, table, state)


def commit(folder: Path, files: Sequence[Path], before: HistoryState, after: HistoryState) -> None:
    """Add the files of a batch to the table, in one transaction with what it changes in the state; safe on disk."""
    from deltalake import CommitProperties, DeltaTable, Transaction

    table, known = DeltaTable(str(folder)), _names(folder)
    changed = {name: mark for name, mark in after.shards.items() if before.shards.get(name) != mark}
    note = _Note(
        batch=after.batch,
        events=after.events,
        skipped=after.skipped,
        lost=after.lost,
        payloads=after.payloads,
        shards=changed,
        gone=sorted(before.shards.keys() - after.shards.keys()),
    )
    properties = CommitProperties(
        app_transactions=[Transaction(APP, after.batch)],
        custom_metadata={_NOTE: msgspec.json.encode(note).decode()},
    )
    actions = [_action(folder, file) for file in files]
    table.create_write_transaction(actions, "append", table.schema(), _PARTITIONS, commit_properties=properties)
    # Nobody else does: after a power failure the state would tell of a batch that the table does not have.
    _sync_log(folder, known)


def table_files(folder: Path) -> list[str]:
    """The files that the table holds now."""
    check_installed()
    from deltalake import DeltaTable

    return DeltaTable(str(folder)).file_uris()


def compact_table(folder: Path, until_day: str | None, small_bytes: int) -> Compacted:
    """Merge small files in one transaction, and remove those that no reader of the last week can need."""
    check_installed()
    from deltalake import DeltaTable

    table, known = DeltaTable(str(folder)), _names(folder)
    files = set(table.file_uris())
    only = None if until_day is None else [("day", "<=", until_day)]
    told: dict[str, Any] = table.optimize.compact(partition_filters=only, target_size=small_bytes)
    for file in set(table.file_uris()) - files:
        sync_file(Path(file))
    _sync_log(folder, known)
    table.vacuum(dry_run=False)
    removed, added = _files(told["filesRemoved"]), _files(told["filesAdded"])
    return Compacted(
        folders=told["partitionsOptimized"],
        files_before=told["numFilesRemoved"],
        files_after=told["numFilesAdded"],
        bytes_before=removed,
        bytes_after=added,
    )


def _files(told: str | dict[str, Any]) -> int:
    found = msgspec.json.decode(told) if isinstance(told, str) else told
    return int(found["totalSize"])


def _action(folder: Path, file: Path) -> Any:
    from deltalake.transaction import AddAction

    day, queue = file.parent.parent.name, file.parent.name
    rows = pq.read_metadata(file).num_rows
    found = file.stat()
    return AddAction(
        path=file.relative_to(folder).as_posix(),
        size=found.st_size,
        partition_values={"day": day.removeprefix("day="), "queue": queue.removeprefix("queue=")},
        modification_time=int(found.st_mtime * 1_000),
        data_change=True,
        stats=msgspec.json.encode({"numRecords": rows}).decode(),
    )


def _sync_log(folder: Path, known: Collection[str]) -> None:
    """Make safe on disk what has come to the log since it held these names."""
    log = folder / DELTA_LOG
    for name in _names(folder):
        # The one name that is written again and again; folders come from who else has written to the table.
        if (name not in known or name == "_last_checkpoint") and (log / name).is_file():
            sync_file(log / name)
    sync_folder(log)
    sync_folder(folder)


def _names(folder: Path) -> set[str]:
    return {path.name for path in (folder / DELTA_LOG).iterdir()}


def _as_committed(folder: Path, table: "DeltaTable", state: HistoryState) -> HistoryState:
    last = table.transaction_version(APP)
    if (-1 if last is None else last) < state.committed:
        raise BadConfig(
            f"the Delta table in {folder} lacks batch {state.committed:,}, which its state says is in place: its log"
            " was replaced by an older one or has lost its end; restore the whole folder, or use a new one"
        )
    if last is None or last <= state.batch:
        return state
    notes = (told[_NOTE] for told in table.history(_NOTES_MAX) if _NOTE in told)
    note = next((msgspec.json.decode(text, type=_Note) for text in notes), None)
    if note is None or note.batch != last or last != state.batch + 1:
        raise BadConfig(
            f"the Delta table in {folder} is at batch {last:,}, and its state at {state.batch:,}: it was replaced by an"
            " older one; restore the whole folder, or use a new one"
        )
    kept = {name: mark for name, mark in state.shards.items() if name not in note.gone}
    return replace(
        state,
        batch=note.batch,
        committed=note.batch,
        events=note.events,
        skipped=note.skipped,
        lost=note.lost,
        payloads=note.payloads,
        shards=kept | note.shards,
    )


def _schema(*, payloads: bool) -> pa.Schema:
    bodies = JOURNAL_PAYLOADS.arrow if payloads else []
    return pa.schema([*JOURNAL.arrow, pa.field("day", pa.date32()), *bodies])
