"""Stores for the tests of feeds, and the feeds of two instances on them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Feeds, Store
from headrace.testing import FaultyStore
from tests.support.stores import STORES


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Store]:
    """A fresh store."""
    opened = STORES[request.param](tmp_path)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def feeds(store: Store) -> Feeds:
    """The feeds of the test."""
    return Feeds(store, instance="here")


@pytest.fixture
def others(store: Store) -> Feeds:
    """The same feeds for another instance."""
    return Feeds(store, instance="elsewhere")


@pytest.fixture
def faulty(tmp_path: Path, runner: asyncio.Runner) -> Iterator[FaultyStore]:
    """A store in memory that fails on command, and counts calls."""
    opened = STORES["memory"](tmp_path)
    yield FaultyStore(runner.run(opened.__aenter__()))
    runner.run(opened.__aexit__(None, None, None))
