"""Opens connections to a file, migrates its schema, and turns SQLite's errors into Headrace's."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from threading import Event

from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.model.integrity import Schema, schema_at
from headrace.model.limits import FENCE_JUMP
from headrace.stores.sqlite.sql import migration_names, migrations, sql

PROFILES = {"durable": "FULL", "fast": "NORMAL"}
PROMISES = {
    "durable": "answered calls survive the end of the process, a crash of the system and a power cut",
    "fast": "answered calls survive the end of the process; a power cut or a crash of the system may lose the last"
    " moments before it, which the next start reports as a new epoch",
}
BUSY_SECONDS = 30
SQLITE_VERSION_MIN = (3, 37, 0)
WAL_TRIES = 250
WAL_BUSY_SECONDS = 0.1
WAL_PAUSE_SECONDS = 0.01
WAL_BYTES_KEPT = 64 * 1024 * 1024
CHECKPOINT_PAGES = 4_000
"""16 MiB of log before a checkpoint: pages that change often, such as the counters of shards, are then copied once."""
CACHE_KIB = 32_000
"""Pages kept by a connection; the default of 2 MiB does not hold the indexes of a large backlog."""


def pause(seconds: float) -> None:
    """Sleep; for the thread of a connection, never for that of the event loop."""
    Event().wait(seconds)


def connect_for_polling(path: str) -> sqlite3.Connection:
    """A bare connection for `PRAGMA data_version`; it never waits, so the event loop may use it."""
    with errors(path):
        return sqlite3.connect(path, timeout=0, isolation_level=None)


def connect(path: str, profile: str, pause: Callable[[float], object] = pause) -> sqlite3.Connection:
    """A connection in WAL mode with the durability of the profile; transactions are begun and ended by hand.

    It may have to `pause` while other processes lock a new file, so a separate thread opens it.
    """
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        raise BadConfig(f"SQLite 3.37 or newer is needed; found {sqlite3.sqlite_version}; use a newer Python build")
    with errors(path):
        connection = sqlite3.connect(
            path, timeout=WAL_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            _check_wal_mode(path, _enter_wal_mode(connection, pause))
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1_000}")
            connection.execute(f"PRAGMA synchronous = {PROFILES[profile]}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection


def configure_writes(connection: sqlite3.Connection, waits: bool, checkpoint_pages: int) -> None:
    """Set whether a write waits for other writers, and the length of the log at which its commit makes a checkpoint."""
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000) if waits else 0}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_pages}")


def _enter_wal_mode(connection: sqlite3.Connection, pause: Callable[[float], object]) -> str:
    # Several processes may open a new file at once. Where two would deadlock, SQLite fails without waiting for the busy
    # timeout, so retry here.
    for _ in range(WAL_TRIES - 1):
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            pause(WAL_PAUSE_SECONDS)
    return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])


def _check_wal_mode(path: str, mode: str) -> None:
    if mode != "wal":
        raise BadConfig(f"{path!r} cannot be opened in WAL mode (found {mode!r}); use a file on a local disk")


def migrate(connection: sqlite3.Connection, path: str) -> int:
    """Take the missing steps of the schema in one transaction; returns its version."""
    steps = migrations()
    newest = steps[-1][0]
    with errors(path):
        version = schema_version(connection)
        if version < newest:
            connection.execute("BEGIN IMMEDIATE")
            try:
                version = schema_version(connection)  # another process may have been faster
                for statement in (each for number, statements in steps if number > version for each in statements):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {max(version, newest)}")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        version = schema_version(connection)
    check_schema_version(path, version)
    return version


def check_schema_version(path: str, version: int) -> None:
    """Refuse a file of a newer Headrace."""
    newest = migrations()[-1][0]
    if version > newest:
        raise BadConfig(
            f"{path!r} has schema {version}, this Headrace knows {newest}; use a newer Headrace for this file"
        )


def schema_version(connection: sqlite3.Connection) -> int:
    """The number of the last step that the schema of the file has taken."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def detect_lost_tail(connection: sqlite3.Connection, path: str, boot_id: str, profile: str, now_ms: int) -> bool:
    """Raise the epoch of every shard and feed when the machine was restarted since the file was last open under `fast`.

    Under `fast` a restart of the machine may have lost the last writes; a restart of the process cannot.
    """
    with errors(path):
        found = connection.execute(sql("store_read")).fetchone()
        same_boot = found is not None and found[0] == boot_id
        if same_boot and found[1] in (profile, "fast"):
            return False
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(sql("store_read")).fetchone()
        same_boot = found is not None and found[0] == boot_id
        lost = found is not None and not same_boot and found[1] == "fast"
        if lost:
            connection.execute(sql("shard_raise_epoch"), (now_ms, now_ms * 1_000, now_ms * 1_000, FENCE_JUMP))
            connection.execute(sql("feed_raise_epoch"), (now_ms,))
        connection.execute(sql("store_write"), (boot_id, "fast" if same_boot and found[1] == "fast" else profile))
        connection.execute("COMMIT")
    return lost


@contextmanager
def errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as StoreUnavailable, with advice."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"SQLite file {path!r} cannot be used now ({error}); {_advice(str(error))}") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(
            f"SQLite file {path!r} cannot be used ({error}); check that it is a Headrace file"
        ) from error


def commit(connection: sqlite3.Connection, path: str) -> None:
    """Commit; after an error here the outcome is unknown, unless the file was merely busy."""
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
            raise StoreUnavailable(
                f"SQLite file {path!r} could not be written ({error}); nothing was changed"
            ) from error
        raise OutcomeUnknown(
            f"SQLite file {path!r} failed while committing ({error}); look before asking again"
        ) from error


def _advice(error: str) -> str:
    if "locked" in error or "busy" in error:
        return f"another process has written for more than {BUSY_SECONDS} s; try again"
    if "full" in error:
        return "make room on the disk and try again"
    return "check that the folder exists and may be written"


def schema_of(path: str) -> Schema:
    """The schema of a file, which is not created when missing. Refuses a file of a newer Headrace."""
    file = Path(path).absolute()
    if not file.exists():
        return schema_at(None, migration_names())
    # Not read-only: SQLite could not read writes of another process that are still in the log.
    with errors(path), closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as connection:
        version = schema_version(connection)
    check_schema_version(path, version)
    return schema_at(version, migration_names())


MOUNTS = Path("/proc/self/mounts")
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs", "glusterfs"}
)
"""SQLite's WAL mode needs shared memory and reliable locks, which these do not offer."""
FAST_NOTE = (
    "profile=fast: a power cut or a crash of the system may lose the last moments; open the file without it to keep"
    " every answered call"
)


def notes_on(path: str, profile: str) -> tuple[str, ...]:
    """Warnings about an open file and its profile."""
    notes = [FAST_NOTE] if profile == "fast" else []
    try:
        mounts = MOUNTS.read_text("utf-8", "replace")
    except OSError:  # not Linux
        mounts = ""
    kind = file_system(str(Path(path).resolve()), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        notes.append(
            f"{path!r} is on a network file system ({kind}), where SQLite may lose or ruin it; move it to a local disk"
        )
    return tuple(notes)


def file_system(path: str, mounts: str) -> str:
    """The type of the file system of a path, from the list of mounts; empty when the list does not have it."""
    found, depth = "", -1
    for line in mounts.splitlines():
        _, point, kind, *_ = [*line.split(" "), "", "", ""]
        point = point.replace("\\040", " ")  # an escaped space
        if point and PurePosixPath(path).is_relative_to(point) and len(PurePosixPath(point).parts) >= depth:
            found, depth = kind, len(PurePosixPath(point).parts)
    return found
