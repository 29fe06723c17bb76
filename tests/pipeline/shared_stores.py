"""Emptied stores of every kind that Spark can reach, by URL, and batches of them as a task would read them."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pyspark.sql.worker.data_source_pushdown_filters  # noqa: F401  (as in Spark's program that pushes filters)
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, Filter

from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.schema import table_of
from headrace.pipeline.source.source import HeadraceSource
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.stores import SHARED_URLS, STORES

SERVED = ("sqlite", "redis", "postgres")
ONE_OF_SERVED = ("sqlite", *(pytest.param(name, marks=pytest.mark.proof) for name in SERVED[1:]))
"""For promises of Spark that take long and hold whatever the store: `make proof` keeps them on every store."""
TWO_OF_SERVED = (*SERVED[:2], pytest.param("postgres", marks=pytest.mark.proof))
"""For promises that differ between SQL and Redis, and take long."""
Found = TypeVar("Found")


def fresh_url(name: str, folder: Path) -> str:
    """The URL of an empty store."""

    async def empty() -> None:
        async with STORES[name](folder):
            pass

    asyncio.run(empty())
    return SHARED_URLS[name](folder)


def call_store(url: str, use: Callable[[Store], Awaitable[Found]]) -> Found:
    """The result of a call to the store at a URL."""

    async def call() -> Found:
        store = await open_store(url)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(call())


class Batch:
    """A batch read as Spark does it: filters pushed, planned, and each part read by a copy of the reader."""

    def __init__(self, *filters: Filter, **options: str) -> None:
        source = HeadraceSource(CaseInsensitiveDict(options))
        reader: Any = source.reader(source.schema())
        table = table_of(SourceOptions.parse(options))
        self.left = list(reader.pushFilters(list(filters)))
        """The filters that were left to Spark."""
        self.parts: list[Any] = reader.partitions()
        self.sizes: list[int] = []
        """Of the Arrow batches."""
        self.rows: list[dict[str, Any]] = []
        for part in self.parts:
            task, part = pickle.loads(pickle.dumps((reader, part)))  # noqa: S301, PLW2901  (as Spark does)
            for batch in task.read(part):
                assert batch.schema == table.arrow
                self.sizes.append(batch.num_rows)
                self.rows += batch.to_pylist()
