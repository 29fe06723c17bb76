"""Coroutine tests by anyio's plugin; any other for asyncio will do, and none is needed for plain tests."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Headrace runs on asyncio."""
    return "asyncio"
