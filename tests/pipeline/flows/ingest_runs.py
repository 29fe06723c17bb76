"""What tests of ingests share: an empty store, a quiet Spark, counts that add up, and a store that nobody touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.names import DEFAULT_TENANT
from headrace.pipeline import Ingested
from headrace.stores.catalog import all_feeds, all_tenants
from headrace.stores.contract.store import Store
from tests.pipeline.served import ask, fresh_url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[None]:
    """Java says nothing, as in a command: what is printed then is ours."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("ERROR")


def shown(ingested: Ingested) -> dict[str, object]:
    """The counts that are not zero, which add up."""
    assert sum(ingested.counts().values()) + sum(ingested.refused.values()) == ingested.rows
    found: dict[str, object] = {name: count for name, count in ingested.counts().items() if count}
    return found | ({"refused": ingested.refused} if ingested.refused else {})


def is_untouched(url: str) -> bool:
    """Whether a store has neither queues nor feeds."""

    async def look(store: Store) -> bool:
        return not await all_tenants(store) and not await all_feeds(store, DEFAULT_TENANT)

    return ask(url, look)
