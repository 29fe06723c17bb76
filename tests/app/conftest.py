"""Stores for the tests of the app: a file of its own for most, the shared servers for some."""

import secrets
from pathlib import Path

import pytest

from headrace import App
from tests.support.stores import SHARED_URLS, sqlite_url


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in a file of the test's own."""
    return sqlite_url(tmp_path)


@pytest.fixture
def app(url: str) -> App:
    """An app on a store in a file."""
    return App(url)


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def any_app(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    """An app on each store, with its own tenant."""
    name: str = request.param
    url = "memory://" if name == "memory" else SHARED_URLS[name](tmp_path)
    return App(url, tenant=f"t{secrets.token_hex(6)}")
