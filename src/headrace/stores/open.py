"""Opens a store by its URL."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from headrace.model.clock import Clock
from headrace.model.errors import BadConfig
from headrace.model.integrity import Migrated, Schema
from headrace.model.validate import bounded_repr, check_path
from headrace.stores.contract.store import Store

KNOWN = (
    "memory://, sqlite:///relative.db, sqlite:////absolute/path.db, postgres://user@host/database,"
    " redis://host:6379/0, rediss://…, redis+sentinel://host,host/service, redis+cluster://host,host, https://host"
)

POSTGRES = ("postgres", "postgresql")
HTTP = ("http", "https")
REDIS = ("redis", "rediss", "redis+sentinel", "redis+cluster")
_RELATIVE = "sqlite:///"


async def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """Open the store at `url`; close it with `await store.close()`.

    `memory://` lives in this process. `sqlite:///headrace.db` is a file in the working directory,
    `sqlite:////var/lib/headrace.db` an absolute path; `?profile=durable` (the default) survives a power cut,
    `?profile=fast` may not.
    `postgres://user:password@host/database` is a schema (`?schema=headrace`) of a PostgreSQL server, reached over a
    pool (`?connections=8`), with the options of libpq; its profiles are durable, replicated and fast. `clock` replaces
    the clock of this process, for tests; a server's clock rules its store.
    `redis://user:password@host:6379/0` (`rediss://` with TLS), `redis+sentinel://host,host/service` and
    `redis+cluster://host,host` are Redis 7 or Valkey; what survives is a matter of the server's settings, checked with
    `?profile=durable` or `?profile=replicated`, and the server's clock rules.
    `https://host` is a service (`headrace serve`), reached with the token in HEADRACE_TOKEN or `?token_file=PATH`.
    """
    parts, options = split(url)
    if parts.scheme == "memory":
        check_memory(parts, options)
        # A driver is imported only for its scheme: the others need not be installed.
        from headrace.stores.memory.store import MemoryStore

        return MemoryStore(clock)
    if parts.scheme == "sqlite":
        path = sqlite_path(parts, options)
        from headrace.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(path, profile=options.get("profile", "durable"), clock=clock)
    if parts.scheme in POSTGRES:
        with needing_postgres():
            from headrace.stores.postgres.connection import settings_of
            from headrace.stores.postgres.store import PostgresStore
        return await PostgresStore.open(settings_of(url), clock=clock)
    if parts.scheme in REDIS:
        return await _open_redis(parts, options, clock)
    if parts.scheme in HTTP:
        return await _open_http(parts, options, clock)
    raise unknown_scheme(parts)


async def _open_redis(parts: SplitResult, options: dict[str, str], clock: Clock | None) -> Store:
    if clock is not None:
        raise BadConfig("a store in Redis takes no clock, the server's rules; give now_ms with each call instead")
    with needing_redis():
        from headrace.stores.redis.store import RedisStore
        from headrace.stores.redis.url import options_of
    return await RedisStore.open(options_of(parts, options))


async def _open_http(parts: SplitResult, options: dict[str, str], clock: Clock | None) -> Store:
    if clock is not None:
        raise BadConfig("a service takes no clock, that of its store rules")
    try:
        from headrace.stores.http.store import HttpStore
        from headrace.stores.http.url import options_of
    except ModuleNotFoundError as missing:
        if missing.name not in ("aiohttp", "yarl"):
            raise
        raise BadConfig("https:// needs the package aiohttp; pip install 'headrace[http]'") from missing
    return await HttpStore.open(options_of(parts, options))


@contextmanager
def needing_postgres() -> Iterator[None]:
    """Name the extra to install when an import of the driver fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in ("psycopg", "psycopg_pool"):
            raise
        raise BadConfig("postgres:// needs psycopg and its pool; install headrace[postgres]") from missing


@contextmanager
def needing_redis() -> Iterator[None]:
    """As `needing_postgres`."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "hiredis":
            raise
        raise BadConfig("redis:// needs the package hiredis; pip install 'headrace[redis]'") from missing


def split(url: str) -> tuple[SplitResult, dict[str, str]]:
    """The parts of a URL, and its options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # Its message may show the URL, which may hold a password.
        raise BadConfig(f"this is not a URL; known URLs: {KNOWN}") from None
    if "\0" in url or "%00" in url:
        raise BadConfig("the URL holds %00, which no file, host, name or password may; write it without")
    if parts.fragment:
        raise BadConfig("the part behind # would be lost; write %23 for a # in a file's name or a password")
    return parts, dict(parse_qsl(parts.query, keep_blank_values=True))


def check_memory(parts: SplitResult, options: dict[str, str]) -> None:
    """Refuse a URL of the memory store with a host, path or options."""
    _check_options("memory://", options, ())
    if parts.netloc or parts.path:
        raise BadConfig("the store in memory has no name; write memory://")


def sqlite_path(parts: SplitResult, options: dict[str, str]) -> str:
    """The file that a SQLite URL names."""
    _check_options("sqlite://", options, ("profile",))
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or not path:
        raise BadConfig(
            "a SQLite URL names a file after three slashes, as in sqlite:///headrace.db, and no host or user"
        )
    check_path("the file of a SQLite URL", path)
    if path.startswith(":memory:"):
        raise BadConfig("SQLite in memory is not shared by connections; write memory://")
    return path


def unknown_scheme(parts: SplitResult) -> BadConfig:
    """The refusal of a URL that means no store."""
    return BadConfig(f"no store for scheme {bounded_repr(parts.scheme)}; known URLs: {KNOWN}")


def _check_options(store: str, options: dict[str, str], known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            raise BadConfig(
                f"{store} has no option {bounded_repr(option)}; known options: {', '.join(known) or 'none'}"
            )


def with_whole_path(url: str) -> str:
    """The URL, with an absolute path for a file: for processes that may run in another folder."""
    if url.startswith(_RELATIVE) and not url.startswith(f"{_RELATIVE}/"):
        return f"{_RELATIVE}{quote(str(Path.cwd()))}/{url.removeprefix(_RELATIVE)}"
    return url


async def schema_of(url: str) -> Schema:
    """Read the schema version of the store at `url`, without creating, migrating or loading anything: a missing file or
    schema has `found=None`. A store of a newer Headrace raises `BadConfig`."""
    parts, options = split(url)
    if parts.scheme == "memory":
        check_memory(parts, options)
        return Schema(found=0, known=0)
    if parts.scheme == "sqlite":
        path = sqlite_path(parts, options)
        from headrace.stores.sqlite.connection import schema_of as schema_of_file

        return await asyncio.to_thread(schema_of_file, path)
    if parts.scheme in POSTGRES:
        with needing_postgres():
            from headrace.stores.postgres.connection import settings_of
            from headrace.stores.postgres.server import schema_of as schema_of_database
        return await asyncio.to_thread(schema_of_database, settings_of(url))
    if parts.scheme in REDIS:
        with needing_redis():
            from headrace.stores.redis.health import schema_of as schema_of_servers
            from headrace.stores.redis.url import options_of
        return await schema_of_servers(options_of(parts, options))
    if parts.scheme in HTTP:
        return Schema(found=0, known=0)  # the service has opened its store, and so migrated it
    raise unknown_scheme(parts)


async def migrate(url: str) -> Migrated:
    """Migrate the store at `url` as opening it does, creating it when missing; returns the schema before and after."""
    before = await schema_of(url)
    store = await open_store(url)
    await store.close()
    return Migrated(before=before, after=await schema_of(url))
