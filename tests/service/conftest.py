"""A service over a store in memory, for the tests that do not choose their own."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from headrace.stores.open import open_store
from tests.service.support import Running, running


@pytest.fixture
def service(runner: asyncio.Runner) -> Iterator[Running]:
    """A service over a fresh store in memory."""
    stack = AsyncExitStack()

    async def start() -> Running:
        store = await open_store("memory://")
        stack.push_async_callback(store.close)
        return await stack.enter_async_context(running(store))

    yield runner.run(start())
    runner.run(stack.aclose())
