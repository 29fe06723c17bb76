"""The items protocol on PostgreSQL: a step locks its feed and reads in one round trip, and writes in another."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.model.feed import FeedName
from headrace.stores.engine.items import EngineItems
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.transaction import PostgresTx

T = TypeVar("T")


class PostgresItems(EngineItems):
    """Writers of a feed follow each other, so every round trip under its lock is one that all of them wait for."""

    async def _write(self, feed: FeedName, ids: Sequence[str], act: Callable[[Tx], T]) -> T:
        def locked(tx: Tx) -> T:
            assert isinstance(tx, PostgresTx)
            tx.feeds.lock_ahead(feed, ids)
            return act(tx)

        return await self._engine.write(locked)
