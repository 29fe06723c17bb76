"""Opens the service as a store: a service over a store in memory, on a socket of this event loop."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.service.settings import ServiceSettings
from headrace.stores.contract.store import Store
from headrace.stores.http.store import HttpStore
from headrace.stores.http.url import HttpOptions
from headrace.stores.memory.store import MemoryStore
from tests.service.support import Running, running, token

TRUSTING = ServiceSettings(trust_now=True, worker_names_as_given=True)
"""A service that lets tests choose the time and the names of workers, as other stores do."""


@asynccontextmanager
async def open_http(_: Path, tenant: str = "acme") -> AsyncIterator[Store]:
    """A fresh store behind a service of its own."""
    behind = MemoryStore(None)
    async with running(behind, settings=TRUSTING) as service, http_store(service, tenant) as store:
        yield store
    await behind.close()


@asynccontextmanager
async def http_store(service: Running, tenant: str = "acme") -> AsyncIterator[HttpStore]:
    """A service as a store of a tenant."""
    before = os.environ.get("HEADRACE_TOKEN")
    os.environ["HEADRACE_TOKEN"] = token(tenant)
    try:
        store = await HttpStore.open(HttpOptions(base=f"{service.url}/v1"))
    finally:
        del os.environ["HEADRACE_TOKEN"]
        if before is not None:
            os.environ["HEADRACE_TOKEN"] = before
    try:
        yield store
    finally:
        await store.close()
