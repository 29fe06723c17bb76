"""Opens the stores that the conformance suite runs on: a new store is one more line here."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

Opener = Callable[[Path], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def open_memory(_: Path) -> AsyncIterator[Store]:
    """A fresh store in memory."""
    store = await open_store("memory://")
    yield store
    await store.close()


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[Store]:
    """A fresh store in a file of the test's own folder."""
    store = await open_store(sqlite_url(folder))
    yield store
    await store.close()


def sqlite_url(folder: Path) -> str:
    """The URL of a file in a folder; `fast`, since no test cuts the power."""
    return f"sqlite:///{folder / 'headrace.db'}?profile=fast"


STORES: dict[str, Opener] = {"memory": open_memory, "sqlite": open_sqlite}
SHARED_URLS: dict[str, Callable[[Path], str]] = {"sqlite": sqlite_url}
"""Stores that several processes can open at once, by the URL for a folder."""
