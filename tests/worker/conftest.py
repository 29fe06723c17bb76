"""The stores for the tests of the worker, and a time limit for tests that hang."""

import asyncio
import inspect
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from headrace.model.clock import ManualClock
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.testing.faults import FaultyStore
from tests.support.stores import STORES

TEST_SECONDS = 60
"""Far more than any test here takes: an awaited event will not come any more."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Make a coroutine test that hangs fail at the line where it waits."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return

    @wraps(test)
    async def bounded(**given: Any) -> None:
        async with asyncio.timeout(TEST_SECONDS):
            await test(**given)

    pyfuncitem.obj = bounded


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
    """A fresh store in memory with the test's clock."""
    return MemoryStore(clock)


@pytest.fixture
def flaky(store: Store) -> FaultyStore:
    """The same store, failing on command."""
    return FaultyStore(store)


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Store]:
    """An emptied store that can be opened more than once, of the kind `shared_name`."""
    opened = STORES[request.param](tmp_path)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def shared_name(request: pytest.FixtureRequest, shared: Store) -> str:
    """Which store `shared` is."""
    return str(request.node.callspec.params["shared"])
