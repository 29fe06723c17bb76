"""Opens the stores that the conformance suite runs on: a new store is one more line here."""

import sqlite3
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.stores.open import open_store
from headrace.stores.sqlite.store import SqliteStore

Opener = Callable[[Path], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def open_memory(_: Path) -> AsyncIterator[Store]:
    """A fresh store in memory."""
    store = await open_store("memory://")
    yield store
    await store.close()


_EMPTY: list[bytes] = []
"""The file of a store that was just made: to write it anew takes longer than most tests."""


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[Store]:
    """A fresh store in a file of the test's own folder; fast paths are tried on every call, so that both ways are."""
    if not _EMPTY:
        await (await SqliteStore.open(str(folder / "empty.db"), profile="fast")).close()
        _EMPTY.append((folder / "empty.db").read_bytes())
    (folder / "headrace.db").write_bytes(_EMPTY[0])
    store = await SqliteStore.open(str(folder / "headrace.db"), profile="fast", slow_calls=0)
    yield store
    await store.close()


def sqlite_url(folder: Path) -> str:
    """The URL of a file in a folder; `fast`, since no test cuts the power."""
    return f"sqlite:///{folder / 'headrace.db'}?profile=fast"


async def memory_leftovers(store: Store, _: Path) -> dict[str, int]:
    """How much the store in memory holds, by structure."""
    assert isinstance(store, MemoryStore)
    engine = store._engine
    waiters = len(engine._waiters) + len(engine._ends) + len(engine._followers)
    found = Counter({"queues": len(engine.tx._queues), "feeds": len(engine.tx._feeds), "waiters": waiters})
    shards = [rows for each in engine.tx._queues.values() for rows in each]
    for owner in (*shards, *engine.tx._feeds.values()):
        found.update({name: len(value) for name, value in vars(owner).items() if isinstance(value, Sized)})
    return {name: size for name, size in found.items() if size}


async def sqlite_leftovers(store: Store, folder: Path) -> dict[str, int]:
    """How many rows are in the file, by table; the one row of `store` describes the file itself."""
    assert isinstance(store, SqliteStore)
    engine = store._engine
    waiters = len(engine._waiters) + len(engine._ends) + len(engine._followers) + len(engine._watch)
    found = {"waiters": waiters}
    with closing(sqlite3.connect(folder / "headrace.db")) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'store'"
        ).fetchall()
        for (table,) in tables:
            [found[table]] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names
    return {name: size for name, size in found.items() if size}


async def memory_rewrite(store: Store, _: Path, old: bytes, new: bytes) -> None:
    """Put `new` where the journals of the store in memory hold `old`."""
    assert isinstance(store, MemoryStore)
    for rows in [rows for each in store._engine.tx._queues.values() for rows in each]:
        rows._entries = deque(replace(entry, lines=entry.lines.replace(old, new)) for entry in rows._entries)


async def memory_recount(store: Store, _: Path, at_ms: int) -> None:
    """Let the entries of an instant claim one event more than they have in the store in memory."""
    assert isinstance(store, MemoryStore)
    for rows in [rows for each in store._engine.tx._queues.values() for rows in each]:
        rows._entries = deque(
            replace(entry, count=entry.count + 1) if entry.at_ms == at_ms else entry for entry in rows._entries
        )


async def sqlite_recount(_: Store, folder: Path, at_ms: int) -> None:
    """Let the entries of an instant claim one event more than they have in the file."""
    with closing(sqlite3.connect(folder / "headrace.db")) as connection, connection:
        connection.execute("UPDATE journal SET count = count + 1 WHERE at_ms = ?", (at_ms,))


async def sqlite_rewrite(store: Store, folder: Path, old: bytes, new: bytes) -> None:
    """Put `new` where the journals of the file hold `old`."""
    with closing(sqlite3.connect(folder / "headrace.db")) as connection, connection:
        for entry_id, lines in connection.execute("SELECT entry_id, lines FROM journal").fetchall():
            connection.execute("UPDATE journal SET lines = ? WHERE entry_id = ?", (lines.replace(old, new), entry_id))


def lazy(name: str) -> Callable[..., Any]:
    """A function of tests.support.server_stores, imported on its first call: runs on memory need no clients of
    servers."""

    def call(*args: Any) -> Any:
        return getattr(import_module("tests.support.server_stores"), name)(*args)

    return call


def open_service(folder: Path) -> AbstractAsyncContextManager[Store]:
    """A fresh store behind a service; imported late, as the servers are."""
    found: AbstractAsyncContextManager[Store] = import_module("tests.support.service_store").open_http(folder)
    return found


STORES: dict[str, Opener] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
    "redis": lazy("open_redis"),
    "redis-cluster": lazy("open_cluster"),
    "postgres": lazy("open_postgres"),
}
SERVICES: dict[str, Opener] = {"http": open_service}
"""The service as a store: suites choose it by name, since its calls go to a store that runs them anyway."""
SHARED_URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": sqlite_url,
    "redis": lazy("redis_url"),
    "redis-cluster": lazy("cluster_url"),
    "postgres": lazy("postgres_url"),
}
"""Stores that several processes can open at once, by the URL for a folder."""
LEFTOVERS: dict[str, Callable[[Store, Path], Awaitable[dict[str, int]]]] = {
    "memory": memory_leftovers,
    "sqlite": sqlite_leftovers,
    "redis": lazy("redis_leftovers"),
    "redis-cluster": lazy("cluster_leftovers"),
    "postgres": lazy("postgres_leftovers"),
}
"""The sizes of a store's structures or tables that are not empty: only here tests look inside stores."""
REWRITES: dict[str, Callable[[Store, Path, bytes, bytes], Awaitable[None]]] = {
    "memory": memory_rewrite,
    "sqlite": sqlite_rewrite,
    "redis": lazy("redis_rewrite"),
    "redis-cluster": lazy("cluster_rewrite"),
    "postgres": lazy("postgres_rewrite"),
}
"""Damages journals past the store: replaces bytes in their lines."""
RECOUNTS: dict[str, Callable[[Store, Path, int], Awaitable[None]]] = {
    "memory": memory_recount,
    "sqlite": sqlite_recount,
    "redis": lazy("redis_recount"),
    "redis-cluster": lazy("cluster_recount"),
    "postgres": lazy("postgres_recount"),
}
"""Lets the entries of an instant overlap those before them by one event, past the store."""
