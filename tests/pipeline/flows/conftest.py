"""Keeps tests of flows apart from each other."""

from collections.abc import Iterator

import pytest

from tests.pipeline.flows.fleet_app import app


@pytest.fixture(autouse=True)
def fleet_app_without_a_store() -> Iterator[None]:
    """Take back the URL that a test gave to the app, which all tests of a process share."""
    yield
    app._url = None
