"""`schema_of` reports the pending steps of a schema without touching it, and `migrate` takes them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.integrity import Schema
from headrace.stores.open import migrate, schema_of
from headrace.stores.postgres.connection import connect as connect_postgres
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.server import migrate as migrate_postgres
from headrace.stores.postgres.sql import migration_names as postgres_steps
from headrace.stores.postgres.sql import migrations as postgres_migrations
from headrace.stores.redis.library import LAYOUT, read_library
from headrace.stores.sqlite.sql import migration_names, migrations
from tests.support.redis_servers import RedisServer
from tests.support.servers import PASSWORD, USER, postgres_server, redis_cluster, redis_server

STEPS = migration_names()
KNOWN = int(STEPS[-1].partition("_")[0])
NEWER = "#!lua name=headrace_9_abcdef01\nredis.register_function('headrace_9', function() return 1 end)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my jobs.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def no_store(file: Path, url: str) -> str:
    """The URL of a file that is no SQLite file."""
    file.write_bytes(b"not a database at all, but long enough to look like one" * 10)
    return url


def bytes_of(file: Path) -> bytes:
    return file.read_bytes()


async def test_memory_has_no_schema_to_bring_up_to_date() -> None:
    assert await schema_of("memory://") == Schema(found=0, known=0)


async def test_a_missing_file_is_reported_and_not_created(url: str, file: Path) -> None:
    schema = await schema_of(url)

    assert schema == Schema(found=None, known=KNOWN, pending=tuple(STEPS))
    assert list(file.parent.iterdir()) == []


async def test_migrate_creates_a_file_and_then_has_no_steps_left(url: str) -> None:
    first, second = await migrate(url), await migrate(url)

    whole = Schema(found=KNOWN, known=KNOWN)
    assert (first.before.found, first.after) == (None, whole)
    assert (second.before, second.after) == (whole, whole)


async def test_a_file_of_an_older_version_names_the_steps_that_are_left(
    url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(url)
    before = bytes_of(file)
    step = (9999, ["CREATE TABLE later (a)"])
    monkeypatch.setattr("headrace.stores.sqlite.connection.migrations", lambda: [*migrations(), step])
    for module in ("connection", "store"):
        monkeypatch.setattr(f"headrace.stores.sqlite.{module}.migration_names", lambda: [*STEPS, "9999_later"])

    schema = await schema_of(url)

    assert schema == Schema(found=KNOWN, known=9999, pending=("9999_later",))
    assert bytes_of(file) == before
    assert (await migrate(url)).after.pending == ()


async def test_a_file_of_a_newer_headrace_is_refused(url: str, file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")

    for call in (schema_of, migrate):
        with pytest.raises(BadConfig, match=rf"has schema 999, this Headrace knows {KNOWN}; use a newer Headrace"):
            await call(url)


async def test_a_url_of_no_store_is_refused(no_store: str) -> None:
    with pytest.raises(StoreUnavailable, match="check that it is a Headrace file"):
        await schema_of(no_store)
    for wrong in ("mongo://host", "sqlite://host/x.db", "memory://name", "sqlite:///x.db?wrong=1"):
        with pytest.raises(BadConfig):
            await schema_of(wrong)


async def test_a_postgres_schema_is_read_without_creating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{postgres_server().url}?schema=looked_at&profile=fast"
    first = postgres_migrations()
    known = first[-1][0] + 1
    steps = [*postgres_steps(), f"{known:04}_later"]
    monkeypatch.setattr("headrace.stores.postgres.server.migrations", lambda: [*first, (known, ["SELECT 1;"])])
    monkeypatch.setattr("headrace.stores.postgres.server.migration_names", lambda: steps)

    missing = await schema_of(url)
    schemas = postgres_server().ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'looked_at'")
    with closing(connect_postgres(settings_of(url))) as connection:
        migrate_postgres(connection, settings_of(url), upto=known - 1)
    half, migrated = await schema_of(url), await migrate(url)

    postgres_server().ask("UPDATE looked_at.store SET layout = 999")
    with pytest.raises(BadConfig, match=f"has layout 999, this Headrace knows {known}; use a newer Headrace"):
        await schema_of(url)
    postgres_server().ask("DROP SCHEMA looked_at CASCADE")
    assert (missing.found, missing.pending, schemas) == (None, tuple(steps), [(0,)])
    assert (half.found, half.pending) == (known - 1, tuple(steps[-1:]))
    assert migrated.after == Schema(found=known, known=known)


@pytest.mark.parametrize("clustered", [False, True], ids=["single", "cluster"])
async def test_missing_functions_of_a_redis_are_reported_and_loaded_by_migrate(clustered: bool) -> None:
    servers = redis_cluster().servers if clustered else [redis_server()]
    url = (redis_cluster() if clustered else redis_server()).url_of(USER, PASSWORD)
    name = read_library(clustered=clustered).name
    for server in servers:
        server.ask("FUNCTION", "FLUSH")

    missing = await schema_of(url)
    none_yet = servers[-1].ask("FUNCTION", "LIST")
    migrated = await migrate(url)
    servers[-1].ask("FUNCTION", "FLUSH")
    partly = await schema_of(url)

    assert missing == Schema(found=None, known=LAYOUT, pending=(f"load {name}",), library=name)
    assert none_yet == []
    assert migrated.after == Schema(found=LAYOUT, known=LAYOUT, library=name)
    assert partly.pending == (f"load {name}",)


async def test_a_redis_on_which_a_newer_layout_is_in_use_is_refused() -> None:
    server = redis_server()
    server.ask("FUNCTION", "LOAD", NEWER)

    try:
        with pytest.raises(BadConfig, match=f"has functions of layout 9, this Headrace knows {LAYOUT}"):
            await schema_of(server.url_of(USER, PASSWORD))
    finally:
        server.ask("FUNCTION", "DELETE", "headrace_9_abcdef01")


async def test_servers_that_are_not_there_are_unavailable() -> None:
    with RedisServer() as server:
        url = server.launch().url

    for missing in (url, url.replace("redis://", "postgres://user:secret@") + "/db"):
        with pytest.raises(StoreUnavailable) as unavailable:
            await schema_of(missing)
        assert "secret" not in str(unavailable.value)
