"""Fixtures for ingests: an empty store, a quiet Spark, and checks of counts and stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.names import DEFAULT_TENANT
from headrace.pipeline import IngestReport
from headrace.stores.catalog import all_feeds, all_tenants
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import call_store, fresh_url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[None]:
    """Silence Java, as in a command."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("ERROR")


def counts_of(report: IngestReport) -> dict[str, object]:
    """The counts that are not zero, which add up."""
    assert sum(report.counts().values()) + sum(report.refused.values()) == report.rows
    counts: dict[str, object] = {name: count for name, count in report.counts().items() if count}
    return counts | ({"refused": report.refused} if report.refused else {})


def is_untouched(url: str) -> bool:
    """Whether a store has neither queues nor feeds."""

    async def is_empty(store: Store) -> bool:
        return not await all_tenants(store) and not await all_feeds(store, DEFAULT_TENANT)

    return call_store(url, is_empty)
