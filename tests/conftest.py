"""Lets tests be coroutines, each on an event loop of its own that its fixtures share, and ends what they started."""

import asyncio
import inspect
import sys
from collections.abc import Iterator

import pytest


def pytest_unconfigure() -> None:
    """Stop the servers that tests have started."""
    if process := sys.modules.get("tests.support.process"):
        process.close_all()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of one test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the loop that its fixtures used."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    runner: asyncio.Runner = pyfuncitem._request.getfixturevalue("runner")
    names = pyfuncitem._fixtureinfo.argnames
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
