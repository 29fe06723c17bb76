"""Checks a PostgreSQL server, brings the schema up to date, and begins a new epoch after a crash."""

from contextlib import closing

import psycopg
from psycopg.sql import SQL, Identifier

from headrace.model.errors import BadConfig
from headrace.model.integrity import Schema, schema_at
from headrace.model.limits import FENCE_JUMP, NEARLY_FULL_PERCENT
from headrace.stores.postgres.connection import (
    Connection,
    ConnectionSettings,
    connect,
    connect_error,
    roll_back,
    translate_errors,
)
from headrace.stores.postgres.sql import migration_names, migrations, sql

SERVER_VERSION_MIN = 150_000
PROMISES = {
    "durable": "answered calls survive the end of the process, a crash of the server and a power cut",
    "replicated": "answered calls survive the loss of the server too, since a standby has it on disk; writes stop"
    " while no standby answers",
    "fast": "answered calls survive the end of the process; a crash of the server may lose the last moments before"
    " it (some three times wal_writer_delay), which is reported as a new epoch",
}
NO_FSYNC = "; fsync or full_page_writes is off, so that a crash of the system may ruin the whole database"


def check_server(connection: Connection, settings: ConnectionSettings) -> str:
    """Refuse a server that cannot keep the profile's promise; returns the promise in words."""
    version = connection.info.server_version
    if version < SERVER_VERSION_MIN:
        raise BadConfig(
            f"PostgreSQL 15 or newer is needed; found {version // 10_000} at {settings.address}; upgrade the server"
        )
    found = connection.execute(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_standby_names')"
    )
    setting: dict[str, str] = dict(found.fetchall())
    off = [name for name in ("fsync", "full_page_writes") if setting[name] == "off"]
    if off and settings.profile != "fast":
        raise BadConfig(
            f"PostgreSQL at {settings.address} has {' and '.join(off)} off, so that a power cut may ruin it; switch it"
            " on, or choose ?profile=fast"
        )
    if settings.profile == "replicated" and not setting["synchronous_standby_names"].strip():
        raise BadConfig(
            f"PostgreSQL at {settings.address} has no synchronous_standby_names, so that no standby is waited for; name"
            " them, or choose ?profile=durable"
        )
    return PROMISES[settings.profile] + (NO_FSYNC if off else "")


def version_of(connection: Connection) -> str:
    """The server's version as people write it."""
    version = connection.info.server_version
    return f"{version // 10_000}.{version % 10_000}"


def server_notes(connection: Connection, settings: ConnectionSettings) -> tuple[str, ...]:
    """Warnings about the present settings of the server, for `health`."""
    [(fsync, full_page_writes, autovacuum, used, room)] = connection.execute(sql("server_settings")).fetchall()
    address, notes = settings.address, list[str]()
    if settings.profile == "fast":
        notes.append(
            "profile=fast: synchronous_commit is off, so a crash of the server may lose the last moments; open the"
            " store without it to keep every answered call"
        )
    off = [name for name, is_on in (("fsync", fsync), ("full_page_writes", full_page_writes)) if not is_on]
    if off:
        notes.append(f"PostgreSQL at {address} has {' and '.join(off)} off: a power cut may ruin it; switch it on")
    if not autovacuum:
        notes.append(f"PostgreSQL at {address} has autovacuum off: claims get slower and slower; switch it on")
    if used * 100 >= room * NEARLY_FULL_PERCENT:
        notes.append(
            f"PostgreSQL at {address} has {used} of {room} connections in use; raise max_connections, or lower"
            " ?connections= of the stores"
        )
    return tuple(notes)


def raise_epoch_after_crash(connection: Connection) -> bool:
    """Raise the epoch of every shard and feed when the crash mark, which only a clean stop preserves, is gone; returns
    whether it was.

    Every connection does this before anything else: none outlives a crash, so no write comes before the new epoch.
    """
    if connection.execute(sql("crash_mark_find")).fetchall():
        return False
    connection.execute(b"BEGIN", prepare=False)
    try:
        connection.execute(sql("crash_mark_lock"))
        lost = not connection.execute(sql("crash_mark_find")).fetchall()  # another connection may have set it meanwhile
        if lost:
            if connection.execute(sql("shard_epoch_raise")).rowcount:
                connection.execute(sql("fence_raise"), (FENCE_JUMP,))
            connection.execute(sql("feed_epoch_raise"))
            connection.execute(sql("crash_mark_write"))
    except BaseException:
        roll_back(connection)
        raise
    connection.execute(b"COMMIT", prepare=False)
    return lost


def migrate(connection: Connection, settings: ConnectionSettings, upto: int | None = None) -> int:
    """Bring the schema up to date, whole or not at all; returns its version. `upto` stops early, for tests.

    A schema that is up to date is only read, so a user without the right to change schemas can open it.
    """
    steps = migrations()
    newest = steps[-1][0] if upto is None else upto
    version = version_now(connection)
    if version < newest:
        connection.execute("BEGIN")
        try:
            # Processes that open a new database at once wait here for the first one, and then find nothing left to do.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"headrace {settings.schema}",)
            )
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(settings.schema)))
            version = version_now(connection)
            for number, statements in steps:
                if version < number <= newest:
                    for statement in statements:
                        connection.execute(statement.encode(), prepare=False)
                    connection.execute(sql("layout_write"), (number,))
            version = version_now(connection)
        except BaseException:
            roll_back(connection)
            raise
        connection.execute("COMMIT")
    if upto is None:
        check_known(settings, version)
    return version


def check_known(settings: ConnectionSettings, version: int) -> None:
    """Refuse the schema of a newer Headrace."""
    newest = migrations()[-1][0]
    if version > newest:
        raise BadConfig(
            f"schema {settings.schema!r} at {settings.address} has layout {version}, this Headrace knows {newest};"
            " use a newer Headrace"
        )


def schema_of(settings: ConnectionSettings) -> Schema:
    """The present and the known layout of a schema, without changing anything; blocks, so not for an event loop."""
    try:
        connection = connect(settings)
    except psycopg.Error as error:
        raise connect_error(error, settings.address) from error
    with translate_errors(settings.address), closing(connection):
        version = version_now(connection)
    check_known(settings, version)
    return schema_at(version or None, migration_names())


def version_now(connection: Connection) -> int:
    """The number of the last step that was applied; 0 before the first."""
    found = connection.execute("SELECT to_regclass('store')").fetchone()
    if found is None or found[0] is None:
        return 0
    layout = connection.execute("SELECT layout FROM store").fetchone()
    return 0 if layout is None else int(layout[0])
