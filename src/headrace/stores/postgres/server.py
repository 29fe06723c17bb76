"""Checks a PostgreSQL server, describes it, and begins a new epoch after its crash."""

from headrace.model.errors import BadConfig
from headrace.model.limits import FENCE_JUMP, NEARLY_FULL_PERCENT
from headrace.stores.postgres.connection import Connection, ConnectionSettings, roll_back
from headrace.stores.postgres.sql import sql

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
