"""Opens the store of a read or a write, where it is needed: on the driver, or in a task."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.pipeline.source.urls import check_url
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store


@contextmanager
def opened(url: str) -> Iterator[tuple[asyncio.Runner, Store]]:
    """The store at `url` and the loop that it belongs to, until the block ends.

    Opened by whoever uses it: a connection that was open before a fork is not safe to use after it.
    """
    check_url(url)
    with asyncio.Runner() as runner:
        store = runner.run(open_store(url))
        try:
            yield runner, store
        finally:
            runner.run(store.close())
