"""Streams on a local Spark."""

from pathlib import Path

import pytest

from tests.pipeline.shared_stores import ONE_OF_SERVED, fresh_url

# Collected here under the `spark` of this folder.
from tests.pipeline.streams import (  # noqa: F401
    test_a_stream_reads_each_event_once_through_failures_restarts_and_other_limits,
    test_what_a_stream_misses_is_refused_or_skipped_with_a_count_in_the_progress,
)


@pytest.fixture(params=ONE_OF_SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)
