"""Reads the URL of a PostgreSQL store, opens connections, runs calls in threads, translates errors."""

import asyncio
import contextlib
import os
import re
import select
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct
from psycopg import errors as pg
from psycopg import pq
from psycopg.abc import AdaptContext
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.validate import bounded_repr
from headrace.stores.postgres.arrays import register_arrays

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Pool = ConnectionPool[Connection]

SCHEMA_DEFAULT = "headrace"
# Short enough for the name of a channel to contain it.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
CONNECTIONS_DEFAULT = 8
CONNECTIONS_MAX = 256
"""Each is a process of the server and a thread of ours."""
CONNECT_SECONDS = 5
"""How long a call waits for a new connection: a machine without power does not even refuse."""
CLOSE_SECONDS = 5
LOCK_TIMEOUT_MS = 30_000
"""Rows are locked for milliseconds; a longer wait means that a process hangs."""
PREPARED_MAX = 1_000
"""More than all statements, so that none is ever prepared twice."""
IDLE_IN_TRANSACTION_MS = 60_000
"""Frees the rows of a process that stops in the middle of a transaction."""

PROFILES = ("durable", "replicated", "fast")


class ConnectionSettings(Struct, frozen=True):
    """The settings in a URL."""

    conninfo: str
    address: str
    """Host, port and database for messages: never a user's password."""
    schema: str = SCHEMA_DEFAULT
    profile: str = "durable"
    connections: int = CONNECTIONS_DEFAULT

    def __repr__(self) -> str:
        return f"ConnectionSettings({self.address}, {self.schema}, {self.profile})"  # the conninfo may hold a password


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
    for dumper in (Int8Dumper, Int8BinaryDumper):  # not by size: each size would be another statement
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


class ConnectionThreads:
    """Waits for the server in threads, outside of the event loop. A cancelled call lets its thread finish, so its
    answer never reaches the next call on the connection. The first call opens threads and connections, and so does the
    first one of a forked process: neither survives a fork."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self.on_connect: Callable[[Connection], object] = lambda _: None
        """Called with each new connection before it is used."""
        self._open: tuple[Pool, ThreadPoolExecutor] | None = None
        self._parent_pools: list[object] = []
        self._pid = 0
        self._has_connected = False
        self._closed = False

    async def run(self, act: Callable[[Connection], T]) -> T:
        """Run `act` on a connection of the pool and return its result."""
        if self._closed:
            raise StoreUnavailable("the PostgreSQL store was closed; open a new one")
        pool, threads = self._open_pool()
        return await asyncio.get_running_loop().run_in_executor(threads, self._on_connection, pool, act)

    def _open_pool(self) -> tuple[Pool, ThreadPoolExecutor]:
        if self._open is None or self._pid != os.getpid():
            self._parent_pools.append(self._open)  # the parent's: freeing it here would close the parent's connections
            self._pid = os.getpid()
            pool = pool_of(self._settings, self._on_connect)
            pool.open()
            self._open = (pool, ThreadPoolExecutor(self._settings.connections, "headrace-postgres"))
        return self._open

    def _on_connect(self, connection: Connection) -> None:
        self.on_connect(connection)  # the present one: it is set after the pool was made

    def _on_connection(self, pool: Pool, act: Callable[[Connection], T]) -> T:
        try:
            if not self._has_connected:
                # The pool would retry for seconds, and then hide the reason.
                connect(self._settings).close()
                self._has_connected = True
            connection = pool.getconn()
        except psycopg.Error as error:
            address = self._settings.address
            raise (headrace_error if self._has_connected else connect_error)(error, address) from error
        try:
            return act(connection)
        finally:
            pool.putconn(connection)

    async def close(self) -> None:
        """Finish the calls under way, then close the connections."""
        if self._closed:
            return
        self._closed = True
        if self._open is not None and self._pid == os.getpid():
            pool, threads = self._open
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, threads.shutdown)
            await loop.run_in_executor(None, pool.close, CLOSE_SECONDS)


RETRYABLE = (pg.UniqueViolation, pg.DeadlockDetected, pg.SerializationFailure)
"""Conflicts with another transaction: the server has rolled this one back, and it may be run again."""
TRIES = 10
"""How often a transaction is run before the store is called busy."""


@contextmanager
def translate_errors(address: str, *, sent: bool = False) -> Iterator[None]:
    """Turn PostgreSQL's errors into Headrace's, except `RETRYABLE` ones: the transaction is run again after those.

    `sent` says that a statement which commits by itself may be on its way: a connection lost now leaves open whether
    it was carried out.
    """
    try:
        yield
    except RETRYABLE:
        raise
    except psycopg.Error as error:
        raise headrace_error(error, address, sent=sent) from error


def headrace_error(error: psycopg.Error, address: str, *, sent: bool = False) -> HeadraceError:
    """The Headrace error for one of PostgreSQL's."""
    found = _first_line(error)
    if sent and not _is_undone(error):
        return OutcomeUnknown(
            f"PostgreSQL at {address} was lost while committing ({found}); check the outcome before trying again"
        )
    return StoreUnavailable(f"PostgreSQL at {address} cannot be used now ({found}); {_advice(error)}")


def busy_error(error: psycopg.Error, address: str) -> StoreUnavailable:
    """The error for a transaction that met a conflict every time."""
    return StoreUnavailable(
        f"PostgreSQL at {address} undid the same transaction {TRIES} times ({_first_line(error)}); try again"
    )


def connect_error(error: psycopg.Error, address: str) -> HeadraceError:
    """The error for a failed first connection: waiting does not correct a wrong name or password."""
    found = _first_line(error)
    if isinstance(error, pg.InvalidAuthorizationSpecification | pg.InvalidCatalogName) or any(
        mark in found for mark in ("authentication failed", "does not exist", "no password supplied", "invalid")
    ):
        return BadConfig(f"PostgreSQL at {address} refuses the connection ({found}); check the URL")
    return StoreUnavailable(f"PostgreSQL at {address} cannot be reached ({found}); check that it runs, and try again")


def _is_undone(error: psycopg.Error) -> bool:
    # An error of the server undoes the transaction, with two exceptions: one that ends the connection (class 57) may
    # come while the commit waits for a standby and is already on disk here; an internal one may come at any time.
    return error.sqlstate is not None and error.sqlstate[:2] not in ("57", "58", "XX", "08")


def _advice(error: psycopg.Error) -> str:
    if isinstance(error, PoolClosed):
        return "the store was closed; open a new one"
    if isinstance(error, PoolTimeout):
        return "no connection came in time; check that the server runs and takes more connections, then try again"
    if isinstance(error, pg.UndefinedTable | pg.UndefinedColumn | pg.UndefinedFunction | pg.UndefinedObject):
        return "the schema is not what this Headrace made; check that nobody changed it"
    if isinstance(error, pg.InsufficientPrivilege):
        return "grant the user what it needs on the schema"
    if isinstance(error, pg.DiskFull | pg.OutOfMemory):
        return "make room on the server and try again"
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return "this server is a standby; name the primary, or add target_session_attrs=read-write to the URL"
    return "nothing was changed; try again"


def _first_line(error: psycopg.Error) -> str:
    # libpq writes a line per address that it tried, with details below; the first line says what happened.
    text = error.diag.message_primary or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
