"""The stores that the worker's promises are tried on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.clock import ManualClock
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.support.stores import STORES
from tests.worker.flaky import FlakyStore


@pytest.fixture
def store() -> Store:
    """A fresh store in memory."""
    return MemoryStore()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def timed(clock: ManualClock) -> Store:
    """A fresh store in memory that goes by the test's clock."""
    return MemoryStore(clock)


@pytest.fixture
def flaky(store: Store) -> FlakyStore:
    """The same store, failing on command."""
    return FlakyStore(store)


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Store]:
    """An emptied store that can be opened more than once; `shared_name` says which."""
    opened = STORES[request.param](tmp_path)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def shared_name(request: pytest.FixtureRequest, shared: Store) -> str:
    """Which store `shared` is."""
    return str(request.node.callspec.params["shared"])
