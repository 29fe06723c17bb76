"""Every promise is tried on every store, with one shard and with three: on PostgreSQL, the slowest, with both only
under --everything."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from headrace.stores.contract.store import Store
from tests.support.fault_registry import plant
from tests.support.feed_play import FeedPlay
from tests.support.play import Play
from tests.support.stores import SERVICES, SHARED_URLS, STORES

FAULTS_SHARE = 3
"""One in so many planted faults is planted in `make test`, each time the same ones, and every one in `make proof`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Choose the stores, and plant a fault in one to see whether the suite notices."""
    parser.addoption("--stores", default=",".join(STORES), help="the stores to run on, separated by commas")
    parser.addoption("--fault", default=None, help="a fault of tests/support/fault_registry.py to plant in its store")


def pytest_configure(config: pytest.Config) -> None:
    """Plant the fault of `--fault`."""
    if fault := config.getoption("--fault"):
        plant(fault)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case per store and number of shards."""
    chosen = metafunc.config.getoption("--stores").split(",")
    if "store_name" in metafunc.fixturenames:
        # A store of one process cannot be opened by a second one.
        shared = "shared_url" in metafunc.fixturenames
        metafunc.parametrize("store_name", [name for name in chosen if not shared or name in SHARED_URLS])
    if "other_store" in metafunc.fixturenames:
        metafunc.parametrize("other_store", [name for name in chosen if name != "memory"])
    if "shards" in metafunc.fixturenames:
        metafunc.parametrize("shards", [1, 3], ids=["1-shard", "3-shards"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what differs from a case that runs in nothing but time."""
    everything: bool = config.getoption("--everything")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (left if _adds_little(item, everything) else kept).append(item)
    if left:
        items[:] = kept
        config.hook.pytest_deselected(items=left)


def _adds_little(item: pytest.Item, everything: bool) -> bool:
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    store, shards = params.get("store_name"), params.get("shards")
    if store == "redis-cluster":
        return shards == 1  # one shard on a cluster is one on a server
    if "fault" in params:
        return not everything and crc32(str(params["fault"]).encode()) % FAULTS_SHARE != 0
    if store == "postgres" and shards is not None and not everything:
        # A test there takes six times as long as elsewhere: one half runs with one shard, the other with three.
        return shards != (1, 3)[crc32(getattr(item, "originalname", "").encode()) % 2]
    return False


@pytest.fixture
def store(store_name: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Store]:
    """A fresh store."""
    opened = {**STORES, **SERVICES}[store_name](tmp_path)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def shared_url(store_name: str, tmp_path: Path) -> str:
    """The URL of the fresh store, for other processes."""
    return SHARED_URLS[store_name](tmp_path)


@pytest.fixture
def play(store: Store, shards: int) -> Play:
    """A fresh store with a clock in hand."""
    return Play(store, shards)


@pytest.fixture
def feed(store: Store) -> FeedPlay:
    """A fresh store with the name of an unknown feed, and a clock in hand."""
    return FeedPlay(store)
