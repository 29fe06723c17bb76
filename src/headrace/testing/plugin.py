"""A pytest plugin with an app on a store in memory as a fixture, for plain tests and for coroutines."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# pytest imports this in every run, also in those that test no jobs: the kit is imported by the fixtures that need it.
if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.testing.kit import AsyncKit, Kit
    from headrace.testing.store import KitClock, KitStore


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the configuration of pytest name the app."""
    parser.addini("headrace_app", "the Headrace app under test, as module:name", default="")


@pytest.fixture
def headrace_clock() -> "KitClock":
    """The clock of the store; starts at the present. Override it for another start."""
    from headrace.testing.store import KitClock

    return KitClock()


@pytest.fixture
def headrace_store(headrace_clock: "KitClock") -> "Iterator[KitStore]":
    """A store in memory that fails on command; for clients and workers of your own."""
    from headrace.testing.store import KitStore

    store = KitStore(headrace_clock)
    yield store
    store.end()


@pytest.fixture
def headrace_app(request: pytest.FixtureRequest) -> "App":
    """The app of the project: `headrace_app` of pytest's configuration, else `[tool.headrace] app` of pyproject.toml.
    Override it to return another."""
    from headrace.model.errors import BadConfig

    try:
        return project_app(request.config.rootpath, str(request.config.getini("headrace_app") or ""))
    except BadConfig as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def headrace(
    request: pytest.FixtureRequest, headrace_app: "App", headrace_store: "KitStore"
) -> "Iterator[Kit | AsyncKit]":
    """The kit of the app: a `Kit` in a plain test, an `AsyncKit` in a test that is a coroutine."""
    from headrace.testing.kit import AsyncKit, Kit

    with ExitStack() as block:
        block.enter_context(headrace_app.using(headrace_store, headrace_store.clock))
        if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
            yield AsyncKit(headrace_app, headrace_store)
        else:
            kit = Kit(headrace_app, headrace_store)
            block.callback(kit.close)
            yield kit


def project_app(root: Path, named: str) -> "App":
    """The app named in pytest's configuration, else by the project at `root`; raises `BadConfig`."""
    from headrace.app.discovery import load_app, project_table
    from headrace.model.errors import BadConfig

    target = named or project_table(root).get("app")
    if not isinstance(target, str) or not target:
        raise BadConfig(
            'no app was named for the fixture headrace; write app = "module:name" under [tool.headrace] in'
            " pyproject.toml, or override the fixture headrace_app"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # pytest may run in a folder below the project
    return load_app(target)
