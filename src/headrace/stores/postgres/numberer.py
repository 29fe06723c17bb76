"""The numberer beside the calls: moves a shard's inbox to its journal when some calls have gathered there."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from headrace.model.errors import HeadraceError
from headrace.model.names import Shard

GATHERED = 64
"""Calls in a shard's inbox from which on it is worth a transaction to number them: reading counts adds them up."""


class Numberer:
    """One numbering at a time for each shard, as far as this process goes. Whoever reads the journal numbers what is
    left, so nothing depends on this one: what fails here is done later."""

    def __init__(self, number: Callable[[Shard], Awaitable[None]]) -> None:
        self._number = number
        self._running: dict[Shard, asyncio.Task[None]] = {}

    def gathered(self, calls: Mapping[Shard, int]) -> None:
        """Note how many calls are in the inbox of each shard; on the event loop."""
        for shard, count in calls.items():
            if count >= GATHERED and shard not in self._running:
                self._running[shard] = asyncio.create_task(self._run(shard))

    async def _run(self, shard: Shard) -> None:
        try:
            with contextlib.suppress(HeadraceError):
                await self._number(shard)
        finally:
            del self._running[shard]

    async def close(self) -> None:
        """Wait for those that run."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)
