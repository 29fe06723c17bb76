"""What endangers jobs in a PostgreSQL database, in sentences."""

from headrace.model.limits import NEARLY_FULL_PERCENT
from headrace.stores.postgres.connect import Connection, Settings
from headrace.stores.postgres.sql import sql


def notes_on(connection: Connection, settings: Settings) -> tuple[str, ...]:
    """What a person should know of the server, as it is set up now."""
    [(fsync, full_page_writes, autovacuum, used, room)] = connection.execute(sql("settings")).fetchall()
    place, notes = settings.place, list[str]()
    if settings.profile == "fast":
        notes.append(
            "profile=fast: synchronous_commit is off, so a crash of the server may lose the last moments; open the"
            " store without it to keep every answered call"
        )
    off = [name for name, is_on in (("fsync", fsync), ("full_page_writes", full_page_writes)) if not is_on]
    if off:
        notes.append(f"PostgreSQL at {place} has {' and '.join(off)} off: a power cut may ruin it; switch it on")
    if not autovacuum:
        notes.append(f"PostgreSQL at {place} has autovacuum off: claims get slower and slower; switch it on")
    if used * 100 >= room * NEARLY_FULL_PERCENT:
        notes.append(
            f"PostgreSQL at {place} has {used} of {room} connections in use; raise max_connections, or lower"
            " ?connections= of the stores"
        )
    return tuple(notes)
