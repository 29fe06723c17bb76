"""Stores for the tests of the command line: each command runs on a file and on a server."""

from pathlib import Path

import pytest

from tests.support.stores import SHARED_URLS, sqlite_url


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store in a new file, and an empty Redis with a password."""
    name: str = request.param
    if name == "redis":
        from tests.support.server_cleanup import flush
        from tests.support.servers import redis_server

        flush([redis_server()])
    return SHARED_URLS[name](tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    """A store in a new file, which is there once it was first used: for what is the same on every store."""
    return sqlite_url(tmp_path)
