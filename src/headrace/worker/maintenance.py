"""The repairer: sweeps queues of what is over, so that it also happens where nobody claims."""

import asyncio
import random
from collections.abc import Sequence

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

ROUNDS_MAX = 100
"""Sweeps of one queue in a row: a large heap is carried off over several visits."""


async def keep_repairing(store: Store, queues: Sequence[Queue], repair_ms: int, chance: random.Random) -> None:
    """Visit all queues again and again until cancelled; workers that started together do not come together."""
    while True:
        await asyncio.sleep(repair_ms / 1000 * chance.uniform(0.5, 1.5))
        for queue in queues:
            try:
                await _repair(store, queue)
            except (HeadraceError, OSError):
                break  # the exchange notices the same, waits for the store and tells


async def _repair(store: Store, queue: Queue) -> None:
    for _ in range(ROUNDS_MAX):
        if not (await store.jobs.repair(queue)).more:
            return
