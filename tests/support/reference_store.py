"""Opens a store with a memory store as its reference, to compare the two after the same calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.model.clock import SystemClock
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.stores.contract.store import Store
from headrace.stores.memory.rows import MemoryRows
from headrace.stores.memory.store import MemoryStore, MemoryTx
from tests.support.stores import STORES

FIRST_DRAWN = 10**9
"""The first value of counters in two stores that count differently."""


class CountingTx(MemoryTx):
    """Rows in memory whose counters do not start at zero."""

    def __init__(self, *, drawn: int, fence: int) -> None:
        super().__init__(SystemClock())
        self._drawn, self._fence = drawn, fence

    def _new_rows(self, shard: Shard, config: QueueConfig) -> MemoryRows:
        rows = super()._new_rows(shard, config)
        rows.counters.number = rows.counters.dead_letter = self._drawn
        rows.counters.fence = self._fence
        return rows


@asynccontextmanager
async def open_with_reference(name: str, folder: Path) -> AsyncIterator[tuple[Store, Store]]:
    """A fresh store in memory, and one of that name.

    PostgreSQL draws fences and the like for all shards together, memory for each shard by itself; a Redis that keeps no
    file lets fences begin at its clock. Both start far from the next power of ten then, so that journal lines are of
    the same length and the byte limit cuts them alike.
    """
    async with STORES["memory"](folder) as reference, STORES[name](folder) as candidate:
        if name == "postgres":
            from tests.support.server_cleanup import cleaner_of
            from tests.support.servers import postgres_server

            cleaner_of(postgres_server()).draw_from(FIRST_DRAWN)
            assert isinstance(reference, MemoryStore)
            reference._engine.tx = CountingTx(drawn=FIRST_DRAWN, fence=FIRST_DRAWN)
        elif name.startswith("redis"):
            assert isinstance(reference, MemoryStore)
            reference._engine.tx = CountingTx(drawn=0, fence=SystemClock().now_ms() * 1_000)
        try:
            yield reference, candidate
        finally:
            await candidate.close()
