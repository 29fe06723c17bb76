"""Lets tests be coroutines, each on an event loop of its own that its fixtures share, ends what they started, and
leaves to `make proof` what is marked so."""

import asyncio
import inspect
import sys
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make proof` ask for all tests."""
    parser.addoption("--everything", action="store_true", help="run also what `make test` leaves to `make proof`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `proof`: repeats of a test on another store, or with another seed."""
    if config.getoption("--everything"):
        return
    left = [item for item in items if item.get_closest_marker("proof")]
    if left:
        items[:] = [item for item in items if not item.get_closest_marker("proof")]
        config.hook.pytest_deselected(items=left)


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
