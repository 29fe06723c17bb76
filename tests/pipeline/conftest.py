"""One Spark for all tests of the pipeline."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.start import SHORT_RUN, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session("headrace tests", "local[2]", **SHORT_RUN)
    yield running
    running.stop()
