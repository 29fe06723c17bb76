"""The app of these tests, forgetting what it did, and the kit of it."""

import pytest

from headrace import App
from tests.testing import shop


@pytest.fixture
def headrace_app() -> App:
    """The app in `shop`, as new."""
    shop.LOG.clear()
    shop.ANSWERS.clear()
    return shop.app
