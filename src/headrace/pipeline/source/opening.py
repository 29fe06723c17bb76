"""Opens the store of a read or a write, where it is needed: on the driver, or in a task."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from headrace.pipeline.source.urls import check_url
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

Answer = TypeVar("Answer")


class _Runner(asyncio.Runner):  # type: ignore[misc]  # final in the stubs alone
    """A runner that leaves signals alone.

    Python's own handles Ctrl-C around each call, and to take that handler off again it writes out (`repr`) the answer
    of the call, twice: of a page of a thousand jobs that costs more than to read it.
    """

    def run(self, coro: Coroutine[Any, Any, Answer], *, context: Context | None = None) -> Answer:
        loop = self.get_loop()
        return loop.run_until_complete(loop.create_task(coro, context=context))


@contextmanager
def opened(url: str) -> Iterator[tuple[asyncio.Runner, Store]]:
    """The store at `url` and the loop that it belongs to, until the block ends.

    Opened by whoever uses it: a connection that was open before a fork is not safe to use after it.
    """
    check_url(url)
    with _Runner() as runner:
        store = runner.run(open_store(url))
        try:
            yield runner, store
        finally:
            runner.run(store.close())
