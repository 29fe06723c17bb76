"""Tells the store how far the history is: retention may wait for it, and people see its lag."""

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.names import Shard
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.options import SourceOptions
from headrace.stores.contract.store import Store

_AT_ONCE = 16
"""Calls under way at a time: enough to pipeline, below the size of a connection pool."""


class HistoryConsumer:
    """The places of one consumer in the journals of a store."""

    def __init__(self, consumer: str, options: SourceOptions, *, hold: bool) -> None:
        self._consumer = consumer
        # Without names: one that is gone would be refused.
        self._options = replace(options, names=())
        self._hold = hold
        self._shards: dict[str, Shard] = {}
        self._registered: set[str] = set()

    async def advance(self, store: Store, seqs: Mapping[str, int]) -> None:
        """Move the places to these seqs, by `tenant/queue/shard`. A queue that is gone is left alone."""
        if seqs.keys() - self._shards.keys():
            queues = await find_queues(store, self._options)
            self._shards = {str(shard): shard for queue in queues for shard in queue.all_shards()}
        room = asyncio.Semaphore(_AT_ONCE)

        async def move(name: str, seq: int) -> None:
            async with room:
                try:
                    await self._move(store, self._shards[name], seq)
                except Refused:
                    # Deleted, made anew, or behind the history: the stream itself says so where it matters.
                    self._shards.pop(name, None)
                    self._registered.discard(name)

        await asyncio.gather(*(move(name, seq) for name, seq in seqs.items() if name in self._shards))

    async def _move(self, store: Store, shard: Shard, seq: int) -> None:
        if str(shard) not in self._registered:
            await store.journal.register(shard, self._consumer, seq=seq, hold=self._hold)
            self._registered.add(str(shard))
        await store.journal.advance(shard, self._consumer, seq)
