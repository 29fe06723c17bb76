"""How far the schema of a store has got, without opening it; and bringing it up to date."""

import asyncio

from headrace.model.integrity import Migrated, Schema
from headrace.stores.open import (
    POSTGRES,
    REDIS,
    check_memory,
    needing_postgres,
    needing_redis,
    open_store,
    split,
    sqlite_path,
    unknown_scheme,
)


async def schema_of(url: str) -> Schema:
    """Look how far the schema of the store at `url` has got. Nothing is made, migrated or loaded: a file or schema that
    is missing has `found=None`. A store of a newer Headrace raises `BadConfig`."""
    parts, options = split(url)
    if parts.scheme == "memory":
        check_memory(parts, options)
        return Schema(found=0, known=0)
    if parts.scheme == "sqlite":
        path = sqlite_path(parts, options)
        from headrace.stores.sqlite.schema import schema_of as schema_of_file

        return await asyncio.to_thread(schema_of_file, path)
    if parts.scheme in POSTGRES:
        with needing_postgres():
            from headrace.stores.postgres.connect import settings_of
            from headrace.stores.postgres.migrate import schema_of as schema_of_database
        return await asyncio.to_thread(schema_of_database, settings_of(url))
    if parts.scheme in REDIS:
        with needing_redis():
            from headrace.stores.redis.options import options_of
            from headrace.stores.redis.schema import schema_of as schema_of_servers
        return await schema_of_servers(options_of(parts, options))
    raise unknown_scheme(parts)


async def migrate(url: str) -> Migrated:
    """Bring the store at `url` up to date, making it when missing: what opening it does, told before and after."""
    before = await schema_of(url)
    store = await open_store(url)
    await store.close()
    return Migrated(before=before, after=await schema_of(url))
