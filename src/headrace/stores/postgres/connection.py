"""Reads the URL of a PostgreSQL store, opens connections with our settings, and checks the server."""

import contextlib
import re
import select
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.abc import AdaptContext
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg_pool import ConnectionPool

from headrace.model.errors import BadConfig
from headrace.model.limits import FENCE_JUMP, NEARLY_FULL_PERCENT
from headrace.model.validate import bounded_repr
from headrace.stores.postgres.arrays import register_arrays
from headrace.stores.postgres.sql import sql

Connection = psycopg.Connection[tuple[Any, ...]]
Pool = ConnectionPool[Connection]

SERVER_VERSION_MIN = 150_000
SCHEMA_DEFAULT = "headrace"
# Short enough for the name of a channel to contain it.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
CONNECTIONS_DEFAULT = 8
CONNECTIONS_MAX = 256
"""Each is a process of the server and a thread of ours."""
CONNECT_SECONDS = 5
"""How long a call waits for a new connection: a machine that is off does not even refuse."""
LOCK_TIMEOUT_MS = 30_000
"""Rows are locked for milliseconds; a longer wait is for a process that hangs."""
PREPARED_MAX = 1_000
"""More than all statements, so that none is ever prepared twice."""
IDLE_IN_TRANSACTION_MS = 60_000
"""Frees the rows of a process that stops in the middle of a transaction."""

PROFILES = ("durable", "replicated", "fast")
PROMISES = {
    "durable": "what was answered survives the end of the process, a crash of the server and a power cut",
    "replicated": "what was answered survives the loss of the server too, since a standby has it on disk; writes stop"
    " while no standby answers",
    "fast": "what was answered survives the end of the process; a crash of the server may lose the last moments before"
    " it (some three times wal_writer_delay), which is reported as a new epoch",
}
NO_FSYNC = "; fsync or full_page_writes is off, so that a crash of the system may ruin the whole database"


class ConnectionSettings(Struct, frozen=True):
    """The settings in a URL."""

    conninfo: str
    address: str
    """Host, port and database for messages: never a user's password."""
    schema: str = SCHEMA_DEFAULT
    profile: str = "durable"
    connections: int = CONNECTIONS_DEFAULT

    def __repr__(self) -> str:
        return f"Settings({self.address}, {self.schema}, {self.profile})"  # the conninfo may hold a password


OPTIONS = ("schema", "profile", "connections")
"""Our options of a URL; all others are libpq's (sslmode, sslrootcert, connect_timeout, …)."""


def settings_of(url: str) -> ConnectionSettings:
    """Read a URL; errors never show it, since it may hold a password."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if _is_torn(parts.netloc, parts.path, options):
        raise BadConfig(
            "a password with one of / ? # @ : % in a PostgreSQL URL is written with %2F %3F %23 %40 %3A %25"
        )
    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    for option in options:
        if option not in known and option not in OPTIONS:
            raise BadConfig(
                f"postgres:// has no option {bounded_repr(option)}; known options: {', '.join(OPTIONS)}, and libpq's"
            )
    rest = urlencode({option: value for option, value in options.items() if option not in OPTIONS}, quote_via=quote)
    try:
        libpq = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
    except psycopg.ProgrammingError:
        raise BadConfig(
            "a PostgreSQL URL reads postgres://user:password@host:port/database, with special characters as %XX"
        ) from None
    return ConnectionSettings(
        conninfo=make_conninfo("", **{"connect_timeout": CONNECT_SECONDS, "application_name": "headrace", **libpq}),
        address=_address(libpq),
        schema=_schema(options.get("schema", SCHEMA_DEFAULT)),
        profile=_profile(options.get("profile", "durable")),
        connections=_connections(options.get("connections", str(CONNECTIONS_DEFAULT))),
    )


def _is_torn(netloc: str, path: str, options: dict[str, str]) -> bool:
    """Whether a character in the password has cut it in two: the halves would be taken for a host, a database or an
    option, and be shown. The value of an option may hold an @, such as a user's name on some clouds."""
    if "@" in path or netloc.count("@") > 1 or any("@" in option for option in options):
        return True
    is_cut = "@" not in netloc and not netloc.rpartition(":")[2].isdigit() and ":" in netloc.rpartition("]")[2]
    return is_cut and any("@" in value for value in options.values())


def _address(libpq: dict[str, Any]) -> str:
    host, port = libpq.get("host") or "localhost", libpq.get("port") or 5432
    return f"{host}:{port}/{libpq.get('dbname') or libpq.get('user') or ''}"


def _schema(schema: str) -> str:
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise BadConfig(
            f"schema {bounded_repr(schema)} is not a name; use small letters, digits and '_' (48 at most), and not"
            " 'pg_' in front"
        )
    return schema


def _profile(profile: str) -> str:
    if profile not in PROFILES:
        raise BadConfig(
            f"PostgreSQL has no durability profile {bounded_repr(profile)}; known profiles: {', '.join(PROFILES)}"
        )
    return profile


def _connections(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= CONNECTIONS_MAX:
        raise BadConfig(f"connections is {bounded_repr(text)}; give a whole number from 1 to {CONNECTIONS_MAX}")
    return int(text)


def connect(settings: ConnectionSettings) -> Connection:
    """Open a connection outside the pool with the same settings; raises psycopg's errors."""
    try:
        connection = psycopg.connect(settings.conninfo, autocommit=True)
    except OSError as error:  # psycopg waits with a selector, which needs a free descriptor of its own
        raise psycopg.OperationalError(str(error)) from error
    try:
        configure(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def pool_of(settings: ConnectionSettings, on_connect: Callable[[Connection], object]) -> Pool:
    """A pool, not open yet, of one connection per thread; each is opened when needed and passed to `on_connect`."""

    def prepare(connection: Connection) -> None:
        configure(connection, settings)
        on_connect(connection)

    return ConnectionPool(
        settings.conninfo,
        connection_class=Connection,
        kwargs={"autocommit": True},
        min_size=0,
        max_size=settings.connections,
        open=False,
        configure=prepare,
        check=check_alive,
        name="headrace-postgres",
        timeout=CONNECT_SECONDS,
        reconnect_timeout=CONNECT_SECONDS,
    )


def configure(connection: Connection, settings: ConnectionSettings) -> None:
    """Set the settings that every connection has; transactions are begun and ended by hand."""
    # Prepare every statement at its first use: where psycopg prepares one later, inside a pipeline that fails, it takes
    # the statement for prepared for ever.
    connection.prepare_threshold = 0
    connection.prepared_max = PREPARED_MAX
    register_dumpers(connection)
    wanted = {
        "search_path": settings.schema,
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
        "jit": "off",  # compiling a statement takes longer than running it
        # Every statement has its index; with stale or missing statistics the planner would scan and sort a backlog.
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_sort": "off",
        # A plan for an empty table must not be kept when the table holds a million rows.
        "plan_cache_mode": "force_custom_plan",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "synchronous_commit": "off" if settings.profile == "fast" else _commit_level(connection),
    }
    connection.execute(
        "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)",
        (list(wanted), list(wanted.values())),
    )


def register_dumpers(context: AdaptContext) -> None:
    """Let a connection or cursor take the arguments of our statements."""
    for dumper in (Int8Dumper, Int8BinaryDumper):  # not by size: each size would be a statement of its own
        context.adapters.register_dumper(int, dumper)
    register_arrays(context)


def _commit_level(connection: Connection) -> str:
    found = connection.execute("SHOW synchronous_commit").fetchone()
    return "remote_apply" if found == ("remote_apply",) else "on"


def roll_back(connection: Connection) -> None:
    """Undo the transaction; where the connection is lost, the server does that by itself."""
    # Not by psycopg: it would drop every prepared statement, in case one is about a table that was rolled back.
    with contextlib.suppress(psycopg.Error):
        connection.pgconn.exec_(b"ROLLBACK")


def check_alive(connection: Connection) -> None:
    """Raise when an idle connection was cut: its socket is readable then. Costs no round trip."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        connection.execute("")


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
