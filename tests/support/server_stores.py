"""Opens the stores that live on servers, each emptied first, and counts what they hold."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.postgres.connection import settings_of
from headrace.stores.postgres.store import PostgresStore
from headrace.stores.redis.store import RedisStore
from tests.support.redis_servers import RedisServer
from tests.support.server_cleanup import SCHEMA, cleaner_of, count_keys, flush, rewrite_streams
from tests.support.servers import PASSWORD, USER, postgres_server, redis_cluster, redis_server


def redis_url(_: Path) -> str:
    """The URL of this process's Redis, as the user with the least rights."""
    return redis_server().url_of(USER, PASSWORD)


def cluster_url(_: Path) -> str:
    """The URL of this process's cluster, as the user with the least rights."""
    return redis_cluster().url_of(USER, PASSWORD)


def postgres_url(_: Path) -> str:
    """The URL of this process's PostgreSQL; `fast`, since no test cuts the power."""
    return f"{postgres_server().url}?profile=fast"


@asynccontextmanager
async def open_redis(folder: Path) -> AsyncIterator[Store]:
    """A store on an emptied Redis."""
    flush([redis_server()])
    store = await open_store(redis_url(folder))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_cluster(folder: Path) -> AsyncIterator[Store]:
    """A store on an emptied cluster."""
    flush(redis_cluster().servers)
    store = await open_store(cluster_url(folder))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_postgres(folder: Path) -> AsyncIterator[Store]:
    """A store on emptied tables; fast paths are tried on every call, so that both ways are."""
    cleaner_of(postgres_server()).empty()
    store = await PostgresStore.open(settings_of(postgres_url(folder)), slow_calls=0)
    yield store
    await store.close()


def sizes_of(store: Store, servers: list[RedisServer]) -> dict[str, int]:
    """The sizes of a store's keys on the servers, and the number of its waiters."""
    assert isinstance(store, RedisStore)
    signals = store.signals
    found = count_keys(servers, signals._pubsub._left)
    found["waiters"] = len(signals._waiters) + len(signals._ends) + len(signals._feeds)
    found["waiters"] += len(signals._pubsub._users)
    return {name: size for name, size in found.items() if size}


async def redis_leftovers(store: Store, _: Path) -> dict[str, int]:
    """How many members the keys have, by kind."""
    return sizes_of(store, [redis_server()])


async def cluster_leftovers(store: Store, _: Path) -> dict[str, int]:
    """How many members the keys of all masters have, by kind."""
    return sizes_of(store, redis_cluster().servers)


async def postgres_leftovers(store: Store, _: Path) -> dict[str, int]:
    """How many rows the tables have once what was appended to the journal has got its numbers."""
    for tenant in (await store.queues.tenants()).rows:
        for queue in (await store.queues.names(tenant)).rows:
            for shard in queue.all_shards():
                await store.journal.bounds(shard)
    assert isinstance(store, PostgresStore)
    found = {**cleaner_of(postgres_server()).count(), "waiters": len(store.signals)}
    return {name: size for name, size in found.items() if size}


async def redis_rewrite(_: Store, __: Path, old: bytes, new: bytes) -> None:
    """Put `new` where the journals of the server hold `old`."""
    rewrite_streams([redis_server()], old, new)


async def cluster_rewrite(_: Store, __: Path, old: bytes, new: bytes) -> None:
    """Put `new` where the journals of all masters hold `old`."""
    rewrite_streams(redis_cluster().servers, old, new)


async def postgres_rewrite(store: Store, _: Path, old: bytes, new: bytes) -> None:
    """Put `new` where the journals hold `old`, once what was appended has got its numbers."""
    await postgres_leftovers(store, _)
    with postgres_server().connect() as connection:
        text = f"replace(encode(lines, 'hex'), '{old.hex()}', '{new.hex()}')"
        connection.execute(f"UPDATE {SCHEMA}.journal SET lines = decode({text}, 'hex')".encode())  # noqa: S608 - hex digits


async def redis_recount(_: Store, __: Path, at_ms: int) -> None:
    """Let the entries of an instant claim one event more than they have."""
    rewrite_streams([redis_server()], b" 1 %d " % at_ms, b" 2 %d " % at_ms)


async def cluster_recount(_: Store, __: Path, at_ms: int) -> None:
    """Let the entries of an instant claim one event more than they have."""
    rewrite_streams(redis_cluster().servers, b" 1 %d " % at_ms, b" 2 %d " % at_ms)


async def postgres_recount(store: Store, _: Path, at_ms: int) -> None:
    """Let the entries of an instant claim one event more than they have, once what was appended has got its numbers."""
    await postgres_leftovers(store, _)
    with postgres_server().connect() as connection:
        connection.execute(f"UPDATE {SCHEMA}.journal SET count = count + 1 WHERE at_ms = {at_ms:d}".encode())  # noqa: S608 - a number
